"""Arrays. Null gives null where the product gives null, and fails where it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.job.atlas_pipeline.operators.logic import ordered
from pipelines.job.atlas_pipeline.scope import Operator, Scope
from pipelines.job.atlas_pipeline.text import Doc
from pipelines.job.atlas_pipeline.values import (
    Value,
    conformed,
    element_of,
    fields_of,
    kind_of,
    record,
    settled,
    text_sql,
    unified,
)
from pipelines.job.sql.types import BIGINT, BIT, TEXT, Array, Map


def _at(array: Value, place: int) -> Value:
    sql = f"get({array.sql}, {place})" if place >= 0 else f"try_element_at({array.sql}, {place})"
    return Value(sql, element_of(array), True)


def _elem_at(scope: Scope, raw: Any) -> Value:
    node, place = scope.arguments("$arrayElemAt", raw, 2, 2)
    array = scope.value(node)
    if kind_of(array.type) == "mixed":
        return _place(scope, array, scope.constant("$arrayElemAt", place, int))
    array = scope.as_items(array, "$arrayElemAt", node)
    if kind_of(array.type) == "null":
        return array
    if isinstance(place, int) and not isinstance(place, bool):
        return _at(array, max(min(place, 2**31 - 1), -(2**31)))
    index = f"CAST({scope.number(place, '$arrayElemAt').sql} AS INT)"
    sql = f"CASE WHEN {index} >= 0 THEN get({array.sql}, {index}) ELSE try_element_at({array.sql}, {index}) END"
    return Value(sql, element_of(array), True)


def _place(scope: Scope, array: Value, place: int) -> Value:
    """One place of an array whose places have types of their own."""
    parts = fields_of(array)
    if not -len(parts) <= place < len(parts):
        return scope.value(None)
    return parts[place][1]


def _end(name: str, place: int) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        (node,) = scope.arguments(name, raw, 1, 1)
        array = scope.value(node)
        if kind_of(array.type) == "mixed":
            return _place(scope, array, place)
        array = scope.as_items(array, name, node)
        return array if kind_of(array.type) == "null" else _at(array, place)

    return build


def _size(scope: Scope, raw: Any) -> Value:
    array = scope.items(scope.arguments("$size", raw, 1, 1)[0], "$size")
    scope.fails_if(f"({array.sql} IS NULL)")
    return Value(f"CAST(size({array.sql}) AS BIGINT)", BIGINT)


def _element(scope: Scope, named: dict[str, Any], name: str, array: Value) -> tuple[str, Scope]:
    variable = scope.shared.fresh()
    called = str(scope.constant(name, named.get("as", "this"), str))
    return variable, scope.inside(**{called: Value(variable, element_of(array), True)})


def _filter(scope: Scope, raw: Any) -> Value:
    named = scope.named("$filter", raw, ("input", "cond"), ("as", "limit"))
    given = scope.value(named["input"])
    if given.pairs is not None:
        return _kept_pairs(scope, named, given.pairs)
    array = scope.items(named["input"], "$filter")
    variable, inner = _element(scope, named, "$filter", array)
    with scope.for_each(array.sql, variable):
        condition = inner.condition(named["cond"])
    sql = f"filter({array.sql}, {variable} -> {condition})"
    if "limit" in named:
        sql = f"slice({sql}, 1, CAST({scope.number(named['limit'], '$filter').sql} AS INT))"
    return Value(sql, array.type)


def _kept_pairs(scope: Scope, named: dict[str, Any], pairs: tuple[tuple[str, Value], ...]) -> Value:
    """The fields of a document that fulfil a condition; the others become null."""
    called = str(scope.constant("$filter", named.get("as", "this"), str))
    kept = []
    for name, value in pairs:
        pair = record([("k", Value(text_sql(name), TEXT)), ("v", value)])
        condition = scope.inside(**{called: pair}).condition(named["cond"])
        kept.append((name, Value(f"CASE WHEN {condition} THEN {value.sql} END", value.type, True)))
    return Value("", Map(TEXT), pairs=tuple(kept))


def _map(scope: Scope, raw: Any) -> Value:
    named = scope.named("$map", raw, ("input", "in"), ("as",))
    array = scope.items(named["input"], "$map")
    variable, inner = _element(scope, named, "$map", array)
    with scope.for_each(array.sql, variable):
        result = inner.value(named["in"])
    return Value(f"transform({array.sql}, {variable} -> {result.sql})", Array(settled(result.type)))


def _reduce(scope: Scope, raw: Any) -> Value:
    """The accumulated value has the least type that fits the initial value and all later ones."""
    named = scope.named("$reduce", raw, ("input", "initialValue", "in"))
    array, start = scope.items(named["input"], "$reduce"), scope.value(named["initialValue"])
    so_far, this = scope.shared.fresh(), scope.shared.fresh()
    kind = settled(start.type)
    before = len(scope.shared.guards)
    for _ in range(8):
        del scope.shared.guards[before:]
        variables = {"value": Value(so_far, kind), "this": Value(this, element_of(array), True)}
        result = scope.inside(**variables).value(named["in"])
        both = unified(kind, result.type)
        if both is None:
            raise scope.refused("$reduce gives values of different types; convert with $toString or so")
        if both == kind:
            break
        kind = both
    else:
        raise scope.refused("$reduce nests its result deeper with each element; that has no type")
    if scope.shared.guards[before:]:
        raise scope.refused("an expression that may fail cannot stand inside $reduce; compute it in an earlier stage")
    begin, step = (conformed(one, kind, scope.shared.fresh) for one in (start, result))
    return Value(f"aggregate({array.sql}, {begin}, ({so_far}, {this}) -> {step})", kind)


def _concat_arrays(scope: Scope, raw: Any) -> Value:
    arrays = [scope.items(one, "$concatArrays") for one in scope.arguments("$concatArrays", raw, 1)]
    kind = scope.alike(arrays, "$concatArrays")
    return Value(f"concat({', '.join(conformed(one, kind, scope.shared.fresh) for one in arrays)})", kind)


def _slice(scope: Scope, raw: Any) -> Value:
    node, first, *rest = scope.arguments("$slice", raw, 2, 3)
    array = scope.items(node, "$slice")
    start, count = (first, rest[0]) if rest else (0, first)
    start, count = scope.constant("$slice", start, int), scope.constant("$slice", count, int)
    if rest and count <= 0:
        raise scope.refused("$slice takes a positive number of elements after a position")
    if count < 0:
        start, count = count, -count
    if start >= 0:
        return Value(f"slice({array.sql}, {start + 1}, {count})", array.type)
    begin = f"greatest(size({array.sql}) + {start}, 0)"
    return Value(f"slice({array.sql}, {begin} + 1, {count})", array.type)


def _range(scope: Scope, raw: Any) -> Value:
    first, last, *rest = scope.arguments("$range", raw, 2, 3)
    start, end = scope.number(first, "$range").sql, scope.number(last, "$range").sql
    step = scope.constant("$range", rest[0], int) if rest else 1
    if step == 0:
        raise scope.refused("$range by 0 has no end")
    inside, sign = (">", "-") if step > 0 else ("<", "+")
    begin, stop = f"CAST({start} AS BIGINT)", f"CAST({end} AS BIGINT)"
    counted = f"sequence({begin}, {stop} {sign} 1L, {step}L)"
    return Value(f"CASE WHEN {stop} {inside} {begin} THEN {counted} ELSE array() END", Array(BIGINT))


def _plain(name: str, function: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        array = scope.items(scope.arguments(name, raw, 1, 1)[0], name)
        return Value(f"{function}({array.sql})", array.type)

    return build


def _sort_array(scope: Scope, raw: Any) -> Value:
    named = scope.named("$sortArray", raw, ("input", "sortBy"))
    array = scope.items(named["input"], "$sortArray")
    left, right = scope.shared.fresh(), scope.shared.fresh()
    by = named["sortBy"]
    keys = list(by.items()) if isinstance(by, Doc) else [("", by)]
    tests = []
    for path, direction in keys:
        pair = [Value(one, element_of(array)) for one in (left, right)]
        if path:
            pair = [scope.into(one, path.split("."), path) for one in pair]
        down = scope.constant("$sortArray", direction, int) < 0
        tests.append(f"WHEN {ordered(scope, '<', *pair)} THEN {'1' if down else '-1'}")
        tests.append(f"WHEN {ordered(scope, '>', *pair)} THEN {'-1' if down else '1'}")
    return Value(f"array_sort({array.sql}, ({left}, {right}) -> CASE {' '.join(tests)} ELSE 0 END)", array.type)


def _index_of(scope: Scope, raw: Any) -> Value:
    node, sought = scope.arguments("$indexOfArray", raw, 2, 2)
    array, value = scope.items(node, "$indexOfArray"), scope.value(sought)
    element = conformed(value, scope.alike([Value("", element_of(array)), value], "$indexOfArray"), scope.shared.fresh)
    return Value(f"CAST(array_position({array.sql}, {element}) - 1 AS BIGINT)", BIGINT)


def _set(name: str, function: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        arrays = [
            scope.items(one, name) for one in scope.arguments(name, raw, 2, None if name != "$setDifference" else 2)
        ]
        kind = scope.alike(arrays, name)
        sql, *rest = (conformed(one, kind, scope.shared.fresh) for one in arrays)
        for other in rest:
            sql = f"{function}({sql}, {other})"
        scope.shared.note(f"{name}: a set has no order; here it has that of first occurrence")
        return Value(sql, kind)

    return build


def _elements_true(name: str, function: Callable[[str], str]) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        array, element = scope.items(scope.arguments(name, raw, 1, 1)[0], name), scope.shared.fresh()
        truth = scope.inside(element=Value(element, element_of(array))).condition("$$element")
        scope.fails_if(f"({array.sql} IS NULL)")
        return Value(f"{function(array.sql)}, {element} -> {truth})", BIT)

    return build


ARRAYS: dict[str, Operator] = {
    "$arrayElemAt": _elem_at,
    "$first": _end("$first", 0),
    "$last": _end("$last", -1),
    "$size": _size,
    "$filter": _filter,
    "$map": _map,
    "$reduce": _reduce,
    "$concatArrays": _concat_arrays,
    "$slice": _slice,
    "$range": _range,
    "$reverseArray": _plain("$reverseArray", "reverse"),
    "$sortArray": _sort_array,
    "$indexOfArray": _index_of,
    "$setUnion": _set("$setUnion", "array_union"),
    "$setIntersection": _set("$setIntersection", "array_intersect"),
    "$setDifference": _set("$setDifference", "array_except"),
    "$anyElementTrue": _elements_true("$anyElementTrue", lambda array: f"exists({array}"),
    "$allElementsTrue": _elements_true("$allElementsTrue", lambda array: f"forall({array}"),
}
