"""A batch's rows, sorted by arrival in runs that fit memory, and merged day by day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.lakehouse.compact import ROWS_A_GROUP

RUN_ROWS = 250_000
"""Rows sorted in memory at once; a larger batch is written in several sorted runs."""
MARK_ROWS = 1024
"""Of so many rows of a run the first one's arrival time is remembered, to cut a day where few rows are between."""
_LAST = 2**31 - 1
"""In place of the null partition of a punctuation for all partitions, which comes after the others at its instant."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows in order, in a file or in memory: where each day begins and ends, and some of its arrival times."""

    rows: pa.Table | Path
    days: dict[int, slice]
    marks: dict[int, npt.NDArray[np.int64]]

    def table(self) -> pa.Table:
        """All its rows; from a file only what is looked at comes into memory."""
        if isinstance(self.rows, pa.Table):
            return self.rows
        with pa.memory_map(str(self.rows)) as file, pa.ipc.open_stream(file) as stream:
            return stream.read_all()

    def between(self, day: int, from_us: int | None, to_us: int | None) -> pa.Table:
        """Its rows of a day that arrived in ``[from_us, to_us)``; None: of the day's beginning or to its end."""
        whole = self.days[day]
        rows = self.table().slice(whole.start, whole.stop - whole.start)
        times = _times(rows)
        first = 0 if from_us is None else int(times.searchsorted(from_us))
        end = len(rows) if to_us is None else int(times.searchsorted(to_us))
        return rows.slice(first, end - first)


@dataclass
class SortedRuns:
    """Rows in runs of at most about :data:`RUN_ROWS`, each sorted by arrival; all but the last are on disk."""

    schema: pa.Schema
    folder: Path
    count: int = 0
    first_us: int | None = None
    last_us: int | None = None
    _waiting: list[pa.Table] = field(default_factory=list)
    _waiting_rows: int = 0
    _spilled: list[_Run] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        if not len(rows):
            return
        times = rows["arrival_time"].cast(pa.int64()).to_numpy()
        first_us, last_us = int(times.min()), int(times.max())
        self.first_us = first_us if self.first_us is None else min(self.first_us, first_us)
        self.last_us = last_us if self.last_us is None else max(self.last_us, last_us)
        self._waiting.append(rows)
        self._waiting_rows += len(rows)
        self.count += len(rows)
        if self._waiting_rows >= RUN_ROWS:
            self._spill()

    def runs(self) -> Iterator[pa.Table]:
        """All rows, run after run."""
        return (run.table() for run in self._runs())

    def days(self) -> Iterator[tuple[int, Iterator[pa.Table]]]:
        """The rows of each day in order, some at once; memory has no more of them than that, and a mark of each
        :data:`MARK_ROWS`.

        Rows of a day in order are what lets a replay skip row groups, and take a file without sorting it.
        """
        runs = self._runs()
        for day in sorted({day for run in runs for day in run.days}):
            yield day, _merged(day, [run for run in runs if day in run.days])

    def _runs(self) -> list[_Run]:
        return [*self._spilled, *([_run(self._sorted())] if self._waiting else [])]

    def _sorted(self) -> pa.Table:
        return _in_order(pa.concat_tables(self._waiting))

    def _spill(self) -> None:
        path, rows = self.folder / f"{len(self._spilled)}.arrow", self._sorted()
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, self.schema) as stream:
            stream.write_table(rows)
        self._spilled.append(_run(rows, path))
        self._waiting, self._waiting_rows = [], 0


def _run(rows: pa.Table, path: Path | None = None) -> _Run:
    day, times = np.asarray(rows["arrival_date"].cast(pa.int32())), _times(rows)
    begin = [0, *(np.flatnonzero(np.diff(day)) + 1).tolist(), len(rows)]
    days = {day.item(first): slice(first, end) for first, end in pairwise(begin)}
    return _Run(path or rows, days, {one: times[where][::MARK_ROWS].copy() for one, where in days.items()})


def _merged(day: int, runs: Sequence[_Run]) -> Iterator[pa.Table]:
    """The rows that several runs have of a day, in order, about :data:`ROWS_A_GROUP` at once: more where they arrived
    at one instant."""
    marks = np.sort(np.concatenate([run.marks[day] for run in runs]))
    cuts = [None, *np.unique(marks[:: ROWS_A_GROUP // MARK_ROWS][1:]).tolist(), None]
    for from_us, to_us in pairwise(cuts):
        rows = pa.concat_tables([run.between(day, from_us, to_us) for run in runs])
        if len(rows):
            yield _in_order(rows)


def _in_order(rows: pa.Table) -> pa.Table:
    """Rows by arrival time, those of one instant by input partition and sequence."""
    rows, times = rows.combine_chunks(), _times(rows)
    if (times[1:] > times[:-1]).all():
        return rows
    order = np.argsort(times, kind="stable")
    times = times[order]
    same = times[1:] == times[:-1]
    tied = np.flatnonzero(np.r_[False, same] | np.r_[same, False])
    some = order[tied]
    keys = [np.asarray(rows[name].fill_null(_LAST).take(pa.array(some))) for name in ("sequence", "input_partition")]
    order[tied] = some[np.lexsort([*keys, times[tied]])]
    return rows if (order[1:] > order[:-1]).all() else rows.take(pa.array(order))


def _times(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Arrival times, of one chunk without a copy."""
    parts = [chunk.view(pa.int64()).to_numpy() for chunk in rows["arrival_time"].chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])
