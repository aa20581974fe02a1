"""Rows that count: what an ordering policy hands to the query, one by one and by the column."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from pipelines.core.values import grouping_key
from pipelines.live.state.arrivals import Event
from pipelines.live.state.batches import Batch
from pipelines.live.state.columns import Numbers, numbered
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
    def columns(self) -> pa.Table:
        """By the column: ``start``, ``arrived0`` and so on, ``v0`` and so on."""


@dataclass(frozen=True)
class CountedRows:
    """Rows that are there one by one; ``types`` are those of their values, needed for :attr:`columns`."""

    rows: Sequence[Row]
    types: Mapping[int, pa.DataType] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def columns(self) -> pa.Table:
        """Joined rows by the column: each arrived as two did, of which the earlier may be missing."""
        places = (
            (*later, *(earlier or (NEVER,) * len(later))) for later, earlier in (row.arrived for row in self.rows)
        )
        columns: dict[str, Any] = {"start": [row.start for row in self.rows]}
        columns |= {f"arrived{index}": column for index, column in enumerate(zip(*places, strict=True))}
        values = enumerate(zip(*(row.values for row in self.rows), strict=True))
        return pa.table(columns | {f"v{index}": pa.array(column, self.types.get(index)) for index, column in values})


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
        batch, values = self.batch, self.batch.listed("v")
        number, groups = numbered([values[position] for position in self.compiled.group_positions], len(batch))
        keys = [grouping_key(group) for group in groups]
        columns = self.start.tolist(), batch.places(), batch.tuples("v"), number.tolist(), batch.tuples("j")
        return [
            Row(start, place, mine, keys[group], on=on) for start, place, mine, group, on in zip(*columns, strict=True)
        ]

    @cached_property
    def columns(self) -> pa.Table:
        """By the column."""
        columns: dict[str, Any] = {"start": self.start}
        columns |= {f"arrived{index}": column for index, column in enumerate(self.batch.place)}
        return pa.table(columns | {f"v{index}": column for index, column in enumerate(self.batch.listed("v"))})
