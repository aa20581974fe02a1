"""An arrival log looked at: what each day holds, and whether it is in arrival order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from pipelines.core.model import OutputRange
from pipelines.core.time import format_instant, to_datetime
from pipelines.lakehouse.layout import ARRIVALS, arrivals_table
from pipelines.lakehouse.root import Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED = 20
"""How many rows or batches a report names; it counts them all."""


@dataclass(frozen=True, slots=True)
class ArrivedDay:
    """What ``arrivals/<input>`` holds for one UTC day. ``batches`` holds the first few ids in order of name.

    ``identity`` is a number made of every row's partition, sequence and arrival time, whatever the order of rows: a log
    is append-only, so a day of the same identity has the same rows.
    """

    input: str
    day: date
    events: int
    punctuations: int
    partitions: tuple[int, ...]
    first_us: int
    last_us: int
    batches: tuple[str, ...]
    batch_count: int
    identity: int


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """One row that breaks arrival order, and the row it stands against (None where that row is not known)."""

    input: str
    input_partition: int | None
    sequence: int
    arrival_time_us: int
    problem: str

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "input": self.input,
            "input_partition": self.input_partition,
            "sequence": self.sequence,
            "arrival_time": format_instant(self.arrival_time_us),
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class OrderReport:
    """``rows`` were looked at, ``broken`` of them break the order, ``named`` are the first few of those."""

    rows: int
    broken: int
    named: tuple[OutOfOrder, ...]


def arrived_days(spark: SparkSession, lakehouse: Lakehouse, input_name: str, days: OutputRange) -> list[ArrivedDay]:
    """What the log of ``input_name`` holds for the days of ``days``, oldest first; days without rows are left out."""
    from pyspark.sql import functions as F

    rows = _arrivals(spark, lakehouse, input_name, days)
    if rows is None:
        return []
    is_event = F.col("kind") == "event"
    identity = F.xxhash64("input_partition", "sequence", "arrival_time").cast("decimal(38,0)")
    found = rows.groupBy("arrival_date").agg(
        F.count_if(is_event).alias("events"),
        F.count_if(~is_event).alias("punctuations"),
        F.array_sort(F.collect_set("input_partition")).alias("partitions"),
        F.unix_micros(F.min("arrival_time")).alias("first_us"),
        F.unix_micros(F.max("arrival_time")).alias("last_us"),
        F.array_sort(F.collect_set("batch_id")).alias("batches"),
        F.sum(identity).alias("identity"),
    )
    return [
        ArrivedDay(
            input=input_name,
            day=row["arrival_date"],
            events=row["events"],
            punctuations=row["punctuations"],
            partitions=tuple(row["partitions"]),
            first_us=row["first_us"],
            last_us=row["last_us"],
            batches=tuple(row["batches"][:NAMED]),
            batch_count=len(row["batches"]),
            identity=int(row["identity"]),
        )
        for row in sorted(found.collect(), key=lambda row: row["arrival_date"])
    ]


def arrival_order(spark: SparkSession, lakehouse: Lakehouse, input_name: str, days: OutputRange) -> OrderReport:
    """Whether the log of ``input_name`` is in arrival order over ``days`` (whole UTC days) and against all before them.

    In order: inside one input partition (punctuations that speak for all form one of their own), rows by rising
    ``sequence`` never share one, and ``arrival_time`` never falls; ``arrival_date`` is the arrival's UTC date. Rows of
    one day are compared with their neighbours, days with each other by their greatest sequence, so no task sorts more
    than one partition's day.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rows = _arrivals(spark, lakehouse, input_name, days)
    if rows is None:
        return OrderReport(0, 0, ())
    place = ["input_partition", "arrival_date"]
    up_to = _arrivals(spark, lakehouse, input_name, OutputRange(None, days.to_us))
    assert up_to is not None
    by_day = Window.partitionBy("input_partition").orderBy("arrival_date")
    earlier = F.max("greatest").over(by_day.rowsBetween(Window.unboundedPreceding, -1))
    ends = up_to.groupBy(place).agg(F.max("sequence").alias("greatest")).withColumn("earlier", earlier)
    ends = ends.select(F.col("input_partition").alias("p"), F.col("arrival_date").alias("d"), "earlier")
    # the arrival time after the sequence, so that rows of one sequence stand in a fixed order
    neighbours = Window.partitionBy(place).orderBy("sequence", "arrival_time")
    arrival_us = F.unix_micros("arrival_time").alias("arrival_us")
    seen = (
        rows.select(*place, "sequence", "arrival_time", arrival_us)
        .withColumn("before_sequence", F.lag("sequence").over(neighbours))
        .withColumn("before_us", F.lag("arrival_us").over(neighbours))
        .join(
            F.broadcast(ends),
            F.col("p").eqNullSafe(F.col("input_partition")) & (F.col("d") == F.col("arrival_date")),
            "left",
        )
    )
    problem = (
        F.when(F.to_date("arrival_time") != F.col("arrival_date"), F.lit("date"))
        .when(F.col("sequence") == F.col("before_sequence"), F.lit("twice"))
        .when(F.col("arrival_us") < F.col("before_us"), F.lit("falls"))
        .when(F.col("sequence") <= F.col("earlier"), F.lit("days"))
    )
    judged = seen.withColumn("problem", problem)
    total = judged.agg(F.count("*").alias("rows"), F.count("problem").alias("broken")).collect()[0]
    named: tuple[OutOfOrder, ...] = ()
    if total["broken"]:
        first = judged.filter("problem IS NOT NULL").orderBy("arrival_date", "input_partition", "sequence")
        named = tuple(_told(input_name, row.asDict()) for row in first.limit(NAMED).collect())
    return OrderReport(total["rows"], total["broken"], named)


def _arrivals(spark: SparkSession, lakehouse: Lakehouse, input_name: str, days: OutputRange) -> DataFrame | None:
    """Rows of whole days, by ``arrival_date``: a row that lies in the wrong day is looked at in the day it lies in."""
    name = arrivals_table(input_name)
    if lakehouse.open(name) is None:
        return None
    rows = spark.read.format("delta").load(lakehouse.uri(name))
    if days.from_us is not None:
        rows = rows.filter(f"{ARRIVALS.day} >= DATE '{to_datetime(days.from_us).date()}'")
    if days.to_us is not None:
        rows = rows.filter(f"{ARRIVALS.day} <= DATE '{to_datetime(days.to_us - 1).date()}'")
    return rows


def _told(input_name: str, row: dict[str, Any]) -> OutOfOrder:
    sequence, arrival_us = row["sequence"], row["arrival_us"]
    match row["problem"]:
        case "date":
            told = f"lies in the partition of {row['arrival_date']}, which is not the day it arrived"
        case "twice":
            told = f"sequence {sequence} stands there twice"
        case "falls":
            before = format_instant(row["before_us"])
            told = f"arrival_time falls: sequence {row['before_sequence']} before it arrived at {before}"
        case _:
            told = f"sequence does not rise: an earlier day holds sequence {row['earlier']}"
    return OutOfOrder(input_name, row["input_partition"], sequence, arrival_us, told)
