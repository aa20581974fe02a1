"""How Spark finds the watermark of every event: the methods there are, and which of them pays for a job and a log.

All give the same results. They differ in what they sort:

- ``window``: Spark's ``Window`` over each timeline. One shuffle and one sort of every event, with all it carries.
- ``packed``: a first pass bounds every watermark from above, which settles all events above the bound. For the
  others the running maximum is computed inside ranges of arrival, one task each, over two packed integers a row: no
  shuffle, and a sort that Spark does by radix.
- ``stored``: where files hold each partition's events in order, the running maximum is taken as they lie, by tasks
  that remember the last one of each timeline, inside ranges of arrival. Nothing is sorted.
- ``first_passage``: for windows of a grid it is enough to know which cell of the grid a watermark lies in, and where
  in the log each cell was first reached: one hash aggregate, then one lookup an event. No sort at all.

Where windows go by first passage, verdicts beside them go as stored, or are packed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pipelines.core.model import AnyOf, Grid, Job, StreamAnalyticsOrdering
from pipelines.core.time import SECOND, format_duration

Scan = Literal["window", "packed", "stored", "first_passage"]

FEW_ROWS = 2_000_000
"""Up to so many arrivals a further pass over the log costs more than sorting it."""

FINEST_CELL_US = SECOND
"""Grids with finer cells have about as many cells as events: their first passages are no summary any more."""

_ORDERED = frozenset({"first", "last", "collect"})


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """``verdicts``: how verdicts find their watermarks; ``windows``: how windows do, alone or beside verdicts.

    ``reason`` says why in a sentence."""

    verdicts: Scan
    windows: Scan
    reason: str

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {"verdicts": self.verdicts, "windows": self.windows, "reason": self.reason}


SORT = WatermarkStrategy("window", "window", "not asked for any other")
"""What holds for every job and every log."""


def choose_strategy(job: Job, rows: int | None, *, in_order: bool = False) -> WatermarkStrategy:
    """The method for ``job`` over about ``rows`` arrivals (None: nobody knows how many); ``in_order``: files are known
    to hold each partition's events in order."""
    if job.profile != "stream_analytics":
        return WatermarkStrategy(
            "window", "window", f"{job.profile} combines the watermarks of all partitions: one sort decides"
        )
    if rows is None:
        return WatermarkStrategy("window", "window", "the logs do not say how many arrivals there are to read")
    if rows <= FEW_ROWS:
        return WatermarkStrategy(
            "window", "window", f"{rows:,} arrivals: sorting them costs less than passing over them twice"
        )
    verdicts: Scan = "stored" if in_order else "packed"
    lie = (
        f"{rows:,} arrivals, whose files are in order: watermarks are found as they lie"
        if in_order
        else f"{rows:,} arrivals: only what lies below a bound of the watermark is sorted"
    )
    cell_us = cell_of(job)
    if cell_us is None:
        return WatermarkStrategy(verdicts, verdicts, lie)
    passage = f"windows need no more than the first passage of each {format_duration(cell_us)}"
    return WatermarkStrategy(verdicts, "first_passage", f"{lie}; {passage}")


def cell_of(job: Job) -> int | None:
    """Microseconds of the cells that the query's windows are made of, where knowing an event's cell is enough.

    It is not where an event's own time matters: it may be dropped for it, joined by it, ordered by it, or windows may
    begin and end with it; nor under ``hold``, which weighs the time itself.
    """
    query = job.query
    windows = [window for _, window in query.window.members] if isinstance(query.window, AnyOf) else [query.window]
    if query.join is not None or job.end_of_log == "hold":
        return None
    if any(one.function in _ORDERED for one in query.aggregates):
        return None
    for name in query.sources:
        ordering = job.ordering(name)
        if not isinstance(ordering, StreamAnalyticsOrdering):
            return None
        if ordering.action == "drop" and job.input(name).timestamp_by is not None:
            return None
    grids = [window for window in windows if isinstance(window, Grid)]
    if len(grids) < len(windows):
        return None
    origin_us = origin_of(job)
    cell_us = math.gcd(
        *(grid.size_us for grid in grids),
        *(grid.hop_us for grid in grids),
        *(grid.align_us + grid.offset_us - origin_us for grid in grids),
    )
    return cell_us if cell_us >= FINEST_CELL_US else None


def origin_of(job: Job) -> int:
    """A border of the cells of :func:`cell_of`."""
    window = job.query.window
    first = window.members[0][1] if isinstance(window, AnyOf) else window
    assert isinstance(first, Grid), "only grids have cells"
    return first.align_us + first.offset_us
