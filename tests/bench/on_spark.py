"""The log as Spark reads it, plain windowing, and the exact job as it is usually written."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.logs import Log
from bench.questions import Question
from pipelines.core.time import SECOND


def arrivals(spark: SparkSession, log: Log) -> DataFrame:
    """The log as it lies."""
    return spark.read.format("delta").load(log.uri)


def plain(log: DataFrame, question: Question) -> DataFrame:
    """Windows by event time at face value: what is written when nobody asks what the stream did."""
    span = F.window(question.at, f"{question.window_us // SECOND} seconds").alias("span")
    windows = log.filter(question.where or "true").groupBy(span, *question.keys).agg(*_aggregates(question))
    return windows.select(F.col("span.end").alias("window_end"), *question.keys, *question.values)


def textbook(log: DataFrame, question: Question) -> DataFrame:
    """The exact job as it is usually written: a running maximum per timeline, then windows."""
    judged = _judged(log, question).filter("counts_us IS NOT NULL")
    end_us = F.col("counts_us") + F.pmod(-F.col("counts_us"), F.lit(question.window_us))
    windows = judged.groupBy(end_us.alias("end_us"), *question.keys).agg(*_aggregates(question))
    return windows.select(F.timestamp_micros("end_us").alias("window_end"), *question.keys, *question.values)


def textbook_exceptions(log: DataFrame, question: Question) -> Counter[tuple[str, ...]]:
    """How many events were not simply accepted, by their reasons, as :func:`textbook` judges them."""
    counts: Counter[tuple[str, ...]] = Counter()
    tests = ("early", "late", "out_of_order")
    for row in _judged(log, question).groupBy(*tests).count().collect():
        counts[tuple(test for test in tests if row[test])] += row["count"]
    del counts[()]
    return counts


def _judged(log: DataFrame, question: Question) -> DataFrame:
    """Every event with ``early``, ``late``, ``out_of_order`` and ``counts_us``, through Spark's Window."""
    at_us, arrival_us = F.unix_micros(question.at), F.unix_micros("arrival_time")
    floor_us = arrival_us - question.late_us
    early = at_us > arrival_us + question.early_us
    before = Window.partitionBy(*question.timeline).orderBy("sequence").rowsBetween(Window.unboundedPreceding, -1)
    timed = log.select(
        "input_partition",
        "sequence",
        *question.named,
        *([] if question.measured is None else [question.measured]),
        early.alias("early"),
        (~early & (at_us < floor_us)).alias("late"),
        floor_us.alias("floor_us"),
        F.when(~early, F.greatest(at_us, floor_us)).alias("time_us"),
    )
    # greatest passes over the null before a timeline's first event
    highest_us = F.greatest(F.max("time_us").over(before), F.col("floor_us"))
    watermarked = timed.withColumn("watermark_us", highest_us - question.out_of_order_us)
    return watermarked.withColumns(
        {
            "out_of_order": F.coalesce(F.col("time_us") < F.col("watermark_us"), F.lit(False)),
            "counts_us": F.when(F.col("time_us").isNotNull(), F.greatest("time_us", "watermark_us")),
        }
    )


def counted(verdicts: DataFrame) -> Counter[tuple[str, ...]]:
    """Rows of a table of verdicts by their reasons."""
    rows = verdicts.groupBy("reasons").count().collect()
    return Counter({tuple(row["reasons"]): row["count"] for row in rows})


def _aggregates(question: Question) -> list[Column]:
    rows = F.count(F.lit(1)).alias("n")
    if question.measured is None:
        return [rows]
    return [rows, F.sum(question.measured).alias("total"), F.avg(question.measured).alias("mean")]
