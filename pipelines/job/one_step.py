"""The steps of a job file's query: one step, which a script would write as one SELECT.

Its parts act in the order source, ``where``, ``group_by`` with window, ``having``, ``select`` (Q41).
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.expressions import quoted_path
from pipelines.core.model import AnyOf, Join, Query, Session, output_name
from pipelines.core.steps import (
    Computed,
    Filtered,
    InputRows,
    Joined,
    Output,
    Projected,
    Rows,
    Side,
    Steps,
    United,
    Windowed,
)
from pipelines.core.time import UNIT_US

OUTPUT = "output"
"""The name of the one output (Q91)."""


def row_steps(sources: Sequence[str], join: Join | None, where: str | None, select: tuple[Computed, ...]) -> Steps:
    """A row for each row of the source that ``where`` keeps (Q20)."""
    return _one_output(Projected(_source(sources, join, where), select))


def window_steps(query: Query, having: str | None, select: tuple[Computed, ...] | None) -> Steps:
    """The query's windows that ``having`` keeps, with the columns of ``select``, or all."""
    keys = tuple(Computed(output_name(column), quoted_path(column)) for column in query.group_by)
    rows: Rows = Windowed(_source(query.sources, query.join, query.where), query.window, keys, query.aggregates)
    if having is not None:
        rows = Filtered(rows, having)
    return _one_output(rows if select is None else Projected(rows, select))


def all_columns(names: Sequence[str]) -> tuple[Computed, ...]:
    """Every column as it is; ``a.plate`` of a join is called ``a_plate``."""
    return tuple(Computed(output_name(name), quoted_path(name)) for name in names)


def expressions_of(query: Query) -> list[str]:
    """Every expression of the query."""
    members = [window for _, window in query.window.members] if isinstance(query.window, AnyOf) else [query.window]
    chains = [column for window in members if isinstance(window, Session) for column in window.partition_by]
    arguments = [one.argument for one in query.aggregates if one.argument is not None]
    names = map(quoted_path, (*query.group_by, *chains))
    return [*names, *arguments, *([query.where] if query.where is not None else [])]


def _one_output(rows: Rows) -> Steps:
    return Steps((), (Output(OUTPUT, rows),))


def _source(sources: Sequence[str], join: Join | None, where: str | None) -> Rows:
    rows: Rows
    if join is not None:
        keys = tuple((quoted_path(name), quoted_path(name)) for name in join.on)
        left, right = (Side(name, InputRows(name)) for name in (join.left, join.right))
        rows = Joined(left, right, UNIT_US[join.unit], join.from_units, join.to_units, keys, kind=join.kind)
    elif len(sources) == 1:
        rows = InputRows(sources[0])
    else:
        rows = United(tuple(map(InputRows, sources)))
    return rows if where is None else Filtered(rows, where)
