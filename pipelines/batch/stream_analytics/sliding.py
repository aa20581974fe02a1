"""Sliding windows: a window ends whenever its content changes (S10)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import SYSTEM_US, WINDOW_END_US, WINDOW_START_US
from pipelines.batch.grids import floor_to
from pipelines.core.model import Sliding

_BUCKET = "__bucket"


def with_sliding(frame: DataFrame, window: Sliding, group_by: Sequence[str]) -> DataFrame:
    """One row per event and window ``(end - size, end]`` of its group that contains the event's system timestamp.

    Windows end where an event enters or leaves: at every system timestamp of the group and every system timestamp
    plus size, each once. An event leaves at exactly its time plus size, so a window is never empty by itself, and a
    window without events has no rows.

    An event's windows end in ``[t, t + size)``. Ends are matched to events by equality on time buckets one size
    wide, of which each window touches at most two, so the work is that of the rows that come out, not of all pairs.
    """
    size_us = window.size_us
    groups = [f"__group_{index}" for index in range(len(group_by))]
    keyed = frame.select("*", *(F.col(column).alias(name) for column, name in zip(group_by, groups, strict=True)))
    at, end = F.col(SYSTEM_US), F.col(WINDOW_END_US)
    ends = keyed.select(*groups, F.explode(F.array(at, at + size_us)).alias(WINDOW_END_US)).distinct()
    touched = F.array_distinct(F.array(floor_to(end - size_us + 1, size_us), floor_to(end, size_us)))
    windows = ends.select(
        *(F.col(name).alias(f"{name}_of_window") for name in groups),
        WINDOW_END_US,
        (end - size_us).alias(WINDOW_START_US),
        F.explode(touched).alias(f"{_BUCKET}_of_window"),
    )
    same = F.col(_BUCKET) == F.col(f"{_BUCKET}_of_window")
    for name in groups:
        same = same & F.col(name).eqNullSafe(F.col(f"{name}_of_window"))
    inside = (at <= end) & (at > F.col(WINDOW_START_US))
    events = keyed.withColumn(_BUCKET, floor_to(at, size_us))
    return events.join(windows, same & inside).select(*frame.columns, WINDOW_START_US, WINDOW_END_US)
