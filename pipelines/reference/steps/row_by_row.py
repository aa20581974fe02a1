"""Steps that look at one row at a time: filters, projections, APPLY, and unions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipelines.core.expressions import Evaluate
from pipelines.core.query import Column
from pipelines.core.steps import Applied, Computed
from pipelines.core.types import element_of, struct_of
from pipelines.reference.steps.relation import EVENT, Relation, Row, readings, then_by

_PROPERTY_NAME = Column("PropertyName", "string")
_ARRAY_INDEX = Column("ArrayIndex", "bigint")


def filtered(relation: Relation, condition: str, evaluate: Evaluate | None) -> Relation:
    """The rows for which ``condition`` is true (Q31)."""
    found = readings(relation, [condition], evaluate).values
    return relation.with_rows(
        [row for row, reading in zip(relation.rows, found, strict=True) if reading[condition] is True]
    )


def projected(relation: Relation, columns: Sequence[Computed], evaluate: Evaluate | None) -> Relation:
    """One row for each row, at its time (Q20)."""
    found = readings(relation, [one.expression for one in columns], evaluate)
    rows = [
        replace(row, values={one.name: reading[one.expression] for one in columns})
        for row, reading in zip(relation.rows, found.values, strict=True)
    ]
    return relation.with_rows(rows, [Column(one.name, found.types[one.expression]) for one in columns])


def applied(relation: Relation, step: Applied, evaluate: Evaluate | None) -> Relation:
    """A row for each element or property, at the time of its row, in their order (Q44)."""
    found = readings(relation, [step.argument], evaluate)
    first, second = ("ArrayIndex", "ArrayValue") if step.of == "array" else ("PropertyName", "PropertyValue")
    element = Column(second, element_of(found.types[step.argument]))
    column = Column(step.name, struct_of((_ARRAY_INDEX if step.of == "array" else _PROPERTY_NAME, element)))
    rows: list[Row] = []
    for row, reading in zip(relation.rows, found.values, strict=True):
        argument = reading[step.argument]
        elements: Sequence[object] = []
        if isinstance(argument, dict):
            elements = [{first: name, second: value} for name, value in argument.items()]
        elif isinstance(argument, list):
            elements = [{first: index, second: value} for index, value in enumerate(argument)]
        if step.outer and not elements:
            elements = [None]
        rows.extend(
            replace(row, order=then_by(row.order, position), values={**row.values, step.name: one})
            for position, one in enumerate(elements)
        )
    return relation.with_rows(rows, (*relation.columns, column))


def united(branches: Sequence[Relation]) -> Relation:
    """The rows of all branches; columns match by position, names are the first one's (Q14).

    Where each row stems from one event the arrival decides first and the branch last, else the branch first (Q6).
    """
    first = branches[0]
    columns = [
        Column(same[0].name, _wider([column.type for column in same]))
        for same in zip(*(branch.columns for branch in branches), strict=True)
    ]
    of_events = all(branch.is_of_events for branch in branches)
    rows = [
        replace(
            row,
            order=then_by(row.order, position) if of_events else ((position, row.order), ()),
            values={
                column.name: _as_type(column, row.values[own.name])
                for column, own in zip(columns, branch.columns, strict=True)
            },
        )
        for position, branch in enumerate(branches)
        for row in branch.rows
    ]
    same_origin = all(branch.origin == first.origin for branch in branches)
    kind = EVENT if of_events else ("union", *(branch.kind for branch in branches))
    whole = Relation(tuple(columns), first.origin if same_origin else (), kind, ())
    return whole.with_rows(rows)


def _wider(types: Sequence[str]) -> str:
    """The type of a column of a union: of BIGINT and DOUBLE it is DOUBLE, and NULL has any type."""
    known = [one for one in dict.fromkeys(types) if one != "void"]
    return "double" if set(known) == {"bigint", "double"} else next(iter(known), "void")


def _as_type(column: Column, value: object) -> object:
    return float(value) if column.type == "double" and isinstance(value, int) else value
