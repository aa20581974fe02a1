"""Which windows a lifetime falls in: hopping and tumbling grids, snapshot windows, count windows.

Windows and lifetimes are half-open; a lifetime ``[s, e)`` falls in every window that it overlaps:
``s < window end and e > window start``. An open lifetime has no end and overlaps all later windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import Window as Sorted
from pyspark.sql import functions as F

from pipelines.batch.columns import LIFETIME_END_US, SYSTEM_US, WINDOW_END_US, WINDOW_ID, WINDOW_START_US
from pipelines.core.errors import JobFileError
from pipelines.core.expressions import quoted
from pipelines.core.model import Count, Grid, Snapshot, Window

LIMIT_US = "__limit_us"
"""The one column of the limit's one row."""
NEVER_US = 2**63 - 1
"""Stands for the end of an open lifetime where endpoints are sorted."""

_INDEX = "__index"
_POINT_US = "__point_us"
_IS_START = "__is_start"
_RANK = "__rank"
_BEYOND_US = "__beyond_us"


def lifetime_members(
    lifetimes: DataFrame, window: Window, group_by: Sequence[str], *, hold: bool, limit: DataFrame | None
) -> DataFrame:
    """One row per lifetime and window it falls in: the columns of ``lifetimes`` and the three WINDOW columns.

    ``lifetimes``: SYSTEM_US, LIFETIME_END_US (null while open), anything else. Snapshot and count windows are formed
    for each value of ``group_by``. ``limit`` holds at most one row of LIMIT_US. With ``hold`` a window has rows iff
    its end is at or before it (no row: none has); without, an open lifetime falls in windows that start at or before
    it, and ``limit`` may be None where no lifetime is open.
    """
    if isinstance(window, Grid):
        members = _on_grid(lifetimes, window, hold, limit)
    elif isinstance(window, Snapshot):
        members = _between_points(lifetimes, group_by, _SNAPSHOT)
    elif isinstance(window, Count):
        members = _between_points(lifetimes, group_by, _count_rule(window.n))
    else:
        raise JobFileError(f"profile stream_insight has no window {type(window).__name__}", key="query.window")
    if hold and not isinstance(window, Grid):
        assert limit is not None
        members = members.crossJoin(F.broadcast(limit)).filter(F.col(WINDOW_END_US) <= F.col(LIMIT_US)).drop(LIMIT_US)
    return members.withColumn(WINDOW_ID, F.lit(None).cast("string"))


def _on_grid(lifetimes: DataFrame, grid: Grid, hold: bool, limit: DataFrame | None) -> DataFrame:
    """Windows ``[origin + k * hop, origin + k * hop + size)`` for all whole k (I14)."""
    origin_us = grid.align_us + grid.offset_us
    last_start_us = F.col(LIFETIME_END_US) - 1
    if limit is not None:
        lifetimes = lifetimes.crossJoin(F.broadcast(limit))
        # least() passes over the null end of an open lifetime
        last_start_us = F.least(last_start_us, F.col(LIMIT_US) - (grid.size_us if hold else 0))
    first = _floor_divide(F.col(SYSTEM_US) - grid.size_us - origin_us, grid.hop_us) + 1
    last = _floor_divide(last_start_us - origin_us, grid.hop_us)
    start_us = F.lit(origin_us) + F.col(_INDEX) * grid.hop_us
    return (
        _for_each_index(lifetimes, first, last)
        .withColumn(WINDOW_START_US, start_us)
        .withColumn(WINDOW_END_US, start_us + grid.size_us)
        .drop(_INDEX, LIMIT_US)
    )


@dataclass(frozen=True)
class _PointRule:
    """How numbered points form windows: the window of index i goes from point i to point ``i + span``.

    ``starts_only``: only lifetimes' starts are numbered, not their ends. ``beyond_us`` is added to the last point.
    """

    span: int
    starts_only: bool
    beyond_us: int


_SNAPSHOT = _PointRule(span=1, starts_only=False, beyond_us=0)


def _count_rule(n: int) -> _PointRule:
    return _PointRule(span=n - 1, starts_only=True, beyond_us=1)


