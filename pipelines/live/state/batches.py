"""Rows of one input by the column, in arrival order, and those of them that count; both also row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.live.state.columns import Column, Mask, Numbers, Values
from pipelines.live.state.program import Program
from pipelines.live.state.rows import LogOutOfOrder, Place, Row
from pipelines.live.values import all_same

EVERY_PARTITION = -1
"""The partition of a row that speaks for all."""


@dataclass(frozen=True, slots=True)
class Batch:
    """``columns`` are named as :meth:`Program.readings` names them, and ``punctuation``."""

    input: str
    rank: int
    arrival: Numbers
    partition: Numbers
    sequence: Numbers
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, program: Program, name: str, values: Mapping[str, Values]) -> Batch:
        """The rows of a portion, which may come in any order."""
        columns = {key: Column.of(value) for key, value in values.items()}
        arrival, sequence = (columns.pop(key).whole(0) for key in ("arrival", "sequence"))
        partition = columns.pop("partition").whole(EVERY_PARTITION)
        batch = cls(name, program.ranks[name], arrival, partition, sequence, columns)
        return batch.take(np.lexsort((sequence, partition, arrival)))

    def __len__(self) -> int:
        return len(self.arrival)

    def take(self, where: npt.NDArray[Any]) -> Batch:
        """The rows at these places, or where a mask is True."""
        if where.dtype == np.bool_ and where.all():
            return self
        columns = {name: column.take(where) for name, column in self.columns.items()}
        return Batch(self.input, self.rank, self.arrival[where], self.partition[where], self.sequence[where], columns)

    def listed(self, letter: str, count: int) -> list[Column]:
        """The columns ``letter`` 0 to ``count`` - 1."""
        return [self.columns[f"{letter}{index}"] for index in range(count)]

    def ends(self) -> Iterator[tuple[int, Place, Place]]:
        """Each partition with its first and its last place."""
        if not len(self):
            return
        order = np.argsort(self.partition, kind="stable")
        numbers, starts = np.unique(self.partition[order], return_index=True)
        for number, first, last in zip(
            numbers.tolist(), order[starts], order[[*(starts[1:] - 1), len(order) - 1]], strict=True
        ):
            yield number, self._place(first), self._place(last)

    def check(self) -> None:
        """:class:`LogOutOfOrder` where two rows stand in one place."""
        twice = np.ones(max(len(self) - 1, 0), np.bool_)
        for part in (self.arrival, self.partition, self.sequence):
            twice &= part[1:] == part[:-1]
        if twice.any():
            raise out_of_order(self.input, int(self.partition[np.argmax(twice)]))

    def _place(self, index: int) -> Place:
        return (int(self.arrival[index]), int(self.partition[index]), int(self.sequence[index]), self.rank)


@dataclass(frozen=True, slots=True)
class Counted:
    """The rows of ``batch``, each counting at its ``start``."""

    batch: Batch
    start: Numbers

    def take(self, where: Mask) -> Counted:
        """The rows where the mask is True."""
        return Counted(self.batch.take(where), self.start[where])

    def rows(self, program: Program) -> list[Row]:
        """One by one."""
        batch, part = self.batch, program.job.input(self.batch.input)
        columns = [column.values() for column in batch.listed("v", len(program.value_texts(part)))]
        values = list(zip(*columns, strict=True)) if columns else [()] * len(batch)
        places = zip(
            batch.arrival.tolist(),
            batch.partition.tolist(),
            batch.sequence.tolist(),
            [batch.rank] * len(batch),
            strict=True,
        )
        return [
            Row(start, place, mine, all_same([mine[index] for index in program.group_places]))
            for start, place, mine in zip(self.start.tolist(), places, values, strict=True)
        ]

    def keys(self, program: Program) -> Sequence[tuple[Any, ...]]:
        """For a join: of each row the values that must be equal."""
        count = len(program.on_columns(program.job.input(self.batch.input)))
        columns = [column.values() for column in self.batch.listed("j", count)]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self.batch)


def out_of_order(name: str, partition: int) -> LogOutOfOrder:
    """What a partition's rows are when one does not come after the one before."""
    said = None if partition == EVERY_PARTITION else partition
    return LogOutOfOrder(f"partition {said} of input '{name}' is not in order")
