"""``<job>/stream_windows``: what the live run wrote, day by day. Dagster looks at it and never makes it."""

from collections.abc import Iterator

import dagster as dg

from assets.errors import told
from assets.keys import stream_windows_key
from assets.ranges import key_of
from pipelines.core.model import Job
from pipelines.quality.stream_days import StreamDay, stream_days
from resources.lakehouse import LakehouseResource

_ABOUT = """What the live run of **{job}** wrote: `{table}`, by the UTC day on which the window ends.

`tailrace stream` or the streaming job itself writes it. Observing it writes nothing: it tells each day's
rows, and a data version that changes when the day's files do."""


def stream_windows_asset(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The observable asset ``<job>/stream_windows``, partitioned by output day."""
    key = stream_windows_key(job.name)
    spec = dg.AssetSpec(
        key,
        group_name=job.name,
        partitions_def=partitions,
        description=_ABOUT.format(job=job.name, table=job.stream_windows),
        kinds={"delta"},
        metadata={"table": job.stream_windows},
        # each day is observed on its own, with metadata, so there is no observation of the asset as a whole
        skippable=True,
    )

    @dg.multi_observable_source_asset(name=f"{job.name}__stream_windows", specs=[spec])  # type: ignore[untyped-decorator]
    def stream_windows(context: dg.AssetExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.ObserveResult]:
        with told():
            days = stream_days(lakehouse.house, job)
        known = set(partitions.get_partition_keys())
        for day in days:
            if key_of(day.day) in known:
                context.log_event(_observed(key, day))
        context.log.info(f"{len(days)} days in {job.stream_windows}")
        yield from ()

    assert isinstance(stream_windows, dg.AssetsDefinition)
    return stream_windows


def _observed(key: dg.AssetKey, day: StreamDay) -> dg.AssetObservation:
    rows = {} if day.rows is None else {"dagster/partition_row_count": dg.MetadataValue.int(day.rows)}
    tags = {"dagster/data_version": day.identity}
    return dg.AssetObservation(key, partition=key_of(day.day), metadata=rows, tags=tags)
