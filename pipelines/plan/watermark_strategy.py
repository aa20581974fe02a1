"""How Spark finds the watermark of every event: the strategies, and which of them pays for a job and a log.

All give the same results. They differ in what they sort:

- ``sort``: Spark's ``Window`` over each timeline. One shuffle and one sort of every event, with all it holds.
- ``packed``: a first pass bounds every watermark from above, which settles all events above the bound. For the others
  the running maximum is computed inside ranges of arrival, one task each, over two packed integers a row: no shuffle,
  and a sort that Spark does by radix.
- ``file_order``: where files hold each partition's events in order, tasks keep the greatest time of each timeline while
  they read, inside ranges of arrival. Nothing is sorted.
- ``grid_cells``: for windows of a grid it is enough to know which cell of the grid a watermark is in, and where in the
  log each cell was first reached: one hash aggregate, then one lookup an event. No sort at all. Verdicts beside such
  windows are found by ``file_order`` or ``packed``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

from pipelines.core.model import Grid, Job, StreamAnalyticsOrdering
from pipelines.core.time import SECOND, format_duration
from pipelines.plan.extent import members_of

Strategy = Literal["sort", "packed", "file_order", "grid_cells"]

FEW_ROWS = 2_000_000
"""Up to so many arrivals a further pass over the log costs more than sorting it."""

FINEST_CELL_US = SECOND
"""Grids with finer cells have about as many cells as events: their first passages are no summary any more."""

_ORDERED = frozenset({"first", "last", "collect"})


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How verdicts find their watermarks, how windows do, alone or beside verdicts, and why, in a sentence."""

    verdicts: Strategy
    windows: Strategy
    reason: str

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return asdict(self)


SORT = WatermarkStrategy("sort", "sort", "no other was asked for")
"""What suits every job and every log."""


@dataclass(frozen=True, slots=True)
class CellGrid:
    """A grid of cells ``(end - width, end]``, named by their ends, one of which is ``origin_us``."""

    width_us: int
    origin_us: int


def choose_strategy(job: Job, rows: int | None, *, in_order: bool = False) -> WatermarkStrategy:
    """The strategy for ``job`` over about ``rows`` arrivals (None: nobody knows how many); ``in_order``: files are
    known to hold each partition's events in order."""
    if job.profile != "stream_analytics":
        return _sorted(f"{job.profile} combines the watermarks of all partitions: one sort decides")
    if rows is None:
        return _sorted("the logs do not state how many arrivals there are to read")
    if rows <= FEW_ROWS:
        return _sorted(f"{rows:,} arrivals: sorting them costs less than passing over them twice")
    verdicts: Strategy = "file_order" if in_order else "packed"
    reason = (
        f"{rows:,} arrivals, whose files are in order: watermarks are found in file order"
        if in_order
        else f"{rows:,} arrivals: only what is below a bound of the watermark is sorted"
    )
    grid = cell_grid_of(job)
    if grid is None:
        return WatermarkStrategy(verdicts, verdicts, reason)
    cells = f"windows need no more than the watermark's cell of {format_duration(grid.width_us)}"
    return WatermarkStrategy(verdicts, "grid_cells", f"{reason}; {cells}")


def _sorted(reason: str) -> WatermarkStrategy:
    return WatermarkStrategy("sort", "sort", reason)


def cell_grid_of(job: Job) -> CellGrid | None:
    """The cells that the query's windows are made of, where knowing an event's cell is enough.

    It is not where an event's own time matters: it may be dropped for it, joined by it, ordered by it, or windows may
    begin and end with it; nor under ``hold``, which weighs the time itself, nor in steps, whose rows have the time.
    """
    if job.steps is not None or job.end_of_log == "hold":
        return None
    query = job.window_query
    if query.join is not None:
        return None
    if any(one.function in _ORDERED for one in query.aggregates):
        return None
    for name in query.sources:
        ordering = job.ordering(name)
        if not isinstance(ordering, StreamAnalyticsOrdering):
            return None
        if ordering.action == "drop" and job.input(name).timestamp_by is not None:
            return None
    grids = []
    for _, window in members_of(query.window):
        if not isinstance(window, Grid):
            return None
        grids.append(window)
    origin_us = grids[0].align_us + grids[0].offset_us
    width_us = math.gcd(
        *(grid.size_us for grid in grids),
        *(grid.hop_us for grid in grids),
        *(grid.align_us + grid.offset_us - origin_us for grid in grids),
    )
    return CellGrid(width_us, origin_us) if width_us >= FINEST_CELL_US else None
