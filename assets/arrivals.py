"""``<job>/arrivals``: what ``tailrace ingest`` put into the arrival logs, by day of arrival."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import date

import dagster as dg

from assets.errors import as_failure
from assets.keys import SPARK_POOL, arrivals_key
from assets.new_arrivals import about_ingest, ingest_all
from assets.ranges import days_in, key_of, range_of
from assets.tables import about_table
from pipelines.core.errors import UsageError
from pipelines.core.model import Job
from pipelines.core.time import format_instant
from pipelines.lakehouse.arrival_log import end_of_log, log_files
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.check_result import SAMPLE_ROWS
from pipelines.quality.days import ArrivedDay, arrived_days
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource

_ABOUT = """What arrived, as the broker received it: the logs that the job reads, by the UTC day of arrival.

Tables {tables}. Materialising a day first ingests what is new in the sources of the inputs that have one, of all days;
the others are filled by `tailrace ingest`. Then it reads the logs and reports rows, partitions, first and last arrival
and batches of that day. A day without rows is a day without arrivals; whether more
can still come is in `settled` of the results."""


def arrivals_asset(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The asset ``<job>/arrivals``, partitioned by arrival day."""
    tables = [arrivals_table(part.name) for part in job.logs]

    @dg.asset(
        key=arrivals_key(job.name),
        group_name=job.name,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=SPARK_POOL,
        kinds={"delta"},
        description=_ABOUT.format(tables=", ".join(f"`{table}`" for table in tables)),
        metadata={"profile": job.profile},
    )
    def arrivals(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.MaterializeResult[None]:
        with as_failure():
            ingested = about_ingest(lakehouse.lakehouse, ingest_all(context, job, lakehouse.lakehouse))
            ends = {part.name: _end_of(lakehouse.lakehouse, part.name) for part in job.logs}
            days = range_of(context)
            found = [
                day for part in job.logs for day in arrived_days(spark.session(), lakehouse.lakehouse, part.name, days)
            ]
            about: dict[str, dg.MetadataValue] = {
                f"{name}_end_of_log": dg.MetadataValue.text(end or "empty") for name, end in ends.items()
            }
            about |= ingested
            if len(tables) == 1:
                about |= about_table(lakehouse.lakehouse, tables[0], job)
        by_day: dict[date, list[ArrivedDay]] = defaultdict(list)
        for day in found:
            by_day[day.day].append(day)
        context.log.info(f"{sum(day.events for day in found)} events in {len(by_day)} days of {', '.join(tables)}")
        for key, _ in days_in(days):
            context.add_asset_metadata(_of_day(by_day[date.fromisoformat(key)]) | about, partition_key=key)
        return dg.MaterializeResult(data_version=dg.DataVersion(_identity(found)))

    return arrivals


def _end_of(lakehouse: Lakehouse, input_name: str) -> str | None:
    """The last arrival of an input's log; :class:`UsageError` where there is no log yet."""
    log = lakehouse.open(arrivals_table(input_name))
    if log is None:
        raise UsageError(
            f"the input {input_name} has no arrival log yet: there is no table {arrivals_table(input_name)}"
            f" in {lakehouse.root}",
            hint=f"load it with 'tailrace ingest JOB --input {input_name} FILE...', or give the input a source",
        )
    end_us = end_of_log(log_files(log))
    return None if end_us is None else format_instant(end_us)


def _of_day(days: Sequence[ArrivedDay]) -> dict[str, dg.MetadataValue]:
    """Metadata of one day, over all inputs that have rows in it."""
    events, punctuations = sum(day.events for day in days), sum(day.punctuations for day in days)
    metadata: dict[str, dg.MetadataValue] = {
        "dagster/partition_row_count": dg.MetadataValue.int(events + punctuations),
        "events": dg.MetadataValue.int(events),
        "punctuations": dg.MetadataValue.int(punctuations),
        "batches": dg.MetadataValue.int(sum(len(day.batches) for day in days)),
    }
    if days:
        metadata["first_arrival"] = dg.MetadataValue.text(format_instant(min(day.first_us for day in days)))
        metadata["last_arrival"] = dg.MetadataValue.text(format_instant(max(day.last_us for day in days)))
    for day in days:
        metadata[f"{day.input}_partitions"] = dg.MetadataValue.text(", ".join(map(str, day.partitions)))
        metadata[f"{day.input}_batches"] = dg.MetadataValue.text(", ".join(day.batches[:SAMPLE_ROWS]))
    return metadata


def _identity(found: Sequence[ArrivedDay]) -> str:
    """Names exactly these rows of the log: it changes when a late batch adds to a day."""
    lines = [f"{day.input} {key_of(day.day)} {day.events} {day.punctuations} {day.identity}" for day in found]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
