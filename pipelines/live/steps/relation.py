"""Relations over one slice of time, by the column, and what expressions give for each of their rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.steps import SYSTEM_TIMESTAMP
from pipelines.lakehouse.schema import TIMESTAMP

Columns = Mapping[str, pa.ChunkedArray]
Order = tuple[tuple[Any, ...], tuple[int, ...]]
"""Where a row is among the rows of equal time (Q6): what it stems from, then the positions that it was given."""
Kind = tuple[Any, ...]
"""What rows stem from. Orders of one kind can be compared with each other."""
EVENT: Kind = ("event",)
REFERENCE: Kind = ("reference",)


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows in the order ``(system timestamp, order)``.

    ``times`` are microseconds. ``origin`` has what is known of the event or window that each row stems from. Rows of
    reference data have the time from which they hold.
    """

    times: Sequence[int]
    orders: Sequence[Order]
    columns: Columns
    origin: Columns
    kind: Kind

    @classmethod
    def sorted(
        cls, times: Sequence[int], orders: Sequence[Order], columns: Columns, origin: Columns, kind: Kind
    ) -> Relation:
        """A relation of rows in any order."""
        whole = cls(times, orders, columns, origin, kind)
        found = sorted(range(len(times)), key=lambda row: (times[row], orders[row]))
        return whole if found == list(range(len(times))) else whole.take(found)

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: Sequence[int]) -> Relation:
        """The rows at these places, which rise."""
        return replace(
            self,
            times=[self.times[row] for row in rows],
            orders=[self.orders[row] for row in rows],
            columns=taken(self.columns, rows),
            origin=taken(self.origin, rows),
        )

    def between(self, first: int, until: int) -> Relation:
        """The rows whose time lies in ``[first, until)``."""
        begin, end = bisect_left(self.times, first), bisect_left(self.times, until)
        return self if end - begin == len(self) else self.take(range(begin, end))

    @property
    def named(self) -> Columns:
        """All that an expression may name: the columns, and of the rest what no column hides."""
        taken = {name.lower() for name in self.columns}
        known = {} if self.kind == REFERENCE else {SYSTEM_TIMESTAMP: self.timestamps, **self.origin}
        return {**self.columns, **{name: column for name, column in known.items() if name not in taken}}

    @property
    def timestamps(self) -> pa.ChunkedArray:
        """The system timestamps."""
        return instants(self.times)

    def struct(self) -> pa.Array:
        """Each row as one value: its columns and, unless it is reference data, its system timestamp."""
        origin = set(self.origin) - set(self.columns)
        fields = {name: column for name, column in self.named.items() if name not in origin}
        return pa.StructArray.from_arrays([column.combine_chunks() for column in fields.values()], names=list(fields))


def taken(columns: Columns, rows: Sequence[int | None]) -> dict[str, pa.ChunkedArray]:
    """The values at these places; None gives null."""
    places = pa.array(rows, pa.int64())
    return {name: column.take(places) for name, column in columns.items()}


def instants(times: Sequence[int]) -> pa.ChunkedArray:
    """Microseconds as TIMESTAMP."""
    return pa.chunked_array([pa.array(np.asarray(times, np.int64), TIMESTAMP)])


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.ChunkedArray:
    """Python values as a column."""
    return pa.chunked_array([pa.array(values, kind)])


def then_by(order: Order, position: int) -> Order:
    """The order with one more position."""
    place, positions = order
    return place, (*positions, position)
