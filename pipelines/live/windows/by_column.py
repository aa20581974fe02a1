"""Windows of stream_analytics on a grid (S9): rows kept by the column until every window that they are in is final."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from pipelines.core.model import Grid
from pipelines.live.aggregates_by_column import aggregated
from pipelines.live.state.arrivals import LogOutOfOrder
from pipelines.live.state.columns import Numbers, numbered, starts_of_runs, whole
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import WindowResult
from pipelines.live.state.rows import NEVER, Counted
from pipelines.live.windows.buffers import WindowBuffer

_Time = TypeVar("_Time", int, Numbers)
_MOST_AT_ONCE = 1 << 22
"""So many rows in windows are formed at once: a row may be in thousands of hopping windows."""


@dataclass
class ColumnBuffer(WindowBuffer):
    """Rows by the column. Windows that end before ``low`` have been given."""

    compiled: CompiledJob
    window_id: str | None
    window: Grid
    low: int = NEVER
    rows: pa.Table | None = None

    def add(self, counted: Counted) -> None:
        rows = counted.columns
        if int(whole(rows["start"], NEVER).min()) < self.low:
            raise LogOutOfOrder("a row came that counts in a window already emitted")
        self.rows = rows if self.rows is None else pa.concat_tables([self.rows, rows], promote_options="permissive")

    def close(self, until: int) -> list[WindowResult]:
        if until <= self.low:
            return []
        formed = [] if self.rows is None else self._formed(self.rows, until)
        self.low = until
        if self.rows is not None:
            window, start = self.window, whole(self.rows["start"], NEVER)
            needed = _last(window, start) >= np.maximum(_first(window, start), _first(window, until))
            self.rows = self.rows.filter(needed).combine_chunks() if needed.any() else None
        return formed

    def _formed(self, rows: pa.Table, until: int) -> list[WindowResult]:
        window, start = self.window, whole(rows["start"], NEVER)
        first = np.maximum(_first(window, start), _first(window, self.low))
        last = np.minimum(_last(window, start), _first(window, until) - 1)
        inside = np.flatnonzero(first <= last)
        arrived = [whole(rows[name], NEVER)[inside] for name in rows.column_names if name.startswith("arrived")]
        order = inside[np.lexsort((*reversed(arrived), start[inside]))]
        rows, first, last = rows.take(order), first[order], last[order]
        found: list[WindowResult] = []
        for begin, end in _intervals(first, last):
            found += self._results(rows, np.maximum(first, begin), np.minimum(last, end))
        return found

    def _results(self, rows: pa.Table, first: Numbers, last: Numbers) -> list[WindowResult]:
        """The windows of rows ordered by time, then arrival (G6), each row in those from its ``first`` end to its
        ``last``."""
        compiled = self.compiled
        group, keys = numbered([rows[f"v{position}"] for position in compiled.group_positions], len(rows))
        found = _spread(self.window, group, first, last)
        aggregates, positions = compiled.job.window_query.aggregates, compiled.positions
        texts = dict.fromkeys(one.argument for one in aggregates)
        arguments = {text: None if text is None else rows[f"v{positions[text]}"].take(found.rows) for text in texts}
        values = [aggregated(one, arguments[one.argument], found.starts, len(found.rows)) for one in aggregates]
        groups = group[found.rows[found.starts]].tolist()
        return [
            WindowResult(start, end, self.window_id, (*keys[group], *mine))
            for start, end, group, *mine in zip(found.start_us, found.end_us, groups, *values, strict=True)
        ]


class WindowsByColumn(NamedTuple):
    """Windows of groups, one after the other: the places of their ``rows``, where in these each begins, its bounds."""

    rows: Numbers
    starts: Numbers
    start_us: Sequence[int]
    end_us: Sequence[int]


def windows_on_grid(window: Grid, time: Numbers, group: Numbers, low: int, until: int) -> WindowsByColumn:
    """The windows that end in ``[low, until)`` of rows at ``time``, which have the numbers ``group``."""
    first = np.maximum(_first(window, time), _first(window, low))
    return _spread(window, group, first, np.minimum(_last(window, time), _first(window, until) - 1))


def _spread(window: Grid, group: Numbers, first: Numbers, last: Numbers) -> WindowsByColumn:
    """The windows of rows that are each in those from its ``first`` end to its ``last``."""
    count = np.maximum(last - first + 1, 0)
    row = np.repeat(np.arange(len(first)), count)
    end = first[row] + np.arange(len(row)) - (np.cumsum(count) - count)[row]
    order = np.lexsort((group[row], end))
    row, end = row[order], end[order]
    starts = starts_of_runs(end, group[row])
    end_us = window.align_us + window.offset_us + end[starts] * window.hop_us
    return WindowsByColumn(row, starts, (end_us - window.size_us).tolist(), end_us.tolist())


# a row counts in the windows whose ends e satisfy e - size < time <= e; ends are numbered along the grid


def _first(window: Grid, time: _Time) -> _Time:
    """The number of the first end at or after ``time``."""
    return -((window.align_us + window.offset_us - time) // window.hop_us)


def _last(window: Grid, time: _Time) -> _Time:
    """The number of the last end before ``time + size``."""
    return -((window.align_us + window.offset_us - time - window.size_us) // window.hop_us) - 1


def _intervals(first: Numbers, last: Numbers) -> Iterator[tuple[int, int]]:
    """The ends of rows' windows, in intervals with no more rows in windows than can be formed at once."""
    waiting = [(int(first.min()), int(last.max()))] if len(first) else []
    while waiting:
        begin, end = waiting.pop()
        count = np.maximum(np.minimum(last, end) - np.maximum(first, begin) + 1, 0).sum()
        if count > _MOST_AT_ONCE and begin < end:
            middle = (begin + end) // 2
            waiting += [(middle + 1, end), (begin, middle)]
        elif count:
            yield begin, end
