"""The strategies by which Spark finds the watermark of every event, and the choice of one for a job and a log.

All strategies give the same results. They differ in what they sort:

- ``sort``: Spark's ``Window`` over each timeline. One shuffle and one sort of every event, with all its columns.
- ``packed``: a first pass bounds every watermark from above; an event above the bound needs no watermark. For the
  others the running maximum is computed inside ranges of arrival, one task each, over two packed integers a row: no
  shuffle, and a radix sort.
- ``file_order``: where files contain each partition's events in order, tasks keep the greatest time of each timeline
  while they read, inside ranges of arrival. Nothing is sorted.
- ``grid_cells``: windows of a grid need only the cell of the grid that a watermark is in. One hash aggregate finds the
  position at which each cell was first reached, one lookup an event finds its cell. Nothing is sorted. Verdicts, where
  they are wanted as well, are found by ``file_order`` or ``packed``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

from pipelines.core.model import Aggregate, Grid, Job, StreamAnalyticsOrdering, Window
from pipelines.core.query import members_of
from pipelines.core.steps import (
    SYSTEM_TIMESTAMP,
    Applied,
    Filtered,
    InputRows,
    Projected,
    Rows,
    StepRows,
    Steps,
    United,
    Windowed,
    children_of,
    origin_of,
    walk,
)
from pipelines.core.time import SECOND, format_duration

Strategy = Literal["sort", "packed", "file_order", "grid_cells"]

FEW_ROWS = 2_000_000
"""Up to this number of arrivals another pass over the log costs more than a sort."""

FINEST_CELL_US = SECOND
"""Grids with finer cells have about as many cells as events, so the first positions of cells summarise nothing."""

_ORDERED = frozenset({"first", "last", "collect", "top_one", "collect_top"})
_BY_ROW = (InputRows, StepRows, Filtered, Projected, Applied, United, Windowed)


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """The strategy for verdicts, the one for windows, and the reason in a sentence."""

    verdicts: Strategy
    windows: Strategy
    reason: str

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return asdict(self)


SORT = WatermarkStrategy("sort", "sort", "the strategy for every job and every log")


@dataclass(frozen=True, slots=True)
class CellGrid:
    """A grid of cells ``(end - width, end]``, named by their ends, one of which is ``origin_us``."""

    width_us: int
    origin_us: int


def choose_strategy(job: Job, rows: int | None, *, in_order: bool = False) -> WatermarkStrategy:
    """The strategy for ``job`` over about ``rows`` arrivals (None: unknown); ``in_order``: files are known to contain
    each partition's events in order."""
    if job.profile != "stream_analytics":
        return _sorted(f"{job.profile} combines the watermarks of all partitions: one sort decides")
    if rows is None:
        return _sorted("the statistics of the logs lack the number of arrivals")
    if rows <= FEW_ROWS:
        return _sorted(f"{rows:,} arrivals: one sort costs less than two passes")
    verdicts: Strategy = "file_order" if in_order else "packed"
    reason = (
        f"{rows:,} arrivals, whose files are in order: watermarks are found in file order"
        if in_order
        else f"{rows:,} arrivals: only events below a bound of the watermark are sorted"
    )
    grid = cell_grid_of(job)
    if grid is None:
        return WatermarkStrategy(verdicts, verdicts, reason)
    cells = f"windows need only the watermark's cell of {format_duration(grid.width_us)}"
    return WatermarkStrategy(verdicts, "grid_cells", f"{reason}; {cells}")


def _sorted(reason: str) -> WatermarkStrategy:
    return WatermarkStrategy("sort", "sort", reason)


def cell_grid_of(job: Job) -> CellGrid | None:
    """The cells that the windows which events meet first consist of; None where a result depends on more of an event's
    time than its cell: a drop policy, rows and joins of events, an aggregate that needs an order, other windows than
    grids, ``hold``, a step before the window that reads the time.
    """
    windows = _first_windows(job)
    if windows is None or job.end_of_log == "hold":
        return None
    for part in job.inputs:
        ordering = job.ordering(part.name)
        if not isinstance(ordering, StreamAnalyticsOrdering):
            return None
        if ordering.action == "drop" and part.timestamp_by is not None:
            return None
    if any(one.function in _ORDERED for _, aggregates in windows for one in aggregates):
        return None
    grids = []
    for _, member in (named for window, _ in windows for named in members_of(window)):
        if not isinstance(member, Grid):
            return None
        grids.append(member)
    origin_us = grids[0].align_us + grids[0].offset_us
    width_us = math.gcd(
        *(grid.size_us for grid in grids),
        *(grid.hop_us for grid in grids),
        *(grid.align_us + grid.offset_us - origin_us for grid in grids),
    )
    return CellGrid(width_us, origin_us) if width_us >= FINEST_CELL_US else None


def _first_windows(job: Job) -> list[tuple[Window, tuple[Aggregate, ...]]] | None:
    """The window that events meet first on each path to an output, with its aggregates; None if anything before it, or
    a path without one, needs the time of events."""
    if job.steps is None:
        query = job.window_query
        return None if query.join is not None else [(query.window, query.aggregates)]
    found: list[tuple[Window, tuple[Aggregate, ...]]] = []
    waiting = [one.rows for one in job.steps.outputs]
    while waiting:
        rows = waiting.pop()
        if isinstance(rows, InputRows):
            return None
        if isinstance(rows, StepRows):
            waiting.append(job.steps.step(rows.step))
        elif isinstance(rows, Windowed) and origin_of(rows.rows, job.steps) == "event":
            if _reads_time(rows, job.steps):
                return None
            found.append((rows.window, rows.aggregates))
        else:
            waiting += children_of(rows)
    return found


def _reads_time(rows: Rows, steps: Steps) -> bool:
    """Whether the relation depends on more than the values of single events, by an expression or by what it is."""
    parts = tuple(walk(rows))
    # every expression is a part of the text
    return (
        SYSTEM_TIMESTAMP in repr(rows).lower()
        or not all(isinstance(one, _BY_ROW) for one in parts)
        or any(_reads_time(steps.step(one.step), steps) for one in parts if isinstance(one, StepRows))
    )
