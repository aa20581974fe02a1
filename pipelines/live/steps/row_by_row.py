"""Relations that look at one row at a time: filters, projections, APPLY, and unions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import JobFileError
from pipelines.core.steps import Applied, Computed
from pipelines.live.steps.expressions import Evaluate
from pipelines.live.steps.relation import EVENT, Columns, Relation, column_of, then_by


def filtered(rows: Relation, condition: str, evaluate: Evaluate) -> Relation:
    """The rows for which ``condition`` is true (Q31)."""
    return rows.take(where_true(condition, evaluate(rows.named, [condition])))


def where_true(condition: str, found: Columns) -> list[int]:
    """The places at which a condition that was evaluated is true."""
    values = found[condition]
    if not (pa.types.is_boolean(values.type) or pa.types.is_null(values.type)):
        raise JobFileError(f"'{condition}' is {values.type}, not a condition", hint="compare it to something")
    return [place for place, value in enumerate(values.to_pylist()) if value is True]


def projected(rows: Relation, columns: Sequence[Computed], evaluate: Evaluate) -> Relation:
    """One row for each row, at its time (Q20)."""
    found = evaluate(rows.named, [one.expression for one in columns])
    return replace(rows, columns={one.name: found[one.expression] for one in columns})


def applied(rows: Relation, step: Applied, evaluate: Evaluate) -> Relation:
    """A row for each element or property, at the time of its row, in their order (Q44)."""
    argument = evaluate(rows.named, [step.argument])[step.argument]
    if step.of == "array":
        names, key, kind = ("ArrayIndex", "ArrayValue"), pa.int64(), getattr(argument.type, "value_type", pa.null())
    else:
        names, key, kind = (
            ("PropertyName", "PropertyValue"),
            pa.string(),
            getattr(argument.type, "item_type", pa.null()),
        )
    places: list[int] = []
    elements: list[dict[str, Any] | None] = []
    positions: list[int] = []
    for place, value in enumerate(argument.to_pylist()):
        pairs = enumerate(value or ()) if step.of == "array" else (value or ())
        found: list[dict[str, Any] | None] = [dict(zip(names, pair, strict=True)) for pair in pairs]
        if step.outer and not found:
            found = [None]
        elements += found
        positions += range(len(found))
        places += [place] * len(found)
    repeated = rows.take(places)
    orders = [then_by(order, position) for order, position in zip(repeated.orders, positions, strict=True)]
    column = column_of(elements, pa.struct(list(zip(names, (key, kind), strict=True))))
    return replace(repeated, orders=orders, columns={**repeated.columns, step.name: column})


def united(branches: Sequence[Relation]) -> Relation:
    """The rows of all branches; columns match by position, names are the first one's (Q14).

    Where each row stems from one event its order decides first and the branch last, else the branch first (Q6).
    """
    first = branches[0]
    are_events = all(branch.kind == EVENT for branch in branches)
    times = [time for branch in branches for time in branch.times]
    orders = [
        then_by(order, position) if are_events else ((position, order), ())
        for position, branch in enumerate(branches)
        for order in branch.orders
    ]
    by_position = zip(*(branch.columns.values() for branch in branches), strict=True)
    columns = dict(zip(first.columns, map(_concatenated, by_position), strict=True))
    same_origin = all(list(branch.origin) == list(first.origin) for branch in branches)
    names = first.origin if same_origin else ()
    origin = {name: _concatenated([branch.origin[name] for branch in branches]) for name in names}
    kind = EVENT if are_events else ("union", *(branch.kind for branch in branches))
    return Relation.sorted(times, orders, columns, origin, kind)


def _concatenated(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Columns one after the other; BIGINT becomes DOUBLE where another is DOUBLE, and NULL becomes any type."""
    wider = [column.type for column in columns if pa.types.is_floating(column.type)]
    known = [column.type for column in columns if not pa.types.is_null(column.type)]
    kind = (wider or known or [pa.null()])[0]
    return pa.chunked_array([chunk for column in columns for chunk in pc.cast(column, kind, safe=False).chunks], kind)
