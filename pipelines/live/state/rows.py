"""Rows that count: what an ordering policy hands to the query, one by one and by the column."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pipelines.core.values import grouping_key
from pipelines.live.state.arrivals import Event
from pipelines.live.state.batches import Batch
from pipelines.live.state.columns import Column, Numbers, numbered
from pipelines.live.state.compiled_job import CompiledJob

FOREVER = 1 << 62
"""Later than every instant."""
NEVER = -FOREVER
"""Earlier than every instant."""


@dataclass(slots=True)
class Row:
    """One row that counts at ``start``, its system timestamp in microseconds.

    ``arrived`` orders rows of one time: a :data:`Place`, of a joined row the later place and the earlier one (G6).
    ``end`` bounds the lifetime (stream_insight; None: it has not ended). ``missed`` are starts of windows that were
    closed before it came (A5). ``values`` are those of :attr:`CompiledJob.texts`, ``on`` those that a join compares.
    ``group`` is equal for rows of one group.
    """

    start: int
    arrived: tuple[Any, ...]
    values: tuple[Any, ...]
    group: Hashable
    end: int | None = None
    missed: tuple[int, ...] = ()
    on: tuple[Any, ...] = ()

    @classmethod
    def of(
        cls, compiled: CompiledJob, event: Event, start: int, end: int | None = None, missed: tuple[int, ...] = ()
    ) -> Row:
        """The row that ``event`` is for the query."""
        return cls(start, event.place, event.values, group_of(compiled, event.values), end, missed)


def group_of(compiled: CompiledJob, values: tuple[Any, ...]) -> Hashable:
    """Equal exactly for rows of one group."""
    return grouping_key([values[position] for position in compiled.group_positions])


class Counted(Protocol):
    """Rows of one input that count, in the form that a window buffer asks for."""

    def __len__(self) -> int: ...

    @property
    def rows(self) -> Sequence[Row]:
        """One by one."""

    @property
    def columns(self) -> RowColumns:
        """By the column."""


@dataclass(frozen=True)
class CountedRows:
    """Rows that are there one by one."""

    compiled: CompiledJob
    rows: Sequence[Row]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def columns(self) -> RowColumns:
        """Joined rows by the column: each arrived as two did, of which the earlier may be missing."""
        places = [
            (*later, *(earlier or (NEVER,) * len(later))) for later, earlier in (row.arrived for row in self.rows)
        ]
        columns = zip(*(row.values for row in self.rows), strict=True)
        values = {text: Column.of(column) for text, column in zip(self.compiled.texts, columns, strict=True)}
        start = np.array([row.start for row in self.rows], np.int64)
        return RowColumns.of(self.compiled, start, tuple(np.array(places, np.int64).T), values)


@dataclass(frozen=True)
class CountedBatch:
    """The rows of ``batch``, which count at ``start``."""

    compiled: CompiledJob
    batch: Batch
    start: Numbers

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def rows(self) -> Sequence[Row]:
        """One by one."""
        batch, part = self.batch, self.compiled.job.input(self.batch.input)
        values = batch.tuples("v", len(self.compiled.value_texts(part)))
        on = batch.tuples("j", len(self.compiled.on_columns(part)))
        keys = [grouping_key(key) for key in self.columns.keys]
        groups = [keys[number] for number in self.columns.group.tolist()]
        rows = zip(self.start.tolist(), batch.places(), values, groups, on, strict=True)
        return [Row(start, place, mine, group, on=compared) for start, place, mine, group, compared in rows]

    @cached_property
    def columns(self) -> RowColumns:
        """By the column."""
        texts = self.compiled.texts
        values = dict(zip(texts, self.batch.listed("v", len(texts)), strict=True))
        return RowColumns.of(self.compiled, self.start, self.batch.place, values)


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Rows that count at ``start``, by the column.

    ``arrived`` are the columns that order rows of one time, ``group`` numbers the group keys in ``keys``, ``arguments``
    are those of the aggregates, by text.
    """

    start: Numbers
    arrived: tuple[Numbers, ...]
    group: Numbers
    keys: list[tuple[Any, ...]]
    arguments: dict[str, Column]

    @classmethod
    def of(
        cls, compiled: CompiledJob, start: Numbers, arrived: tuple[Numbers, ...], values: Mapping[str, Column]
    ) -> RowColumns:
        """Rows with the values of :attr:`CompiledJob.texts`."""
        query = compiled.job.query
        group, keys = numbered([values[column] for column in query.group_by], len(start))
        arguments = {one.argument: values[one.argument] for one in query.aggregates if one.argument is not None}
        return cls(start, arrived, group, keys, arguments)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, where: npt.NDArray[Any]) -> RowColumns:
        """The rows at these indices, or where a mask is True; of the groups, those that they are in."""
        used, group = np.unique(self.group[where], return_inverse=True)
        return RowColumns(
            self.start[where],
            tuple(column[where] for column in self.arrived),
            group,
            [self.keys[number] for number in used.tolist()],
            {text: column.take(where) for text, column in self.arguments.items()},
        )

    def followed_by(self, more: RowColumns) -> RowColumns:
        """These rows, then ``more``."""
        both = [*self.keys, *more.keys]
        number, keys = numbered([Column.of(column) for column in zip(*both, strict=True)], len(both))
        return RowColumns(
            np.concatenate([self.start, more.start]),
            tuple(map(np.concatenate, zip(self.arrived, more.arrived, strict=True))),
            np.concatenate([number[self.group], number[more.group + len(self.keys)]]),
            keys,
            {text: Column.joined([column, more.arguments[text]]) for text, column in self.arguments.items()},
        )
