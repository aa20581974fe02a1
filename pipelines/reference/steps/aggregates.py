"""Aggregates over the rows of a window or in reach of a row: their expressions, their values and their types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipelines.core.expressions import Reading
from pipelines.core.query import Aggregate, Column
from pipelines.core.types import struct_of
from pipelines.core.values import order_key
from pipelines.reference.aggregates import compute

_OF_ITS_ARGUMENT = frozenset({"min", "max", "first", "last", "top_one"})
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def expressions_of(aggregate: Aggregate) -> list[str]:
    """What is read of each row for the aggregate."""
    argument = [] if aggregate.argument is None else [aggregate.argument]
    return [*argument, *(key.expression for key in aggregate.order_by)]


def value_of(aggregate: Aggregate, rows: Sequence[Reading]) -> object:
    """The aggregate over ``rows``, which stand in order of system timestamp and order.

    TopOne and CollectTop take the first rows by ``order_by``; of equal rows the earlier one comes first (Q56).
    """
    argument = aggregate.argument
    if aggregate.function in ("top_one", "collect_top"):
        assert argument is not None
        ranked = [row[argument] for row in _ranked(aggregate, rows)[: aggregate.limit]]
        if aggregate.function == "top_one":
            return ranked[0] if ranked else None
        return [{"rank": rank, "value": value} for rank, value in enumerate(ranked, 1)]
    return compute(aggregate, [None if argument is None else row[argument] for row in rows])


def _ranked(aggregate: Aggregate, rows: Sequence[Reading]) -> list[Reading]:
    ranked = list(rows)
    for key in reversed(aggregate.order_by):
        # sorting is stable, in both directions
        ranked.sort(key=lambda row: order_key(row[key.expression]), reverse=key.descending)
    return ranked


def type_of(aggregate: Aggregate, types: Mapping[str, str]) -> str:
    """The Spark SQL type of the aggregate's value; ``types``: those of the expressions."""
    of = "bigint" if aggregate.argument is None else types[aggregate.argument]
    match aggregate.function:
        case "count":
            return "bigint"
        case "collect":
            return f"array<{of}>"
        case "collect_top":
            return f"array<{struct_of((Column('rank', 'bigint'), Column('value', of)))}>"
        case "sum" | "avg" if match := _DECIMAL.fullmatch(of):
            wider, finer = (10, 0) if aggregate.function == "sum" else (4, 4)
            return f"decimal({min(int(match[1]) + wider, 38)},{min(int(match[2]) + finer, 38)})"
        case "sum":
            return "double" if of in ("double", "float") else "bigint"
        case name if name in _OF_ITS_ARGUMENT:
            return of
        case _:
            return "double"
