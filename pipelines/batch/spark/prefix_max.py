"""Scans over arrival order: what was in force just before an event arrived."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def prefix_max(frame: DataFrame, timeline: Sequence[str], order: Sequence[str], value: str, name: str) -> DataFrame:
    """``frame`` and column ``name``: the largest ``value`` of the timeline's rows that come strictly before the row.

    ``timeline`` names the columns whose values a timeline's rows share, ``order`` the columns that order them without
    ties. Null values are passed over; the result is null where no row before has a value.
    """
    before = Window.partitionBy(*timeline).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    return frame.withColumn(name, F.max(value).over(before))
