"""Rows of one input by the column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.live.state.arrivals import EVERY_PARTITION, Place, out_of_order
from pipelines.live.state.columns import Mask, Numbers, starts_of_runs, whole
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Commit

ORDER = ("arrival", "partition", "sequence", "rank")
"""The columns of a :data:`Place`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one input in arrival order, with the columns of :class:`Commit` and ``rank``; no partition is null."""

    input: str
    rows: pa.Table

    @classmethod
    def of(cls, compiled: CompiledJob, commit: Commit) -> Batch:
        """The rows of a commit; :class:`LogOutOfOrder` where two rows have the same place."""
        arrival, partition, sequence = (whole(commit.rows[name], EVERY_PARTITION) for name in ORDER[:3])
        rows = commit.rows.set_column(commit.rows.column_names.index("partition"), "partition", [partition])
        rows = rows.append_column("rank", pa.repeat(compiled.ranks[commit.input], len(rows)))
        batch = cls(commit.input, rows.take(np.lexsort((sequence, partition, arrival))))
        repeated = np.logical_and.reduce([np.diff(column) == 0 for column in batch.order])
        if repeated.any():
            raise out_of_order(batch.input, int(batch.numbers("partition")[np.argmax(repeated)]))
        return batch

    def __len__(self) -> int:
        return len(self.rows)

    def filter(self, where: Mask) -> Batch:
        """The rows where the mask is True."""
        return self if where.all() else Batch(self.input, self.rows.filter(where))

    def numbers(self, name: str, null: int = 0) -> Numbers:
        """A column of whole numbers; ``null`` stands for null."""
        return whole(self.rows[name], null)

    def listed(self, letter: str, count: int) -> list[pa.ChunkedArray]:
        """The columns ``letter`` 0 to ``count`` - 1."""
        return [self.rows[f"{letter}{index}"] for index in range(count)]

    def tuples(self, letter: str, count: int) -> list[tuple[Any, ...]]:
        """For each row the values of the columns ``letter`` 0 to ``count`` - 1."""
        columns = [column.to_pylist() for column in self.listed(letter, count)]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self)

    @property
    def order(self) -> list[Numbers]:
        """The rows' places in the arrival order, by the column."""
        return [self.numbers(name) for name in ORDER]

    def places(self) -> list[Place]:
        """The rows' places in the arrival order."""
        return list(zip(*(column.tolist() for column in self.order), strict=True))

    def ends(self) -> Iterator[tuple[Place, Place]]:
        """The places of the first and of the last row of each partition."""
        columns = self.order
        by_partition = np.argsort(columns[1], kind="stable")
        for run in np.split(by_partition, starts_of_runs(columns[1][by_partition])[1:]) if len(self) else ():
            first, last = zip(*(column[run[[0, -1]]].tolist() for column in columns), strict=True)
            yield first, last
