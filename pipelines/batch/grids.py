"""Tumbling and hopping windows: which windows of a grid an instant lies in.

The origin is ``align_us + offset_us``; ``pmod`` keeps the arithmetic right before 1970 and before the origin.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import WINDOW_END_US, WINDOW_START_US
from pipelines.core.model import Grid


def with_grid_of_ends(frame: DataFrame, grid: Grid, at: str) -> DataFrame:
    """One row per row and window ``(end - size, end]`` that contains column ``at`` (S9); window ends are on the grid.

    With a hop longer than the size, rows that fall between two windows are gone.
    """
    end = end_at_or_after(F.col(at), grid.hop_us, grid.align_us + grid.offset_us)
    if grid.hop_us < grid.size_us:
        last = end + floor_to(F.col(at) + grid.size_us - 1 - end, grid.hop_us)
        hit = frame.withColumn(WINDOW_END_US, F.explode(F.sequence(end, last, F.lit(grid.hop_us).cast("bigint"))))
    else:
        hit = frame.withColumn(WINDOW_END_US, end)
        if grid.hop_us > grid.size_us:
            hit = hit.filter(F.col(WINDOW_END_US) < F.col(at) + grid.size_us)
    return hit.withColumn(WINDOW_START_US, F.col(WINDOW_END_US) - grid.size_us)


def with_grid_of_starts(frame: DataFrame, grid: Grid, at: str) -> DataFrame:
    """One row per row and window ``[start, start + size)`` that contains column ``at`` (A6); starts are on the grid.

    With a hop longer than the size, rows that fall between two windows are gone.
    """
    start = F.col(at) - F.pmod(F.col(at) - _origin(grid), F.lit(grid.hop_us))
    if grid.hop_us < grid.size_us:
        first = start - floor_to(start - F.col(at) + grid.size_us - 1, grid.hop_us)
        hit = frame.withColumn(WINDOW_START_US, F.explode(F.sequence(first, start, F.lit(grid.hop_us).cast("bigint"))))
    else:
        hit = frame.withColumn(WINDOW_START_US, start)
        if grid.hop_us > grid.size_us:
            hit = hit.filter(F.col(WINDOW_START_US) + grid.size_us > F.col(at))
    return hit.withColumn(WINDOW_END_US, F.col(WINDOW_START_US) + grid.size_us)


def end_at_or_after(instant_us: Column, step_us: int, origin_us: int) -> Column:
    """The first point of the grid ``origin + k * step`` that is not before the instant."""
    return instant_us + F.pmod(F.lit(origin_us % step_us) - instant_us, F.lit(step_us))


def floor_to(value: Column, step: int) -> Column:
    """The largest multiple of ``step`` that is not above the BIGINT ``value``."""
    return value - F.pmod(value, F.lit(step))


def _origin(grid: Grid) -> Column:
    return F.lit((grid.align_us + grid.offset_us) % grid.hop_us)
