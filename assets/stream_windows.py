"""``<job>/stream_windows``: the windows of the live run by day, which Dagster observes and never makes."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.errors import as_failure
from assets.keys import stream_windows_key
from assets.ranges import key_of
from pipelines.core.model import Job
from pipelines.quality.days import StreamDay, stream_days
from resources.lakehouse import LakehouseResource

_ABOUT = """The window results of the live run, by the UTC day on which the window ends.

Table `{table}`, which `tailrace stream` or the streaming job itself writes. *Observe* it to see the rows of each
day, and a data version that changes when the day's files do. A day that is new or changed then counts as materialised,
because the live run has made it; Dagster itself never does."""
_VERSION_TAG = "dagster/data_version"


def stream_windows_asset(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The observable asset ``<job>/stream_windows``, partitioned by output day."""
    key = stream_windows_key(job.name)
    spec = dg.AssetSpec(
        key,
        group_name=job.name,
        partitions_def=partitions,
        description=_ABOUT.format(table=job.stream_windows),
        kinds={"delta"},
        metadata={"dagster/table_name": job.stream_windows},
        # each day is observed on its own, with metadata, so there is no observation of the asset as a whole
        skippable=True,
    )

    # Dagster has types for its other decorators, not for this one
    @dg.multi_observable_source_asset(name=f"{job.name}__stream_windows", specs=[spec])  # type: ignore[untyped-decorator]
    def stream_windows(context: dg.AssetExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.ObserveResult]:
        with as_failure():
            days = stream_days(lakehouse.lakehouse, job)
        known = set(partitions.get_partition_keys())
        before = context.instance.event_log_storage.get_latest_tags_by_partition(
            key, dg.DagsterEventType.ASSET_MATERIALIZATION, [_VERSION_TAG]
        )
        changed = 0
        for day in days:
            if key_of(day.day) in known:
                context.log_event(dg.AssetObservation(key, **_event(day)))
                if before.get(key_of(day.day), {}).get(_VERSION_TAG) != day.identity:
                    changed += 1
                    context.log_event(dg.AssetMaterialization(key, **_event(day)))
        context.log.info(f"{len(days)} days in {job.stream_windows}, {changed} of them new or changed")
        yield from ()

    assert isinstance(stream_windows, dg.AssetsDefinition)
    return stream_windows


def _event(day: StreamDay) -> dict[str, Any]:
    rows = {} if day.rows is None else {"dagster/partition_row_count": dg.MetadataValue.int(day.rows)}
    return {"partition": key_of(day.day), "metadata": rows, "tags": {_VERSION_TAG: day.identity}}
