"""``<job>/arrivals``: what ``tailrace ingest`` put into the arrival logs, looked at day by day, never made up."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import Any

import dagster as dg

from assets.errors import told
from assets.keys import SPARK_POOL, arrivals_key
from assets.ranges import checked_range, days_in, key_of, range_of
from assets.tables import about_table
from pipelines.core.errors import UsageError
from pipelines.core.model import Job
from pipelines.core.time import format_instant
from pipelines.lakehouse.arrival_log import end_of_log, log_files
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.arrivals import ArrivedDay, OutOfOrder, arrival_order, arrived_days
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource

_ABOUT = """What arrived, as the broker received it: the logs that the job reads, by the UTC day of arrival.

Tables {tables}. `tailrace ingest` fills them. Materialising a day writes nothing: it looks at what the logs hold for
that day and reports rows, partitions, first and last arrival and batches. A day without rows is a day without
arrivals; whether more can still come is what `settled` says of the results."""


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
        with told():
            ends = {part.name: _end_of(lakehouse.lakehouse, part.name) for part in job.logs}
            days = range_of(context)
            found = [
                day for part in job.logs for day in arrived_days(spark.session(), lakehouse.lakehouse, part.name, days)
            ]
            about: dict[str, dg.MetadataValue] = {
                f"{name}_end_of_log": dg.MetadataValue.text(end or "empty") for name, end in ends.items()
            }
            if len(tables) == 1:
                about |= about_table(lakehouse.lakehouse, tables[0], job)
        by_day: dict[date, list[ArrivedDay]] = defaultdict(list)
        for day in found:
            by_day[day.day].append(day)
        for key, _ in days_in(days):
            held = by_day.get(date.fromisoformat(key), [])
            context.add_asset_metadata(_of_day(held) | about, partition_key=key)
        context.log.info(f"{sum(day.events for day in found)} events in {len(by_day)} days of {', '.join(tables)}")
        return dg.MaterializeResult(data_version=dg.DataVersion(_identity(found)))

    return arrivals


def arrival_order_check(job: Job) -> dg.AssetChecksDefinition:
    """``arrival_order``: sequence rises and arrival time never falls inside each input partition."""

    @dg.asset_check(
        asset=arrivals_key(job.name),
        name="arrival_order",
        pool=SPARK_POOL,
        description=(
            "Inside each input partition sequence rises and arrival_time never falls: over the run's days and against"
            " all days before; over the whole log when executed on its own. To replay a log out of order is to replay"
            " something else."
        ),
    )
    def arrival_order_holds(
        context: dg.AssetCheckExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.AssetCheckResult:
        days = checked_range(context.run.tags)
        with told():
            for part in job.logs:
                _end_of(lakehouse.lakehouse, part.name)
            reports = [arrival_order(spark.session(), lakehouse.lakehouse, part.name, days) for part in job.logs]
        named = [row for report in reports for row in report.named]
        broken = sum(report.broken for report in reports)
        metadata: dict[str, Any] = {"rows": sum(report.rows for report in reports), "broken": broken}
        if named:
            metadata["rows_out_of_order"] = _table(named)
        first = f"{named[0].input}/{named[0].input_partition}/{named[0].sequence}: {named[0].problem}" if named else ""
        return dg.AssetCheckResult(
            passed=not broken,
            metadata=metadata,
            description=f"{broken} rows break arrival order, first {first}" if broken else None,
        )

    return arrival_order_holds


def _end_of(lakehouse: Lakehouse, input_name: str) -> str | None:
    """The last arrival of an input's log; :class:`UsageError` where there is no log yet."""
    log = lakehouse.open(arrivals_table(input_name))
    if log is None:
        raise UsageError(
            f"the input {input_name} has no arrival log yet: there is no table {arrivals_table(input_name)}"
            f" in {lakehouse.root}",
            hint=f"load it with 'tailrace ingest JOB --input {input_name} FILE...'",
        )
    end_us = end_of_log(log_files(log))
    return None if end_us is None else format_instant(end_us)


def _of_day(held: Sequence[ArrivedDay]) -> dict[str, dg.MetadataValue]:
    """Metadata of one day, over all inputs that have rows in it."""
    events, punctuations = sum(day.events for day in held), sum(day.punctuations for day in held)
    metadata: dict[str, dg.MetadataValue] = {
        "dagster/partition_row_count": dg.MetadataValue.int(events + punctuations),
        "events": dg.MetadataValue.int(events),
        "punctuations": dg.MetadataValue.int(punctuations),
        "batches": dg.MetadataValue.int(sum(day.batch_count for day in held)),
    }
    if held:
        metadata["first_arrival"] = dg.MetadataValue.text(format_instant(min(day.first_us for day in held)))
        metadata["last_arrival"] = dg.MetadataValue.text(format_instant(max(day.last_us for day in held)))
    for day in held:
        metadata[f"{day.input}_partitions"] = dg.MetadataValue.text(", ".join(str(number) for number in day.partitions))
        metadata[f"{day.input}_batches"] = dg.MetadataValue.text(", ".join(day.batches))
    return metadata


def _identity(found: Sequence[ArrivedDay]) -> str:
    """Names exactly these rows of the log: it changes when a late batch adds to a day."""
    lines = [f"{day.input} {key_of(day.day)} {day.events} {day.punctuations} {day.identity}" for day in found]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _table(rows: Sequence[OutOfOrder]) -> dg.MetadataValue:
    records = [
        dg.TableRecord({name: "all" if value is None else str(value) for name, value in row.as_dict().items()})
        for row in rows
    ]
    return dg.MetadataValue.table(records)