def _between_points(lifetimes: DataFrame, group_by: Sequence[str], rule: _PointRule) -> DataFrame:
    """Snapshot (I15) and count (I16) windows: a group's distinct points are numbered, windows go from point to point.

    A lifetime finds the numbers of its own start and end by equality, so its windows are a range of numbers; no
    lifetime is ever compared with all windows.
    """
    keys = [f"__group_{place}" for place in range(len(group_by))]
    for key, name in zip(keys, group_by, strict=True):
        lifetimes = lifetimes.withColumn(key, F.col(quoted(name)))
    lifetimes = lifetimes.withColumn(_POINT_US, F.coalesce(F.col(LIFETIME_END_US), F.lit(NEVER_US)))
    points = _numbered_points(lifetimes, keys, rule)
    placed = _join(lifetimes, points, keys, SYSTEM_US, _POINT_US, {_RANK: "__first"})
    placed = _join(placed, points, keys, _POINT_US, _POINT_US, {_RANK: "__beyond"})
    first = F.col("__first") - rule.span if rule.starts_only else F.col("__first")
    indexed = _for_each_index(placed, F.greatest(first, F.lit(0)), F.col("__beyond") - 1)
    taken = {_POINT_US: WINDOW_START_US, _BEYOND_US: WINDOW_END_US}
    found = _join(indexed, _windows(points, keys, rule), keys, _INDEX, _RANK, taken)
    return found.drop(*keys, _POINT_US, "__first", "__beyond", _INDEX)


def _numbered_points(lifetimes: DataFrame, keys: Sequence[str], rule: _PointRule) -> DataFrame:
    """The distinct endpoints of each group with _RANK: how many numbered points of the group lie before each.

    The endpoints of one group, two numbers each, are sorted by one task.
    """
    start = F.struct(F.col(SYSTEM_US).alias(_POINT_US), F.lit(True).alias(_IS_START))
    end = F.struct(F.col(_POINT_US), F.lit(False).alias(_IS_START))
    points = lifetimes.select(*keys, F.inline(F.array(start, end))).groupBy(*keys, _POINT_US)
    distinct = points.agg(F.max(_IS_START).alias(_IS_START))
    numbered = F.col(_IS_START) if rule.starts_only else F.lit(True)
    earlier = _in_order(keys).rowsBetween(Sorted.unboundedPreceding, -1)
    before = F.sum(numbered.cast("bigint")).over(earlier)
    return distinct.withColumn(_RANK, F.coalesce(before, F.lit(0).cast("bigint")))


def _windows(points: DataFrame, keys: Sequence[str], rule: _PointRule) -> DataFrame:
    """The windows of each group: _RANK is their index, _POINT_US their start, _BEYOND_US their end."""
    numbered = points.filter(_IS_START) if rule.starts_only else points
    last_us = F.lead(_POINT_US, rule.span).over(_in_order(keys))
    ended = numbered.withColumn(_BEYOND_US, last_us).filter(F.col(_BEYOND_US) != NEVER_US)
    return ended.withColumn(_BEYOND_US, F.col(_BEYOND_US) + rule.beyond_us)


def _in_order(keys: Sequence[str]) -> WindowSpec:
    return Sorted.partitionBy(*keys).orderBy(_POINT_US)


def _join(
    left: DataFrame, points: DataFrame, keys: Sequence[str], on: str, point: str, take: dict[str, str]
) -> DataFrame:
    """``left`` and columns of the group's point whose ``point`` equals ``on``; null keys are equal."""
    names = [f"__right{key}" for key in keys]
    right = points.select(
        *(F.col(key).alias(name) for key, name in zip(keys, names, strict=True)),
        F.col(point).alias("__right_point"),
        *(F.col(column).alias(name) for column, name in take.items()),
    )
    equal = F.col(on) == F.col("__right_point")
    for key, name in zip(keys, names, strict=True):
        equal = equal & F.col(key).eqNullSafe(F.col(name))
    return left.join(right, equal, "inner").drop(*names, "__right_point")


def _for_each_index(frame: DataFrame, first: Column, last: Column) -> DataFrame:
    """One row for each whole number from ``first`` to ``last``, column _INDEX; none if ``last`` is the lesser."""
    # sequence() would count downwards
    indices = F.when(first <= last, F.sequence(first, last))
    return frame.withColumn(_INDEX, F.explode(indices))


def _floor_divide(value: Column, by_us: int) -> Column:
    """``floor(value / by_us)`` in whole numbers: a double has no room for microseconds since the year 1."""
    divisor = F.lit(by_us).cast("bigint")
    return F.call_function("div", value - F.pmod(value, divisor), divisor)
