"""Check ``arrival_order``: whether an arrival log is in arrival order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.core.model import OutputRange
from pipelines.core.time import format_instant
from pipelines.lakehouse.layout import ARRIVALS, arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.check_result import SAMPLE_ROWS, CheckResult
from pipelines.quality.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_arrival_order(spark: SparkSession, lakehouse: Lakehouse, input_name: str, days: OutputRange) -> CheckResult:
    """Whether the log of ``input_name`` is in arrival order over ``days`` (whole UTC days) and against all before them.

    In order: inside one input partition (punctuations that apply to all form one of their own), rows by rising
    ``sequence`` never share one, and ``arrival_time`` never falls; ``arrival_date`` is the arrival's UTC date. Counts
    ``rows``. A log that is not written has no rows.
    """
    from pyspark.sql import functions as F

    name = arrivals_table(input_name)
    if lakehouse.open(name) is None:
        return CheckResult("arrival_order", True, True, 0, (), f"{name} is not written yet: no rows")
    judged = _with_problem(
        table_rows(spark, lakehouse, name, ARRIVALS.days(days)),
        table_rows(spark, lakehouse, name, ARRIVALS.days(OutputRange(None, days.to_us))),
    )
    rows, broken = judged.agg(F.count("*"), F.count("problem")).collect()[0]
    counts = {"rows": rows}
    if not broken:
        return CheckResult("arrival_order", True, True, 0, (), f"the {rows} row(s) of {name} are in order", counts)
    first = judged.filter("problem IS NOT NULL").orderBy("arrival_date", "input_partition", "sequence")
    sample = tuple(_described(input_name, row.asDict()) for row in first.limit(SAMPLE_ROWS).collect())
    named = "{input}/{input_partition}/{sequence}: {problem}".format_map(sample[0])
    description = f"{broken} of {rows} row(s) of {name} break arrival order; the first: {named}"
    return CheckResult("arrival_order", False, True, broken, sample, description, counts)


def _with_problem(rows: DataFrame, up_to: DataFrame) -> DataFrame:
    """``rows`` of some days with what is wrong about each; ``up_to`` are those rows and the rows of all days before.

    Rows of one day are compared with their neighbours, days with each other by their greatest sequence, so no task
    sorts more than one partition's day.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    place = ["input_partition", "arrival_date"]
    by_day = Window.partitionBy("input_partition").orderBy("arrival_date")
    earlier = F.max("greatest").over(by_day.rowsBetween(Window.unboundedPreceding, -1))
    ends = up_to.groupBy(place).agg(F.max("sequence").alias("greatest")).withColumn("earlier", earlier)
    ends = ends.select(F.col("input_partition").alias("p"), F.col("arrival_date").alias("d"), "earlier")
    # the arrival time after the sequence, so that rows of one sequence have a fixed order
    neighbours = Window.partitionBy(place).orderBy("sequence", "arrival_time")
    same_day = F.col("p").eqNullSafe(F.col("input_partition")) & (F.col("d") == F.col("arrival_date"))
    arrival_us = F.unix_micros("arrival_time").alias("arrival_us")
    seen = (
        rows.select(*place, "sequence", "arrival_time", arrival_us)
        .withColumn("before_sequence", F.lag("sequence").over(neighbours))
        .withColumn("before_us", F.lag("arrival_us").over(neighbours))
        .join(F.broadcast(ends), same_day, "left")
    )
    problem = (
        F.when(F.to_date("arrival_time") != F.col("arrival_date"), F.lit("date"))
        .when(F.col("sequence") == F.col("before_sequence"), F.lit("twice"))
        .when(F.col("arrival_us") < F.col("before_us"), F.lit("falls"))
        .when(F.col("sequence") <= F.col("earlier"), F.lit("days"))
    )
    return seen.withColumn("problem", problem)


def _described(input_name: str, row: dict[str, Any]) -> dict[str, object]:
    """A row that breaks the order, and the row that it contradicts, as JSON-ready data."""
    match row["problem"]:
        case "date":
            problem = f"is in the partition of {row['arrival_date']}, which is not the day it arrived"
        case "twice":
            problem = f"sequence {row['sequence']} occurs twice"
        case "falls":
            before = format_instant(row["before_us"])
            problem = f"arrival_time falls: sequence {row['before_sequence']} before it arrived at {before}"
        case _:
            problem = f"sequence does not rise: an earlier day has sequence {row['earlier']}"
    return {
        "input": input_name,
        "input_partition": row["input_partition"],
        "sequence": row["sequence"],
        "arrival_time": format_instant(row["arrival_us"]),
        "problem": problem,
    }
