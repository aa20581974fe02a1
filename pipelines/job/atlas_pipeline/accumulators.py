"""The accumulators of ``$group``: the aggregates that each needs, and its value made of them (Q106).

Documents come in the order of ``$sort``, or in that of their arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pipelines.core.errors import did_you_mean
from pipelines.core.expressions import quoted
from pipelines.core.query import Aggregate, SortKey
from pipelines.job.atlas_pipeline.documents import Documents
from pipelines.job.atlas_pipeline.scope import Scope
from pipelines.job.atlas_pipeline.text import Doc, Items
from pipelines.job.atlas_pipeline.values import (
    Value,
    fields_of,
    kind_of,
    record,
    settled,
    want,
    whole,
)
from pipelines.job.sql.types import BIGINT, FLOAT, Array

EVERY = 2**31 - 1
"""The limit of a collection that has none."""
START, END = "__start_of_window", "__end_of_window"
OF_WINDOW = frozenset({START, END})
"""What stands for a window's start and end among its documents, until there is a row for the window."""


@dataclass(slots=True)
class Accumulating:
    """One ``$group`` in the making; ``aggregates`` are over the columns of ``documents.rows``."""

    documents: Documents
    scope: Scope
    aggregates: list[Aggregate] = field(default_factory=list)

    def aggregate(self, function: str, argument: str | None, **options: Any) -> str:
        """Add an aggregate; the result is its column."""
        name = f"__a{len(self.aggregates) + 1}"
        self.aggregates.append(Aggregate(name, function, argument, **options))
        return quoted(name)

    def first(self, argument: str, order: tuple[SortKey, ...]) -> str:
        """The value of the document that comes first in an order."""
        if not order:
            return self.aggregate("first", argument)
        return self.aggregate("top_one", argument, order_by=order)

    def last(self, argument: str, order: tuple[SortKey, ...]) -> str:
        """The value of the document that comes last."""
        if not order:
            return self.aggregate("last", argument)
        return self.aggregate("top_one", argument, order_by=flipped(order))

    def collected(self, argument: str, order: tuple[SortKey, ...], limit: int = EVERY) -> str:
        """The values of the first documents, in order; nulls among them."""
        # a struct is never null: aggregates leave nulls out
        value = f"named_struct('value', {argument})"
        variable = self.documents.shared.fresh()
        if not order:
            column = f"transform({self.aggregate('collect', value)}, {variable} -> {variable}.value)"
            return column if limit == EVERY else f"slice({column}, 1, {limit})"
        column = self.aggregate("collect_top", value, order_by=order, limit=limit)
        return f"transform({column}, {variable} -> {variable}.value.value)"


def flipped(order: tuple[SortKey, ...]) -> tuple[SortKey, ...]:
    """The opposite order."""
    return tuple(SortKey(one.expression, not one.descending) for one in order)


def accumulated(group: Accumulating, name: str, node: Any) -> Value:
    """The value of one field of ``$group``, over the columns of the group's row."""
    if not isinstance(node, Doc) or len(node) != 1:
        raise group.scope.refused(f"'{name}' needs one accumulator, like {{$sum: '$x'}}")
    operator, argument = next(iter(node.items()))
    build = _ACCUMULATORS.get(operator)
    if build is None:
        hint = did_you_mean(operator, _ACCUMULATORS)
        raise group.scope.refused(f"accumulator {operator} cannot be replayed; {hint}")
    return build(group, operator, argument)


Build = Callable[[Accumulating, str, Any], Value]


def _sum(group: Accumulating, _: str, node: Any) -> Value:
    """What is no number is ignored; over nothing it is 0."""
    if type(node) is int and node == 1:
        return Value(group.aggregate("count", None), BIGINT)
    value = group.scope.value(node)
    want(value, FLOAT)
    if kind_of(value.type) not in ("number", "open"):
        group.scope.shared.note(f"$sum over {value.sql}, which is no number, is always 0")
        return Value("0L", BIGINT)
    column = group.aggregate("sum", value.sql)
    integer = whole(value.type)
    return Value(f"coalesce({column}, {'0L' if integer else '0D'})", BIGINT if integer else FLOAT)


def _statistic(function: str) -> Build:
    def build(group: Accumulating, operator: str, node: Any) -> Value:
        return Value(group.aggregate(function, group.scope.number(node, operator).sql), FLOAT)

    return build


def _extreme(function: str) -> Build:
    def build(group: Accumulating, operator: str, node: Any) -> Value:
        value = group.scope.value(node)
        if value.sql in OF_WINDOW:
            return value
        if kind_of(value.type) in ("record", "array", "map"):
            raise group.scope.refused(f"{operator} of documents or arrays cannot be replayed; name one of their fields")
        if kind_of(value.type) == "null":
            return value
        return Value(group.aggregate(function, value.sql), value.type, True)

    return build


def _count(group: Accumulating, _: str, node: Any) -> Value:
    if node != {}:
        raise group.scope.refused("$count takes {} here")
    return Value(group.aggregate("count", None), BIGINT)


def _first(group: Accumulating, operator: str, node: Any) -> Value:
    value = group.scope.value(node)
    if value.sql in OF_WINDOW:
        return value
    pick = group.first if operator == "$first" else group.last
    return Value(pick(value.sql, group.documents.order), value.type, True)


def _push(group: Accumulating, _: str, node: Any) -> Value:
    """A missing value is not pushed."""
    value = group.scope.value(node)
    if group.documents.order:
        column = group.aggregate("collect_top", value.sql, order_by=group.documents.order, limit=EVERY)
        variable = group.documents.shared.fresh()
        column = f"array_compact(transform({column}, {variable} -> {variable}.value))"
    else:
        column = group.aggregate("collect", value.sql)
    return Value(column, Array(settled(value.type)))


