"""Analytic functions: what a row finds among the rows up to itself (Q61 to Q78)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.core.expressions import Evaluate, Reading
from pipelines.core.query import Column, Grid
from pipelines.core.steps import Analytic
from pipelines.core.values import grouping_key
from pipelines.reference.steps.aggregates import expressions_of, type_of, value_of
from pipelines.reference.steps.relation import Readings, Relation, readings
from pipelines.reference.windows import ends_on_grid


@dataclass(frozen=True, slots=True)
class _Seen:
    """A row as a function sees it."""

    at_us: int
    read: Reading


def analysed(relation: Relation, functions: Sequence[Analytic], evaluate: Evaluate | None) -> Relation:
    """Every row with the functions' values over all rows of the relation (Q41)."""
    found = readings(relation, [text for one in functions for text in _expressions(one)], evaluate)
    seen = [_Seen(row.at_us, reading) for row, reading in zip(relation.rows, found.values, strict=True)]
    rows = [
        replace(row, values={**row.values, **{one.name: _value(one, seen[: place + 1]) for one in functions}})
        for place, row in enumerate(relation.rows)
    ]
    added = [Column(one.name, _type(one, found)) for one in functions]
    return relation.with_rows(rows, (*relation.columns, *added))


def _expressions(one: Analytic) -> list[str]:
    own = [text for text in (one.argument, one.default, one.when) if text is not None]
    return [*own, *one.partition_by, *(expressions_of(one.aggregate) if one.aggregate is not None else ())]


def _type(one: Analytic, found: Readings) -> str:
    if one.aggregate is not None:
        return type_of(one.aggregate, found.types)
    return "bigint" if one.argument is None else found.types[one.argument]


def _value(one: Analytic, seen: Sequence[_Seen]) -> object:
    """The function's value for the last row of ``seen``, which are all rows up to it in their order (Q61)."""
    row, before = seen[-1], seen[:-1]
    match one.function:
        case "lag":
            looked_up = _candidates(one, row, before)[-one.offset :]
            newest = looked_up[0] if len(looked_up) == one.offset else None
            return _looked_up(one, row, newest)
        case "last":
            return _looked_up(one, row, next(reversed(_candidates(one, row, seen)), None))
        case "is_first":
            (interval,) = ends_on_grid(Grid(one.within_us, one.within_us), row.at_us)
            earlier = [other for other in _candidates(one, row, before) if interval[0] < other.at_us]
            return int(_fulfils(one, row) and not earlier)
        case "aggregate":
            assert one.aggregate is not None
            reached = [other for other in _candidates(one, row, seen) if _in_reach(one, row, other)]
            return value_of(one.aggregate, [other.read for other in reached])


def _looked_up(one: Analytic, row: _Seen, found: _Seen | None) -> object:
    """The argument's value on the row that was found, if it is in reach (Q65), else the default's on the row itself."""
    assert one.argument is not None
    if found is not None and _in_reach(one, row, found):
        return found.read[one.argument]
    return None if one.default is None else row.read[one.default]


def _candidates(one: Analytic, row: _Seen, others: Sequence[_Seen]) -> list[_Seen]:
    """Those of ``others`` that share the row's partition and fulfil ``when``; nulls are values (Q67)."""
    key = _partition(one, row)
    return [other for other in others if _partition(one, other) == key and _fulfils(one, other)]


def _partition(one: Analytic, row: _Seen) -> tuple[object, ...]:
    return tuple(grouping_key(row.read[text]) for text in one.partition_by)


def _fulfils(one: Analytic, row: _Seen) -> bool:
    return one.when is None or row.read[one.when] is True


def _in_reach(one: Analytic, row: _Seen, other: _Seen) -> bool:
    """``(system timestamp - within, system timestamp]`` (Q62)."""
    return row.at_us - one.within_us < other.at_us <= row.at_us
