"""What each UTC day of a table contains: of an arrival log, of what a replay wrote, and of what the live run wrote."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.core.errors import UsageError
from pipelines.core.intervals import days_of
from pipelines.core.model import REASONS, Job, OutputRange
from pipelines.ingest.sources.places import result_files
from pipelines.lakehouse.layout import ARRIVALS, OutputTable, arrivals_table, output_tables, verdicts_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.plan.definition import Plan
from pipelines.quality.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.replay.fingerprint import Counted


@dataclass(frozen=True, slots=True)
class ArrivedDay:
    """One UTC day of ``arrivals/<input>``; ``batches`` are ids in order of name.

    ``identity`` is a number made of every row's partition, sequence and arrival time, whatever the order of rows: a log
    is append-only, so a day of the same identity has the same rows.
    """

    input: str
    day: date
    events: int
    punctuations: int
    partitions: Sequence[int | None]
    first_us: int
    last_us: int
    batches: Sequence[str]
    identity: Decimal


def arrived_days(spark: SparkSession, lakehouse: Lakehouse, input_name: str, days: OutputRange) -> list[ArrivedDay]:
    """The days of ``days`` in the log of ``input_name``, oldest first; days without rows are left out."""
    from pyspark.sql import functions as F

    name = arrivals_table(input_name)
    if lakehouse.open(name) is None:
        return []
    is_event = F.col("kind") == "event"
    identity = F.xxhash64("input_partition", "sequence", "arrival_time").cast("decimal(38,0)")
    rows = table_rows(spark, lakehouse, name, ARRIVALS.days(days)).groupBy(F.col(ARRIVALS.day).alias("day"))
    found = rows.agg(
        F.count_if(is_event).alias("events"),
        F.count_if(~is_event).alias("punctuations"),
        F.array_sort(F.collect_set("input_partition")).alias("partitions"),
        F.unix_micros(F.min("arrival_time")).alias("first_us"),
        F.unix_micros(F.max("arrival_time")).alias("last_us"),
        F.array_sort(F.collect_set("batch_id")).alias("batches"),
        F.sum(identity).alias("identity"),
    )
    return [ArrivedDay(input_name, **row.asDict()) for row in sorted(found.collect(), key=lambda row: row["day"])]


@dataclass
class WrittenDay:
    """One UTC day of the output range: results of that day, and verdicts on the events that arrived in it.

    ``results``: for the table of each output its rows, and the fingerprint that a replay of this day alone would have.
    ``counts_by_verdict`` counts every event: those without a row in ``verdicts`` were accepted.
    """

    results: dict[str, Counted]
    events: int = 0
    verdict_rows: int = 0
    counts_by_verdict: Counter[str] = field(default_factory=Counter)
    counts_by_reason: Counter[str] = field(default_factory=Counter)


def written_days(spark: SparkSession, lakehouse: Lakehouse, job: Job, plan: Plan) -> dict[date, WrittenDay]:
    """The rows that the executed ``plan`` wrote, by day.

    Every day that a range with two ends touches has an entry; of an open range the days that have rows.
    """
    from pyspark.sql import functions as F

    from pipelines.replay.fingerprint import NO_ROWS, fingerprints_by

    outputs = output_tables(job)
    nothing = {one.table: NO_ROWS for one in outputs}
    days: dict[date, WrittenDay] = defaultdict(lambda: WrittenDay(dict(nothing)))
    if plan.output.from_us is not None and plan.output.to_us is not None:
        for day, _ in days_of(plan.output):
            days[day]
    for one in outputs:
        rows = table_rows(spark, lakehouse, one.table, one.layout.condition(plan.output))
        for day, counted in fingerprints_by(rows, one.layout.day).items():
            days[day].results[one.table] = counted
    arrived = ARRIVALS.condition(plan.output)
    for log in plan.reads:
        events = table_rows(spark, lakehouse, log.table, arrived, log.version).filter("kind = 'event'")
        for row in events.groupBy(ARRIVALS.day).agg(F.count("*").alias("events")).collect():
            days[row[ARRIVALS.day]].events += row["events"]
    verdicts = table_rows(spark, lakehouse, verdicts_table(job), arrived)
    for row in verdicts.groupBy(ARRIVALS.day, "verdict", "reasons").agg(F.count("*").alias("rows")).collect():
        found = days[row[ARRIVALS.day]]
        found.verdict_rows += row["rows"]
        found.counts_by_verdict[row["verdict"]] += row["rows"]
        found.counts_by_reason.update({reason: row["rows"] for reason in REASONS if reason in row["reasons"]})
    for found in days.values():
        found.counts_by_verdict["accepted"] += found.events - found.verdict_rows
    return dict(days)


@dataclass(frozen=True, slots=True)
class StreamDay:
    """One UTC day of the live run's results. ``identity`` changes when its files do; None rows: not counted."""

    day: date
    rows: int | None
    identity: str


def stream_days(lakehouse: Lakehouse, job: Job, one: OutputTable) -> list[StreamDay]:
    """The days of the live table of an output, oldest first; none where it was never written. Starts no Spark.

    Of a table that is partitioned by ``output_date`` only the Delta log is read. Of another one the time column is
    read, and all of its days change together.
    """
    table = lakehouse.open(one.live)
    if table is None:
        return []
    files, day_column = pa.table(table.get_add_actions(flatten=True)), f"partition.{one.layout.day}"
    if day_column not in files.column_names:
        theirs = {ours: name for name, ours in job.stream_columns}
        return _days_by_rows(table, theirs.get(one.layout.time, one.layout.time))
    days: dict[date, list[tuple[str, int | None]]] = defaultdict(list)
    for row in files.select(["path", "num_records", day_column]).to_pylist():
        if row[day_column] is not None:
            days[row[day_column]].append((row["path"], row["num_records"]))
    return [_stream_day(day, day_files) for day, day_files in sorted(days.items())]


def is_streamed(lakehouse: Lakehouse, one: OutputTable) -> bool:
    """Whether the live run's table exists, or a folder of its files; the name of a catalog's table is not checked."""
    try:
        return lakehouse.open(one.live) is not None or bool(result_files(lakehouse.uri(one.live)))
    except UsageError:
        return True


def _stream_day(day: date, files: list[tuple[str, int | None]]) -> StreamDay:
    counts = [rows for _, rows in files if rows is not None]
    identity = hashlib.sha256("\n".join(sorted(path for path, _ in files)).encode()).hexdigest()
    return StreamDay(day, sum(counts) if len(counts) == len(files) else None, identity)


def _days_by_rows(table: DeltaTable, column: str) -> list[StreamDay]:
    times = table.to_pyarrow_dataset().to_table(columns=[column])[column].drop_null()
    counts = pc.value_counts(times.cast(TIMESTAMP).cast(pa.date32())).to_pylist()
    identity = f"version {table.version()}"
    return sorted((StreamDay(day["values"], day["counts"], identity) for day in counts), key=lambda day: day.day)
