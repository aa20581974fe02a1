"""The windows of stream_analytics: which of them an event's system timestamp falls in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import SYSTEM_US, WINDOW_END_US, WINDOW_ID, WINDOW_START_US
from pipelines.batch.grids import with_grid_of_ends
from pipelines.batch.stream_analytics.sessions import with_sessions
from pipelines.batch.stream_analytics.sliding import with_sliding
from pipelines.core.model import AnyOf, Grid, Session, SimpleWindow, Sliding, Snapshot, Window


def windowed(frame: DataFrame, window: Window, group_by: Sequence[str]) -> DataFrame:
    """``frame`` (rows with SYSTEM_US), one row per window that the row falls in, with the WINDOW columns.

    Windows are ``(start, end]`` (S9). ``any_of`` is the union of its members' results (S13), each row with its member's
    name in WINDOW_ID, which is null for a single window.
    """
    if not isinstance(window, AnyOf):
        return _simple(frame, window, group_by).withColumn(WINDOW_ID, F.lit(None).cast("string"))
    parts = [_simple(frame, part, group_by).withColumn(WINDOW_ID, F.lit(name)) for name, part in window.members]
    return reduce(DataFrame.unionByName, parts)


def _simple(frame: DataFrame, window: SimpleWindow, group_by: Sequence[str]) -> DataFrame:
    match window:
        case Grid():
            return with_grid_of_ends(frame, window, SYSTEM_US)
        case Sliding():
            return with_sliding(frame, window, group_by)
        case Session():
            return with_sessions(frame, window)
        case Snapshot():
            # S12: an instant is its whole content, so it starts and ends there
            return frame.withColumns({WINDOW_START_US: F.col(SYSTEM_US), WINDOW_END_US: F.col(SYSTEM_US)})
    raise AssertionError(f"stream_analytics has no window {window}")
