"""Windows of the live run: from the rows still held to the windows whose end lies in ``[low, high)``.

Every function forms the windows of one group (sessions: one chain) anew from the rows held, gives those that end in
the interval, and leaves the rest to a later call: a caller that moves ``low`` up to the last ``high`` sees each window
once. What may be forgotten once all windows before ``high`` were given is said by :func:`kept`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import groupby, pairwise

from pipelines.core.model import Count, Grid, Session, SimpleWindow, Sliding, Snapshot
from pipelines.live.state.rows import Row

Formed = list[tuple[int, int, list[Row]]]
"""Windows: start, end, rows."""

FOREVER = 1 << 62
"""Later than every instant."""
NEVER = -FOREVER
"""Earlier than every instant."""


def starts_of(window: Grid, start: int, end: int) -> list[int]:
    """Starts ``b`` on the grid with ``b < end`` and ``b + size > start``, rising (atlas, stream_insight)."""
    origin = window.align_us + window.offset_us
    first = (start - window.size_us - origin) // window.hop_us + 1
    last = -((origin - end) // window.hop_us) - 1
    return [origin + index * window.hop_us for index in range(first, last + 1)]


# -- stream_analytics: (start, end] -----------------------------------------------------------------------------------


def end_aligned(window: SimpleWindow, rows: Sequence[Row], low: int, high: int) -> Formed:
    """The windows of stream_analytics that lie on no grid (those: :mod:`~pipelines.live.windows.by_column`)."""
    match window:
        case Sliding():
            return _sliding(window, rows, low, high)
        case Snapshot():
            equal: dict[int, list[Row]] = {}
            for row in rows:
                if low <= row.start < high:
                    equal.setdefault(row.start, []).append(row)
            return [(time, time, inside) for time, inside in equal.items()]
        case Session():
            return [one for one in _sessions(window, rows) if low <= one[1] < high]
    raise AssertionError(window)


def _sliding(window: Sliding, rows: Sequence[Row], low: int, high: int) -> Formed:
    ordered = sorted(rows, key=lambda row: row.start)
    times = [row.start for row in ordered]
    ends = sorted({end for time in times for end in (time, time + window.size_us) if low <= end < high})
    formed = []
    for end in ends:
        inside = ordered[bisect_left(times, end - window.size_us + 1) : bisect_left(times, end + 1)]
        if inside:
            formed.append((end - window.size_us, end, inside))
    return formed


def _runs(window: Session, rows: Sequence[Row]) -> list[list[Row]]:
    """Rows in order, cut at every pause longer than the timeout."""
    runs: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: (row.start, row.arrived)):
        if runs and row.start <= runs[-1][-1].start + window.timeout_us:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _sessions(window: Session, rows: Sequence[Row]) -> Formed:
    """All sessions (S11), the last one as it would end if nothing followed."""
    formed: Formed = []
    for run in _runs(window, rows):
        for closing, session in groupby(run, partial(_closing, window, run[0].start)):
            inside = list(session)
            formed.append((inside[0].start, min(inside[-1].start + window.timeout_us, closing), inside))
    return formed


def _closing(window: Session, began: int, row: Row) -> int:
    """The check point that closes the row's session at the latest: of a run that began at ``began`` each one closes a
    session that lies at least the greatest duration after that."""
    assert window.max_duration_us is not None
    earliest = max(row.start, began + window.max_duration_us)
    return window.align_us - (window.align_us - earliest) // window.max_duration_us * window.max_duration_us


# -- atlas and stream_insight: [start, end) ---------------------------------------------------------------------------


def start_aligned(window: SimpleWindow, rows: Sequence[Row], low: int, high: int) -> Formed:
    """Grid windows of atlas: a document counts where it was not too late."""
    assert isinstance(window, Grid)
    found: dict[int, list[Row]] = {}
    for row in rows:
        for start in starts_of(window, row.start, row.start + 1):
            if low <= start + window.size_us < high and start not in row.missed:
                found.setdefault(start, []).append(row)
    return [(start, start + window.size_us, inside) for start, inside in found.items()]


def overlapping(window: SimpleWindow, rows: Sequence[Row], low: int, high: int, horizon: int) -> Formed:
    """The windows of stream_insight over lifetimes; what has no end yet reaches as far as ``horizon``, inclusive."""
    match window:
        case Grid():
            found: dict[int, list[Row]] = {}
            for row in rows:
                end = horizon + 1 if row.end is None else row.end
                # of a long lifetime only the windows that are asked for
                earliest = max(row.start, low - window.size_us)
                for start in starts_of(window, earliest, min(end, high)):
                    if low <= start + window.size_us < high:
                        found.setdefault(start, []).append(row)
            return [(start, start + window.size_us, inside) for start, inside in found.items()]
        case Snapshot():
            points = sorted({point for row in rows for point in (row.start, row.end) if point is not None})
            spans = list(pairwise(points))
        case Count():
            starts = sorted({row.start for row in rows})
            spans = [(first, last + 1) for first, last in zip(starts, starts[window.n - 1 :], strict=False)]
        case _:
            raise AssertionError(window)
    formed = []
    for start, end in spans:
        if low <= end < high:
            inside = [row for row in rows if row.start < end and (row.end is None or row.end > start)]
            if inside:
                formed.append((start, end, inside))
    return formed


# -- what may be forgotten --------------------------------------------------------------------------------------------


def kept(profile: str, window: SimpleWindow, rows: Sequence[Row], high: int) -> list[Row]:
    """Those of a group's (chain's) ``rows`` that a window ending at ``high`` or later may still need."""
    if high == NEVER:
        return list(rows)
    match window:
        case Grid():
            size = window.size_us
            return [
                row
                for row in rows
                if row.end is None
                or row.end >= high
                or any(start + size >= high for start in starts_of(window, row.start, row.end)[-1:])
            ]
        case Sliding():
            return [row for row in rows if row.start + window.size_us >= high]
        case Snapshot() if profile == "stream_analytics":
            return [row for row in rows if row.start >= high]
        case Session():
            return _kept_in_sessions(window, rows, high)
        case Snapshot():
            ended = [point for row in rows for point in (row.start, row.end) if point is not None and point < high]
            last = max(ended, default=NEVER)
            return [row for row in rows if row.end is None or row.end >= last]
        case Count():
            # the next window to end may begin with the last n - 1 of the starts that are all there
            starts = sorted({row.start for row in rows if row.start < high - 1})
            if len(starts) < window.n - 1:
                return list(rows)
            first = high - 1 if window.n == 1 else starts[1 - window.n]
            return [row for row in rows if row.start >= first or row.end is None or row.end > first]
    raise AssertionError(window)


def _kept_in_sessions(window: Session, rows: Sequence[Row], high: int) -> list[Row]:
    """The rows of each run that a row at ``high`` or later may continue, as far as they decide which check points close
    it: a session that ends at ``high`` contains at most two segments, and a row at most ``timeout`` before them shows
    that the run is older."""
    assert window.max_duration_us is not None
    before = high - 2 * window.max_duration_us - window.timeout_us
    open_runs = [run for run in _runs(window, rows) if run[-1].start + window.timeout_us >= high]
    return [row for run in open_runs for row in run if row.start > before]
