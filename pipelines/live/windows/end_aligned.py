"""Windows of stream_analytics that lie on no grid: sliding, session and snapshot windows.

Tumbling and hopping windows: :mod:`~pipelines.live.windows.by_column`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from itertools import groupby

from pipelines.core.model import Session, SimpleWindow, Sliding, Snapshot
from pipelines.core.values import grouping_key
from pipelines.live.state.arrivals import LogOutOfOrder
from pipelines.live.state.output import WindowResult
from pipelines.live.state.rows import Counted, Row
from pipelines.live.windows.buffers import Formed, RowBuffer, by_group


class EndAlignedBuffer(RowBuffer):
    """Rows in sliding and snapshot windows (S10, S12)."""

    def add(self, counted: Counted) -> None:
        if any(row.start < self.low for row in counted.rows):
            raise LogOutOfOrder("a row came that counts in a window already emitted")
        super().add(counted)

    def formed(self, rows: Sequence[Row], until: int) -> Formed:
        return end_aligned(self.window, rows, self.low, until)

    def needed(self, rows: Sequence[Row], until: int) -> list[Row]:
        return kept(self.window, rows, until)


class SessionBuffer(EndAlignedBuffer):
    """Rows in sessions (S11), which are formed for each value of ``partition_by`` and then grouped (G5)."""

    def keys(self, rows: Sequence[Row]) -> Iterable[Hashable]:
        """For each row a key, equal for rows of one chain."""
        assert isinstance(self.window, Session)
        positions = [self.compiled.positions[column] for column in self.window.partition_by]
        return (grouping_key([row.values[position] for position in positions]) for row in rows)

    def results(self, formed: Formed) -> list[WindowResult]:
        return super().results(by_group(formed))


def end_aligned(window: SimpleWindow, rows: Sequence[Row], low: int, high: int) -> Formed:
    """The windows of a group (sessions: of a chain) whose end lies in ``[low, high)``."""
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


def kept(window: SimpleWindow, rows: Sequence[Row], high: int) -> list[Row]:
    """Those of a group's (chain's) ``rows`` that a window ending at ``high`` or later may still need."""
    match window:
        case Sliding():
            return [row for row in rows if row.start + window.size_us >= high]
        case Snapshot():
            return [row for row in rows if row.start >= high]
        case Session():
            return _kept_in_sessions(window, rows, high)
    raise AssertionError(window)


def _kept_in_sessions(window: Session, rows: Sequence[Row], high: int) -> list[Row]:
    """The rows of each run that a row at ``high`` or later may continue, as far as they decide which check points close
    it: a session that ends at ``high`` contains at most two segments, and a row at most ``timeout`` before them shows
    that the run is older."""
    assert window.max_duration_us is not None
    before = high - 2 * window.max_duration_us - window.timeout_us
    open_runs = [run for run in _runs(window, rows) if run[-1].start + window.timeout_us >= high]
    return [row for run in open_runs for row in run if row.start > before]
