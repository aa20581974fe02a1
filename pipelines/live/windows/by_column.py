"""Windows on a grid, live, stream_analytics: rows held by the column until every window that they fall in is final."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pipelines.core.model import Grid
from pipelines.live.grouped import aggregated
from pipelines.live.state.batches import Counted
from pipelines.live.state.columns import Column, Numbers, numbered, starts_of_runs
from pipelines.live.state.program import Program
from pipelines.live.state.rows import LogOutOfOrder, Result, Row
from pipelines.live.windows.assign import NEVER

_Time = TypeVar("_Time", int, Numbers)
_MOST_AT_ONCE = 1 << 22
"""So many rows in windows are formed at once: a row may fall in thousands of hops."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that count at ``start``. ``arrived`` are columns by which rows of one time are ordered, ``group`` numbers
    the group's values in ``keys``, ``arguments`` are those of the aggregates, by text."""

    start: Numbers
    arrived: tuple[Numbers, ...]
    group: Numbers
    keys: list[tuple[Any, ...]]
    arguments: dict[str, Column]

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def counted(cls, program: Program, counted: Counted) -> Rows:
        """What counts of a batch."""
        batch = counted.batch
        values = dict(zip(program.texts, batch.listed("v", len(program.texts)), strict=True))
        arrived = (batch.arrival, batch.partition, batch.sequence, np.full(len(batch), batch.rank))
        return cls._of(program, counted.start, arrived, values)

    @classmethod
    def joined(cls, program: Program, rows: Sequence[Row]) -> Rows:
        """Rows that a join gave: each arrived as two did, the first of which may be missing."""
        places = [(*last, *(first or (NEVER,) * len(last))) for last, first in (row.arrived for row in rows)]
        columns = zip(*(row.values for row in rows), strict=True)
        values = {text: Column.of(column) for text, column in zip(program.texts, columns, strict=True)}
        arrived = tuple(np.array(places, np.int64).T)
        return cls._of(program, np.array([row.start for row in rows], np.int64), arrived, values)

    @classmethod
    def _of(cls, program: Program, start: Numbers, arrived: tuple[Numbers, ...], values: dict[str, Column]) -> Rows:
        group, keys = numbered([values[column] for column in program.job.window_query.group_by], len(start))
        arguments = {one.argument: values[one.argument] for one in program.aggregates if one.argument is not None}
        return cls(start, arrived, group, keys, arguments)

    def take(self, where: npt.NDArray[Any]) -> Rows:
        """The rows at these places, or where a mask is True; of groups, those that they are in."""
        used, group = np.unique(self.group[where], return_inverse=True)
        return Rows(
            self.start[where],
            tuple(column[where] for column in self.arrived),
            group,
            [self.keys[number] for number in used.tolist()],
            {text: column.take(where) for text, column in self.arguments.items()},
        )

    def followed_by(self, more: Rows) -> Rows:
        """These rows, then ``more``."""
        both = [*self.keys, *more.keys]
        number, keys = numbered([Column.of(column) for column in zip(*both, strict=True)], len(both))
        return Rows(
            np.concatenate([self.start, more.start]),
            tuple(map(np.concatenate, zip(self.arrived, more.arrived, strict=True))),
            np.concatenate([number[self.group], number[more.group + len(self.keys)]]),
            keys,
            {text: Column.joined([column, more.arguments[text]]) for text, column in self.arguments.items()},
        )


@dataclass(slots=True)
class ColumnBuffer:
    """The rows that windows on a grid still to come may need. Windows that end before ``low`` have been given."""

    window: Grid
    low: int = NEVER
    rows: Rows | None = None

    def add(self, rows: Rows) -> None:
        """More rows; :class:`LogOutOfOrder` where one should have counted in windows already given."""
        if not len(rows):
            return
        if int(rows.start.min()) < self.low:
            raise LogOutOfOrder("a row came that counts in a window already emitted")
        self.rows = rows if self.rows is None else self.rows.followed_by(rows)

    def formed(self, program: Program, window_id: str | None, high: int) -> list[Result]:
        """The windows whose end lies in ``[low, high)``."""
        if self.rows is None:
            return []
        window = self.window
        first = np.maximum(_first(window, self.rows.start), _first(window, self.low))
        last = np.minimum(_last(window, self.rows.start), _first(window, high) - 1)
        inside = np.flatnonzero(first <= last)
        rows = self.rows.take(inside)
        order = np.lexsort((*reversed(rows.arrived), rows.start))
        rows, first, last = rows.take(order), first[inside][order], last[inside][order]
        found: list[Result] = []
        for begin, end in _portions(first, last):
            found += _results(program, window_id, window, rows, np.maximum(first, begin), np.minimum(last, end))
        return found

    def forget(self, high: int) -> None:
        """Windows before ``high`` were given: let go of what no later one needs."""
        self.low = high
        if self.rows is not None:
            window, start = self.window, self.rows.start
            needed = _last(window, start) >= np.maximum(_first(window, start), _first(window, high))
            self.rows = self.rows.take(needed) if needed.any() else None


# a row counts in the windows whose ends e satisfy e - size < time <= e; ends are numbered along the grid


def _first(window: Grid, time: _Time) -> _Time:
    """The number of the first end at or after ``time``."""
    return -((window.align_us + window.offset_us - time) // window.hop_us)


def _last(window: Grid, time: _Time) -> _Time:
    """The number of the last end before ``time + size``."""
    return -((window.align_us + window.offset_us - time - window.size_us) // window.hop_us) - 1


def _portions(first: Numbers, last: Numbers) -> Iterator[tuple[int, int]]:
    """The ends that rows fall in, in intervals with no more rows than can be formed at once."""
    waiting = [(int(first.min()), int(last.max()))] if len(first) else []
    while waiting:
        begin, end = waiting.pop()
        count = np.maximum(np.minimum(last, end) - np.maximum(first, begin) + 1, 0).sum()
        if count > _MOST_AT_ONCE and begin < end:
            middle = (begin + end) // 2
            waiting += [(middle + 1, end), (begin, middle)]
        elif count:
            yield begin, end


def _results(
    program: Program, window_id: str | None, window: Grid, rows: Rows, first: Numbers, last: Numbers
) -> list[Result]:
    """The windows of rows that stand by start, then arrival, each from its ``first`` end to its ``last``."""
    count = np.maximum(last - first + 1, 0)
    row = np.repeat(np.arange(len(rows)), count)
    end = first[row] + np.arange(len(row)) - (np.cumsum(count) - count)[row]
    order = np.lexsort((rows.group[row], end))
    row, end = row[order], end[order]
    group = rows.group[row]
    starts = starts_of_runs(end, group)
    arguments = {text: column.take(row) for text, column in rows.arguments.items()}
    aggregates = [
        aggregated(one, None if one.argument is None else arguments[one.argument], starts, len(row))
        for one in program.aggregates
    ]
    ends = (window.align_us + window.offset_us + end[starts] * window.hop_us).tolist()
    return [
        Result(end - window.size_us, end, window_id, (*rows.keys[group], *values))
        for end, group, *values in zip(ends, group[starts].tolist(), *aggregates, strict=True)
    ]
