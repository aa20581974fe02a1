"""The rows of a commit in arrival order, by the column and one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.model import Input
from pipelines.live.state.arrivals import EVERY_PARTITION, Event, Place, out_of_order
from pipelines.live.state.columns import Mask, Numbers, starts_of_runs, whole
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Commit

_PLACE = ("arrival", "partition", "sequence", "rank")


@dataclass(frozen=True)
class Batch:
    """Rows of one input in arrival order, with the columns of :class:`Commit` and ``rank``; no partition is null."""

    part: Input
    rows: pa.Table

    @classmethod
    def of(cls, compiled: CompiledJob, commit: Commit) -> Batch:
        """The rows of a commit; :class:`LogOutOfOrder` where two rows have the same place."""
        arrival, partition, sequence = (whole(commit.rows[name], EVERY_PARTITION) for name in _PLACE[:3])
        rows = commit.rows.set_column(commit.rows.column_names.index("partition"), "partition", [partition])
        rows = rows.append_column("rank", pa.repeat(compiled.ranks[commit.input], len(rows)))
        batch = cls(compiled.job.input(commit.input), rows.take(np.lexsort((sequence, partition, arrival))))
        repeated = np.logical_and.reduce([np.diff(column) == 0 for column in batch.place])
        if repeated.any():
            raise out_of_order(commit.input, int(batch.place[1][np.argmax(repeated)]))
        return batch

    def __len__(self) -> int:
        return len(self.rows)

    def filter(self, where: Mask) -> Batch:
        """The rows where the mask is True."""
        return self if where.all() else Batch(self.part, self.rows.filter(where))

    def listed(self, letter: str) -> list[pa.ChunkedArray]:
        """The columns ``letter`` 0 and so on."""
        names = self.rows.column_names
        return [self.rows[name] for name in names if name[0] == letter and name[1:].isdigit()]

    def tuples(self, letter: str) -> list[tuple[Any, ...]]:
        """For each row the values of the columns ``letter`` 0 and so on."""
        columns = [column.to_pylist() for column in self.listed(letter)]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self)

    @cached_property
    def place(self) -> list[Numbers]:
        """The rows' places in the arrival order, by the column."""
        return [whole(self.rows[name], 0) for name in _PLACE]

    def places(self) -> list[Place]:
        """The rows' places in the arrival order."""
        return list(zip(*(column.tolist() for column in self.place), strict=True))

    def ends(self) -> Iterator[tuple[Place, Place]]:
        """The places of the first and of the last row of each partition."""
        columns = self.place
        by_partition = np.argsort(columns[1], kind="stable")
        for run in np.split(by_partition, starts_of_runs(columns[1][by_partition])[1:]) if len(self) else ():
            first, last = zip(*(column[run[[0, -1]]].tolist() for column in columns), strict=True)
            yield first, last

    def events(self) -> Iterator[Event]:
        """The rows one by one."""

        def values(name: str, default: Any = None) -> list[Any]:
            return self.rows[name].to_pylist() if name in self.rows.column_names else [default] * len(self)

        return map(
            Event,
            [self.part.name] * len(self),
            self.places(),
            values("punctuation"),
            values("arrival" if self.part.timestamp_by is None else "time"),
            values("end"),
            values("edge"),
            values("passes", True),
            self.tuples("m"),
            self.tuples("v"),
        )
