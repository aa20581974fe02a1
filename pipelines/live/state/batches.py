"""Rows of one input by the column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.live.state.arrivals import EVERY_PARTITION, Place, out_of_order
from pipelines.live.state.columns import Column, Numbers
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Commit


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one input in arrival order; instants in microseconds.

    ``columns`` are named as :meth:`CompiledJob.readings` names them, and ``punctuation``.
    """

    input: str
    rank: int
    arrival: Numbers
    partition: Numbers
    sequence: Numbers
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, compiled: CompiledJob, commit: Commit) -> Batch:
        """The rows of a commit; :class:`LogOutOfOrder` where two rows have the same place."""
        columns = {name: Column.of(commit.rows[name]) for name in commit.rows.column_names}
        arrival, sequence = (columns.pop(name).whole(0) for name in ("arrival", "sequence"))
        partition = columns.pop("partition").whole(EVERY_PARTITION)
        rows = cls(commit.input, compiled.ranks[commit.input], arrival, partition, sequence, columns)
        rows = rows.take(np.lexsort((sequence, partition, arrival)))
        repeated = np.logical_and.reduce([np.diff(one) == 0 for one in (rows.arrival, rows.partition, rows.sequence)])
        if repeated.any():
            raise out_of_order(rows.input, int(rows.partition[np.argmax(repeated)]))
        return rows

    def __len__(self) -> int:
        return len(self.arrival)

    def take(self, where: npt.NDArray[Any]) -> Batch:
        """The rows at these indices, or where a mask is True."""
        if where.dtype == np.bool_ and where.all():
            return self
        columns = {name: column.take(where) for name, column in self.columns.items()}
        return Batch(self.input, self.rank, self.arrival[where], self.partition[where], self.sequence[where], columns)

    def listed(self, letter: str, count: int) -> list[Column]:
        """The columns ``letter`` 0 to ``count`` - 1."""
        return [self.columns[f"{letter}{index}"] for index in range(count)]

    def tuples(self, letter: str, count: int) -> list[tuple[Any, ...]]:
        """For each row the values of the columns ``letter`` 0 to ``count`` - 1."""
        columns = [column.values() for column in self.listed(letter, count)]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self)

    @property
    def place(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """The rows' places in the arrival order, by the column."""
        return self.arrival, self.partition, self.sequence, np.full(len(self), self.rank)

    def places(self) -> list[Place]:
        """The rows' places in the arrival order."""
        return list(zip(*(column.tolist() for column in self.place), strict=True))

    def ends(self) -> Iterator[tuple[Place, Place]]:
        """The places of the first and of the last row of each partition."""
        if not len(self):
            return
        order = np.argsort(self.partition, kind="stable")
        starts = np.unique(self.partition[order], return_index=True)[1]
        for first, last in zip(order[starts], order[[*(starts[1:] - 1), -1]], strict=True):
            yield self._place(first), self._place(last)

    def _place(self, index: int) -> Place:
        return int(self.arrival[index]), int(self.partition[index]), int(self.sequence[index]), self.rank
