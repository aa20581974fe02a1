"""Relations as lists of rows, and what expressions give for each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.core.expressions import Evaluate, Reading, plain_path, quoted, read
from pipelines.core.query import Column
from pipelines.core.steps import SYSTEM_TIMESTAMP
from pipelines.core.types import struct_of
from pipelines.reference import events

Order = tuple[tuple[Any, ...], tuple[int, ...]]
"""Where a row stands among the rows of equal time (Q6): what it stems from, then the positions it was given."""
OrderKind = tuple[object, ...]
"""What rows stem from. Orders of equal kinds can be compared with each other, others cannot."""

EVENT: OrderKind = ("event",)
SYSTEM_TIME = Column(SYSTEM_TIMESTAMP, "timestamp")
_FIELD_NAME = re.compile(r"(?<=[<,])[^<>,:()`]+(?=:)")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its system timestamp, its place among the rows of that time (Q6), and its values by column.

    ``origin`` is what is known of the event or the window that it stems from; ``counted`` is that event as its
    policy let it through, for the windows of profiles that count other things than instants.
    """

    at_us: int
    order: Order
    values: Mapping[str, object]
    origin: Mapping[str, object]
    counted: events.Row | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows in the order ``(system timestamp, order)``. ``origin`` are the names that :attr:`Row.origin` has."""

    columns: tuple[Column, ...]
    origin: tuple[Column, ...]
    kind: OrderKind
    rows: tuple[Row, ...]

    def with_rows(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> Relation:
        """The relation with rows that stem from its own, and with other columns if given."""
        return replace(self, columns=self.columns if columns is None else tuple(columns), rows=in_order(rows))

    @property
    def named(self) -> tuple[Column, ...]:
        """All that an expression may name: the columns, and of the rest what no column hides."""
        taken = {column.name.lower() for column in self.columns}
        return (*self.columns, *(one for one in (SYSTEM_TIME, *self.origin) if one.name.lower() not in taken))

    @property
    def is_of_events(self) -> bool:
        """Does each row stem from one event?"""
        return self.kind == EVENT

    def struct(self, name: str) -> Column:
        """A row of the relation as one column, with its system timestamp (:class:`~pipelines.core.steps.Side`)."""
        return Column(name, struct_of(self._fields))

    def as_value(self, row: Row) -> dict[str, object]:
        """The value of :meth:`struct` for the row."""
        given = {SYSTEM_TIMESTAMP: row.at_us, **row.values}
        return {column.name: given[column.name] for column in self._fields}

    @property
    def _fields(self) -> tuple[Column, ...]:
        hidden = any(column.name.lower() == SYSTEM_TIMESTAMP for column in self.columns)
        return self.columns if hidden else (*self.columns, SYSTEM_TIME)


@dataclass(frozen=True, slots=True)
class Readings:
    """For each row the value of each expression, and each expression's Spark SQL type."""

    values: Sequence[Reading]
    types: Mapping[str, str]


def then_by(order: Order, position: int) -> Order:
    """The order with one more position."""
    place, positions = order
    return place, (*positions, position)


def in_order(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows in the order of their relation."""
    return tuple(sorted(rows, key=lambda row: (row.at_us, row.order)))


def readings(relation: Relation, texts: Sequence[str], evaluate: Evaluate | None) -> Readings:
    """What the expressions ``texts`` give for each row of the relation."""
    given = [{SYSTEM_TIMESTAMP: row.at_us, **row.origin, **row.values} for row in relation.rows]
    return readings_of(relation.named, given, texts, evaluate)


def readings_of(
    columns: tuple[Column, ...], rows: Sequence[Mapping[str, object]], texts: Sequence[str], evaluate: Evaluate | None
) -> Readings:
    """What the expressions give for each row, with one call of ``evaluate`` at most.

    The type of what is more than a column is known to Spark alone: without rows it is asked over one of nulls.
    """
    types = {text: path[-1].type for text in texts if (path := plain_path(text, columns)) is not None}
    asked = {text: f"typeof({text})" for text in texts if text not in types}
    found = read(columns, rows, [*texts, *asked.values()], evaluate)
    nulls = [dict.fromkeys((column.name for column in columns), None)]
    (first,) = found[:1] or read(columns, nulls, [*asked.values()], evaluate)
    types |= {text: _FIELD_NAME.sub(lambda name: quoted(name[0]), str(first[kind])) for text, kind in asked.items()}
    return Readings(found, types)
