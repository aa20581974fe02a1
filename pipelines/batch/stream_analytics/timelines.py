"""What timelines had seen, as a DataFrame to join with their events."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from pipelines.batch.columns import PARTITION
from pipelines.batch.spark.local_rows import local_frame
from pipelines.core.model import Input
from pipelines.plan.initial_state import TimelineState, timeline_values

LATEST_US = "__latest_us"
"""The greatest time that a timeline had seen; null for an input partition that was heard and had none."""


def timelines(spark: SparkSession, source: Input, seen: Sequence[TimelineState]) -> DataFrame:
    """One row a timeline of ``seen``: PARTITION, the columns of ``over``, LATEST_US.

    With ``over`` only timelines that have a time; without, each partition that was heard.
    """
    columns = [column for name in source.over if (column := source.column(name)) is not None]
    rows = [
        (one.partition, *timeline_values(source, one.timeline), one.time_us)
        for one in seen
        if one.partition is not None and (one.time_us is not None or not source.over)
    ]
    types = [(PARTITION, "int"), *((column.name, column.type) for column in columns), (LATEST_US, "bigint")]
    return local_frame(spark, types, rows)
