"""Comparisons in BSON's order, and conditions. A comparison is never null."""

from __future__ import annotations

from typing import Any

from pipelines.job.atlas_pipeline.scope import Operator, Scope
from pipelines.job.atlas_pipeline.text import Doc, Items
from pipelines.job.atlas_pipeline.values import (
    Value,
    conformed,
    element_of,
    kind_of,
    literal,
    settled,
    unified,
    want,
)
from pipelines.job.sql.types import BIGINT, BIT, Array

_RANKS = ("null", "number", "text", "record", "map", "array", "mixed", "other", "bool", "date")
"""The order of values of different types."""


def same(scope: Scope, a: Value, b: Value) -> str:
    """Whether the values are equal; null equals null, and values of different types differ."""
    want(a, settled(b.type))
    want(b, settled(a.type))
    kinds = {kind_of(a.type), kind_of(b.type)}
    if kinds == {"number"}:
        return f"({a.sql} <=> {b.sql})"
    if "null" in kinds:
        other = a if kind_of(b.type) == "null" else b
        return "true" if kinds == {"null"} else f"({other.sql} IS NULL)"
    kind = unified(a.type, b.type)
    if kind is None:
        scope.shared.note(f"{a.sql} and {b.sql} are of different types, which are never equal")
        return f"({a.sql} IS NULL AND {b.sql} IS NULL)"
    return f"({conformed(a, kind, scope.shared.fresh)} <=> {conformed(b, kind, scope.shared.fresh)})"


def ordered(scope: Scope, sign: str, a: Value, b: Value) -> str:
    """A comparison in which null is the lowest value."""
    want(a, settled(b.type))
    want(b, settled(a.type))
    one, other = kind_of(a.type), kind_of(b.type)
    by_null = {
        "<": f"({a.sql} IS NULL AND {b.sql} IS NOT NULL)",
        "<=": f"({a.sql} IS NULL)",
        ">": f"({a.sql} IS NOT NULL AND {b.sql} IS NULL)",
        ">=": f"({b.sql} IS NULL)",
    }[sign]
    if one == other or "open" in (one, other):
        return f"coalesce({a.sql} {sign} {b.sql}, {by_null})"
    if "null" in (one, other):
        return by_null
    scope.shared.note(f"{a.sql} and {b.sql} are of different types: their order is that of the types")
    by_type = (_RANKS.index(one) < _RANKS.index(other)) == (sign[0] == "<")
    either_null = f"{a.sql} IS NULL OR {b.sql} IS NULL"
    return f"CASE WHEN {either_null} THEN {by_null} ELSE {str(by_type).lower()} END"


def _same(name: str, negated: bool) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        a, b = (scope.value(one) for one in scope.arguments(name, raw, 2, 2))
        equal = same(scope, a, b)
        return Value(f"(NOT {equal})" if negated else equal, BIT)

    return build


def _ordered(name: str, sign: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        a, b = (scope.value(one) for one in scope.arguments(name, raw, 2, 2))
        return Value(ordered(scope, sign, a, b), BIT)

    return build


def _cmp(scope: Scope, raw: Any) -> Value:
    a, b = (scope.value(one) for one in scope.arguments("$cmp", raw, 2, 2))
    return Value(f"CASE WHEN {ordered(scope, '<', a, b)} THEN -1L WHEN {same(scope, a, b)} THEN 0L ELSE 1L END", BIGINT)


def _in(scope: Scope, raw: Any) -> Value:
    node, among = scope.arguments("$in", raw, 2, 2)
    value = scope.value(node)
    if isinstance(among, Items):
        tests = [same(scope, value, scope.value(one)) for one in among]
        return Value(f"({' OR '.join(tests)})" if tests else "false", BIT)
    array, element = scope.items(among, "$in"), scope.shared.fresh()
    want(array, Array(settled(value.type)))
    scope.fails_if(f"({array.sql} IS NULL)")
    return Value(f"exists({array.sql}, {element} -> {same(scope, Value(element, element_of(array)), value)})", BIT)


def _joined(name: str, word: str, empty: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        conditions = [scope.condition(one) for one in scope.arguments(name, raw, 0)]
        return Value(f"({f' {word} '.join(conditions)})" if conditions else empty, BIT)

    return build


def _not(scope: Scope, raw: Any) -> Value:
    (node,) = scope.arguments("$not", raw, 1, 1)
    return Value(f"(NOT {scope.condition(node)})", BIT)


def _cond(scope: Scope, raw: Any) -> Value:
    if isinstance(raw, Doc):
        named = scope.named("$cond", raw, ("if", "then", "else"))
        nodes = [named["if"], named["then"], named["else"]]
    else:
        nodes = scope.arguments("$cond", raw, 3, 3)
    return _choice(scope, "$cond", [(nodes[0], nodes[1])], nodes[2])


def _switch(scope: Scope, raw: Any) -> Value:
    named = scope.named("$switch", raw, ("branches",), ("default",))
    branches = named["branches"]
    if not isinstance(branches, Items) or not branches:
        raise scope.refused("$switch needs 'branches', an array of {case, then}")
    cases = [scope.named("a branch of $switch", one, ("case", "then")) for one in branches]
    return _choice(scope, "$switch", [(one["case"], one["then"]) for one in cases], named.get("default", _FAIL))


_FAIL = object()


def _choice(scope: Scope, name: str, branches: list[tuple[Any, Any]], otherwise: Any) -> Value:
    """The value of the first branch whose condition is true; without a default the document fails."""
    conditions, values = [], []
    reached = "true"
    for case, then in branches:
        with scope.only_if(reached):
            conditions.append(scope.condition(case))
        with scope.only_if(f"{reached} AND {conditions[-1]}" if reached != "true" else conditions[-1]):
            values.append(scope.value(then))
        reached = f"NOT ({' OR '.join(conditions)})"
    if otherwise is _FAIL:
        scope.fails_if(f"({reached})")
        values.append(Value("NULL", literal_null().type))
    else:
        with scope.only_if(reached):
            values.append(scope.value(otherwise))
    kind = scope.alike(values, name)
    sql = [conformed(one, kind, scope.shared.fresh) for one in values]
    cases = " ".join(f"WHEN {one} THEN {two}" for one, two in zip(conditions, sql, strict=False))
    return Value(f"CASE {cases} ELSE {sql[-1]} END", kind, values[-1].missing)


def literal_null() -> Value:
    """Null as an expression."""
    value = literal(None)
    assert value is not None
    return value


def _if_null(scope: Scope, raw: Any) -> Value:
    values = [scope.value(one) for one in scope.arguments("$ifNull", raw, 2)]
    kind = scope.alike(values, "$ifNull")
    return Value(f"coalesce({', '.join(conformed(one, kind, scope.shared.fresh) for one in values)})", kind)


def _expr(scope: Scope, raw: Any) -> Value:
    return scope.value(raw)


LOGIC: dict[str, Operator] = {
    "$expr": _expr,
    "$eq": _same("$eq", False),
    "$ne": _same("$ne", True),
    "$lt": _ordered("$lt", "<"),
    "$lte": _ordered("$lte", "<="),
    "$gt": _ordered("$gt", ">"),
    "$gte": _ordered("$gte", ">="),
    "$cmp": _cmp,
    "$in": _in,
    "$and": _joined("$and", "AND", "true"),
    "$or": _joined("$or", "OR", "false"),
    "$not": _not,
    "$cond": _cond,
    "$switch": _switch,
    "$ifNull": _if_null,
}
