"""The contenders that run on Spark, as lazy DataFrames over the same Delta table."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.disorder import INPUT
from bench.jobs import EARLY_US, LATE_US, WINDOW_US, Question
from pipelines.batch import engine
from pipelines.core.time import SECOND
from pipelines.lakehouse.root import Lakehouse

_EXCEPTIONS = "NOT (verdict = 'accepted' AND size(reasons) = 0)"


def arrivals(spark: SparkSession, house: Lakehouse) -> DataFrame:
    """The log as it lies."""
    return spark.read.format("delta").load(house.uri(f"arrivals/{INPUT}"))


def plain(log: DataFrame, question: Question) -> DataFrame:
    """Windows by event time at face value: what is written when nobody asks what the stream did."""
    grouped = log.groupBy(F.window("at", f"{WINDOW_US // SECOND} seconds").alias("span"), "device")
    windows = grouped.agg(*_aggregates(question))
    return windows.select(F.col("span.end").alias("window_end"), "device", "n", "total", "mean")


def textbook(log: DataFrame, question: Question) -> DataFrame:
    """The exact job as it is usually written: a running maximum per timeline, then windows."""
    judged = judged_by_window(log, question).filter("counts_us IS NOT NULL")
    end_us = F.col("counts_us") + F.pmod(-F.col("counts_us"), F.lit(WINDOW_US))
    windows = judged.groupBy(end_us.alias("end_us"), "device").agg(*_aggregates(question))
    return windows.select(F.timestamp_micros("end_us").alias("window_end"), "device", "n", "total", "mean")


def judged_by_window(log: DataFrame, question: Question) -> DataFrame:
    """Every event with ``early``, ``late``, ``out_of_order`` and ``counts_us``, through Spark's Window."""
    at_us, arrival_us = F.unix_micros("at"), F.unix_micros("arrival_time")
    floor_us = arrival_us - LATE_US
    early = at_us > arrival_us + EARLY_US
    timeline = ["input_partition", "device"] if question.over else ["input_partition"]
    before = Window.partitionBy(*timeline).orderBy("sequence").rowsBetween(Window.unboundedPreceding, -1)
    timed = log.select(
        "input_partition",
        "sequence",
        "device",
        question.measured,
        early.alias("early"),
        (~early & (at_us < floor_us)).alias("late"),
        floor_us.alias("floor_us"),
        F.when(~early, F.greatest(at_us, floor_us)).alias("time_us"),
    )
    highest_us = F.greatest(F.max("time_us").over(before), F.col("floor_us"))
    watermarked = timed.withColumn("watermark_us", highest_us - question.out_of_order_us)
    return watermarked.withColumns(
        {
            "out_of_order": F.coalesce(F.col("time_us") < F.col("watermark_us"), F.lit(False)),
            "counts_us": F.when(F.col("time_us").isNotNull(), F.greatest("time_us", "watermark_us")),
        }
    )


def tailrace(log: DataFrame, question: Question) -> DataFrame:
    """Tailrace's windows alone."""
    return engine.run(question.job(), {INPUT: log}).windows


def tailrace_with_exceptions(log: DataFrame, question: Question) -> tuple[DataFrame, DataFrame]:
    """Tailrace's verdicts as ``keep_verdicts: exceptions`` keeps them, and its windows."""
    result = engine.run(question.job(), {INPUT: log})
    return result.verdicts.filter(_EXCEPTIONS), result.windows


def _aggregates(question: Question) -> list[Column]:
    measured = question.measured
    return [F.count(F.lit(1)).alias("n"), F.sum(measured).alias("total"), F.avg(measured).alias("mean")]
