"""A batch's rows, sorted by arrival in runs that fit memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

RUN_ROWS = 250_000
"""Rows sorted in memory at once; a larger batch is written in several sorted runs."""
BATCH_BYTES = 512 * 2**20
"""So much of one day is written in order without a break."""


@dataclass
class SortedRuns:
    """Rows in runs of at most about :data:`RUN_ROWS`, each sorted by arrival; all but the last are on disk.

    Sorted runs give row groups narrow ranges of arrival time, which is what lets a replay skip them. What they have of
    a day is handed over as one batch, up to :data:`BATCH_BYTES`: the writer's threads overtake each other between
    batches, but not inside one, and a file in order need not be sorted to be replayed.
    """

    schema: pa.Schema
    folder: Path
    count: int = 0
    first_us: int | None = None
    last_us: int | None = None
    _waiting: list[pa.Table] = field(default_factory=list)
    _waiting_rows: int = 0
    _spilled: list[Path] = field(default_factory=list)

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

    def reader(self) -> pa.RecordBatchReader:
        """All rows, run after run; may be asked for once more after a failed attempt."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        for rows in self._days():
            if waiting and (_day(waiting[0]) != _day(rows) or sum(one.nbytes for one in waiting) >= BATCH_BYTES):
                yield from _together(waiting)
                waiting = []
            waiting.append(rows)
        yield from _together(waiting)

    def _days(self) -> Iterator[pa.Table]:
        """The runs, each cut where a day ends."""
        for run in self._runs():
            days = np.asarray(run["arrival_date"].cast(pa.int32()))
            begin = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(run)]
            yield from (run.slice(start, end - start) for start, end in pairwise(begin) if start < end)

    def _runs(self) -> Iterator[pa.Table]:
        for path in self._spilled:
            with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
                yield stream.read_all()
        yield self._sorted()

    def _sorted(self) -> pa.Table:
        if not self._waiting:
            return self.schema.empty_table()
        rows = pa.concat_tables(self._waiting).combine_chunks()
        keys = ("arrival_time", "input_partition", "sequence")
        return rows if _in_order(rows.select(keys)) else rows.sort_by([(name, "ascending") for name in keys])

    def _spill(self) -> None:
        path = self.folder / f"{len(self._spilled)}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, self.schema) as stream:
            stream.write_table(self._sorted())
        self._spilled.append(path)
        self._waiting, self._waiting_rows = [], 0


def _in_order(keys: pa.Table) -> bool:
    """Whether rows rise by their keys, as those of one broker usually do; none is null."""
    if any(key.null_count for key in keys.columns):
        return False
    rises = np.zeros(max(len(keys) - 1, 0), np.bool_)
    for key in reversed(keys.columns):
        numbers = np.asarray(key.combine_chunks().cast(pa.int64()))
        rises = (numbers[1:] > numbers[:-1]) | ((numbers[1:] == numbers[:-1]) & rises)
    return bool(rises.all())


def _day(rows: pa.Table) -> date:
    day = rows["arrival_date"][0].as_py()
    assert isinstance(day, date), day
    return day


def _together(tables: Sequence[pa.Table]) -> list[pa.RecordBatch]:
    return pa.concat_tables(tables).combine_chunks().to_batches() if tables else []
