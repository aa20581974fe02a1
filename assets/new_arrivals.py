"""``<job>_ingest``: what is new in the sources of a job's inputs; and the sensor that asks for it.

Neither needs Spark. Materialising ``<job>/arrivals`` ingests in the same way before it reads the logs.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pyarrow.compute as pc

from assets.errors import as_failure
from assets.keys import JOB_TAG, WHY_TAG, arrivals_key, ingest_name
from assets.ranges import key_of
from assets.sensors import Evaluation, current_job
from pipelines.core.errors import TailraceError
from pipelines.core.model import Input, Job
from pipelines.core.time import SECOND, from_datetime
from pipelines.ingest.batch import IngestSummary
from pipelines.ingest.from_source import ingest_source, unread
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.freshness import living_partitions
from resources.lakehouse import LakehouseResource

_EVERY_SECONDS = 60


def with_source(job: Job) -> list[Input]:
    """The inputs that have a source."""
    return [part for part in job.logs if part.source is not None]


def ingest_all(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, job: Job, lakehouse: Lakehouse
) -> list[IngestSummary]:
    """Ingest what is new in each source; quarantined records are a warning, as the rest was taken."""
    summaries = []
    for part in with_source(job):
        summary = ingest_source(job, part.name, lakehouse)
        context.log.info(f"{part.name}: {summary.appended} appended, {summary.duplicates} duplicate(s) dropped")
        if summary.quarantined:
            first = summary.refused[0]
            context.log.warning(
                f"{part.name}: {summary.quarantined} record(s) are in quarantine, the first because {first.reason}"
            )
        for sentence in (*summary.warnings, *summary.notes):
            context.log.warning(f"{part.name}: {sentence}")
        summaries.append(summary)
    return summaries


def about_ingest(lakehouse: Lakehouse, summaries: Sequence[IngestSummary]) -> dict[str, dg.MetadataValue]:
    """Metadata: what became of the records, and by how many seconds each input partition lies behind the clock."""
    about: dict[str, dg.MetadataValue] = {}
    now_us = from_datetime(datetime.now(UTC))
    for one in summaries:
        counts = {
            "appended": one.appended,
            "quarantined": one.quarantined,
            "duplicates": one.duplicates,
            "held_at_last": one.held_at_last,
        }
        about |= {f"{one.input}_{name}": dg.MetadataValue.int(count) for name, count in counts.items()}
        ends_us = living_partitions(lakehouse, one.input)
        lag = {str(place): (now_us - end_us) // SECOND for place, end_us in ends_us.items() if place is not None}
        about[f"{one.input}_lag_seconds"] = dg.MetadataValue.json(dict(sorted(lag.items())))
    return about


def ingest_job(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.JobDefinition:
    """The job ``<job>_ingest``, which needs no partition: the days that got arrivals count as materialised."""

    @dg.op(name=f"ingest_{job.name}", description=f"Ingests what is new in the sources of {job.name}.")
    def ingest_sources(context: dg.OpExecutionContext, lakehouse: LakehouseResource) -> None:
        with as_failure():
            summaries = ingest_all(context, job, lakehouse.lakehouse)
            about = about_ingest(lakehouse.lakehouse, summaries)
            days = Counter[date]()
            for one in summaries:
                days.update(dict(_days(lakehouse.lakehouse, one)))
        known = set(partitions.get_partition_keys())
        for day, rows in sorted(days.items()):
            if key_of(day) in known:
                metadata = {**about, "rows_ingested": dg.MetadataValue.int(rows)}
                context.log_event(
                    dg.AssetMaterialization(arrivals_key(job.name), partition=key_of(day), metadata=metadata)
                )

    @dg.job(
        name=ingest_name(job.name),
        description=f"Ingests what is new in the sources of {job.name}.",
        executor_def=dg.in_process_executor,
        tags={JOB_TAG: job.name},
    )
    def ingest() -> None:
        ingest_sources()

    return ingest


def _days(lakehouse: Lakehouse, summary: IngestSummary) -> Iterator[tuple[date, int]]:
    """The days of arrival of a batch, and its rows in each."""
    log = lakehouse.open(arrivals_table(summary.input))
    if log is None or not summary.appended:
        return
    rows = log.to_pyarrow_dataset().to_table(["arrival_date"], filter=pc.field("batch_id") == summary.batch_id)
    for row in rows["arrival_date"].value_counts().to_pylist():
        yield row["values"], row["counts"]


def new_arrivals_sensor(job_name: str, path: Path, lakehouse: Lakehouse, *, started: bool) -> dg.SensorDefinition:
    """``<job>_new_arrivals``: asks for ``<job>_ingest`` when a source has something that the log has not."""

    @dg.sensor(
        name=f"{job_name}_new_arrivals",
        job_name=ingest_name(job_name),
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if started else dg.DefaultSensorStatus.STOPPED,
        description="Ingests from the sources of the job's inputs when they have something new.",
    )
    def new_arrivals() -> Evaluation:
        job = current_job(path, job_name)
        if isinstance(job, dg.SkipReason):
            return job
        try:
            found = [unread(lakehouse, part) for part in with_source(job)]
        except TailraceError as error:
            return dg.SkipReason(f"a source cannot be read: {error}")
        new = [one for one in found if one.size]
        if not new:
            return dg.SkipReason("the logs have all that the sources have")
        why = "; ".join(f"the source of {one.input} has {one.size} new {one.unit}" for one in new)
        key = hashlib.sha256(" ".join(one.state for one in found).encode()).hexdigest()[:16]
        return dg.SensorResult(
            run_requests=[dg.RunRequest(run_key=f"{job_name}:ingest:{key}", tags={WHY_TAG: why})],
        )

    return new_arrivals