def _add_to_set(group: Accumulating, operator: str, node: Any) -> Value:
    value = group.scope.value(node)
    group.scope.shared.note("$addToSet: a set has no order; here it has that of first occurrence")
    pushed = _push(group, operator, node)
    return Value(f"array_distinct({pushed.sql})", Array(settled(value.type)))


def sort_keys(scope: Scope, spec: Any) -> tuple[SortKey, ...]:
    """``{field: 1 or -1, ..}`` as keys."""
    if not isinstance(spec, Doc) or not spec:
        raise scope.refused("a sort needs a document like {at: -1}")
    keys = []
    for path, direction in spec.items():
        if direction not in (1, -1) or isinstance(direction, bool):
            raise scope.refused(f"'{path}' is sorted by 1 (ascending) or -1 (descending)")
        value = scope.value(f"${path}")
        if kind_of(value.type) in ("array", "map", "record"):
            raise scope.refused(f"'{path}' is an array or a document; sort by one of its fields")
        keys.append(SortKey(value.sql, direction == -1))
    return tuple(keys)


def _top(group: Accumulating, operator: str, node: Any) -> Value:
    named = group.scope.named(operator, node, ("output", "sortBy"))
    order = (*sort_keys(group.scope, named["sortBy"]), *group.documents.order)
    value = group.scope.value(named["output"])
    pick = group.first if operator == "$top" else group.last
    return Value(pick(value.sql, order), value.type, True)


def _several(group: Accumulating, operator: str, node: Any) -> Value:
    """``$topN``, ``$bottomN``, ``$firstN``, ``$lastN``: n values, in order."""
    sorted_by = operator in ("$topN", "$bottomN")
    named = group.scope.named(operator, node, ("n", "output", "sortBy") if sorted_by else ("n", "input"))
    count = _positive(group.scope, operator, named["n"])
    order = group.documents.order
    if sorted_by:
        order = (*sort_keys(group.scope, named["sortBy"]), *order)
    value = group.scope.value(named["output" if sorted_by else "input"])
    if operator in ("$topN", "$firstN"):
        column = group.collected(value.sql, order, count)
    elif order:
        column = f"reverse({group.collected(value.sql, flipped(order), count)})"
    else:
        column = f"reverse(slice(reverse({group.collected(value.sql, order)}), 1, {count}))"
    return Value(column, Array(settled(value.type)))


def _greatest(group: Accumulating, operator: str, node: Any) -> Value:
    """``$maxN``, ``$minN``: the n greatest or least values, without nulls."""
    named = group.scope.named(operator, node, ("n", "input"))
    count, value = _positive(group.scope, operator, named["n"]), group.scope.value(named["input"])
    descending = operator == "$maxN"
    null_last = SortKey(f"({value.sql} IS NULL)")
    column = group.collected(value.sql, (null_last, SortKey(value.sql, descending)), count)
    return Value(f"array_compact({column})", Array(settled(value.type)))


def _positive(scope: Scope, operator: str, node: Any) -> int:
    count: int = scope.constant(operator, node, int)
    if not 1 <= count <= EVERY:
        raise scope.refused(f"{operator} needs a positive 'n', not {count}")
    return count


def _percentile(group: Accumulating, operator: str, node: Any) -> Value:
    median = operator == "$median"
    named = group.scope.named(operator, node, ("input", "method") if median else ("input", "p", "method"))
    fractions = Items([0.5]) if median else named["p"]
    if not isinstance(fractions, Items) or not all(type(p) in (int, float) and 0 <= p <= 1 for p in fractions):
        raise group.scope.refused(f"{operator} needs 'p', an array of numbers between 0 and 1")
    number = group.scope.number(named["input"], operator)
    group.scope.shared.note(
        f"{operator} is exact here; the product estimates it, and differs where a group has many values"
    )
    double = f"CAST({number.sql} AS DOUBLE)"
    columns = [group.aggregate("percentile_disc", double, parameter=float(p)) for p in fractions]
    return Value(columns[0], FLOAT) if median else Value(f"array({', '.join(columns)})", Array(FLOAT))


def _merge_objects(group: Accumulating, operator: str, node: Any) -> Value:
    """Of each field the last value that is not missing."""
    value = group.scope.value(node)
    fields = fields_of(value)
    if kind_of(value.type) != "record":
        raise group.scope.mismatch(operator, "a document", value, node)
    variable = group.documents.shared.fresh()
    docs = group.collected(value.sql, group.documents.order)
    return record(
        [
            (
                name,
                Value(
                    f"try_element_at(array_compact(transform({docs}, {variable} -> {variable}.{quoted(name)})), -1)",
                    one.type,
                    True,
                ),
            )
            for name, one in fields
        ]
    )


_ACCUMULATORS: dict[str, Build] = {
    "$sum": _sum,
    "$avg": _statistic("avg"),
    "$stdDevPop": _statistic("stddev_pop"),
    "$stdDevSamp": _statistic("stddev_samp"),
    "$min": _extreme("min"),
    "$max": _extreme("max"),
    "$count": _count,
    "$first": _first,
    "$last": _first,
    "$push": _push,
    "$addToSet": _add_to_set,
    "$top": _top,
    "$bottom": _top,
    "$topN": _several,
    "$bottomN": _several,
    "$firstN": _several,
    "$lastN": _several,
    "$maxN": _greatest,
    "$minN": _greatest,
    "$median": _percentile,
    "$percentile": _percentile,
    "$mergeObjects": _merge_objects,
}
