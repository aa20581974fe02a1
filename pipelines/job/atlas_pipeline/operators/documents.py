"""Documents, their fields, variables and metadata."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

from pipelines.core.errors import did_you_mean
from pipelines.job.atlas_pipeline.scope import Operator, Scope
from pipelines.job.atlas_pipeline.text import Doc, Items
from pipelines.job.atlas_pipeline.values import (
    Guess,
    Value,
    conformed,
    fields_of,
    kind_of,
    record,
    settled,
    step_into,
    text_sql,
    unified,
    want,
)
from pipelines.job.sql.types import TEXT, Array, Map, Opaque, Record


def _document(scope: Scope, node: Any, name: str) -> Value:
    value = scope.value(node)
    want(value, Record(()))
    if kind_of(value.type) not in ("record", "null"):
        raise scope.mismatch(name, "a document", value, node)
    return value


def _merge(scope: Scope, raw: Any) -> Value:
    """Later fields replace earlier ones of the same name; one that is missing does not."""
    merged: dict[str, Value] = {}
    given = [_document(scope, node, "$mergeObjects") for node in scope.arguments("$mergeObjects", raw, 1)]
    for name, value in chain.from_iterable(map(fields_of, given)):
        merged[name] = _over(scope, name, value, merged[name]) if name in merged else value
    rest = next((one.type for one in given if isinstance(one.type, Guess)), None)
    return replace(record(list(merged.items())), rest=rest)


def _over(scope: Scope, name: str, value: Value, before: Value) -> Value:
    if not value.missing:
        return value
    kind = scope.alike([before, value], f"field '{name}' of $mergeObjects")
    first, second = (conformed(one, kind, scope.shared.fresh) for one in (value, before))
    return Value(f"coalesce({first}, {second})", kind, before.missing)


def _to_array(scope: Scope, raw: Any) -> Value:
    (node,) = scope.arguments("$objectToArray", raw, 1, 1)
    value = scope.value(node)
    if isinstance(value.type, Map):
        element = Record((("k", TEXT), ("v", value.type.value)))
        entry = scope.shared.fresh()
        pair = f"named_struct('k', {entry}.key, 'v', {entry}.value)"
        return Value(f"transform(map_entries({value.sql}), {entry} -> {pair})", Array(element))
    fields = fields_of(_document(scope, node, "$objectToArray"))
    kind = None if not fields else settled(fields[0][1].type)
    for _, one in fields[1:]:
        kind = None if kind is None else unified(kind, one.type)
    if kind is None:
        return Value("", Opaque("a document with fields of several types"), pairs=fields)
    pairs = ", ".join(
        f"named_struct('k', {text_sql(name)}, 'v', {conformed(one, kind, scope.shared.fresh)})" for name, one in fields
    )
    entry = scope.shared.fresh()
    present = f"filter(array({pairs}), {entry} -> {entry}.v IS NOT NULL)"
    return Value(present, Array(Record((("k", TEXT), ("v", kind)))), pairs=fields)


def _from_array(scope: Scope, raw: Any) -> Value:
    """Pairs of names that are known give a document; others a map."""
    nodes = raw
    if isinstance(raw, Items) and len(raw) == 1 and isinstance(raw[0], Items):
        nodes = raw[0]
    if isinstance(nodes, Items) and (written := [_written_pair(one) for one in nodes]) and None not in written:
        return record([(pair[0], scope.value(pair[1])) for pair in written if pair is not None])
    value = scope.value(scope.arguments("$arrayToObject", raw, 1, 1)[0])
    if value.pairs is not None:
        return record(list(value.pairs))
    element = value.type.element if isinstance(value.type, Array) else None
    fields = dict(element.properties) if isinstance(element, Record) else {}
    if set(fields) != {"k", "v"} or fields["k"] != TEXT:
        raise scope.refused("$arrayToObject needs an array of {k, v} whose names are text")
    return Value(f"map_from_entries({value.sql})", Map(fields["v"]))


def _written_pair(node: Any) -> tuple[str, Any] | None:
    match node:
        case Doc() if set(node) == {"k", "v"} and isinstance(node["k"], str) and not node["k"].startswith("$"):
            return node["k"], node["v"]
        case [str(name), value] if not name.startswith("$"):
            return name, value
    return None


def _get_field(scope: Scope, raw: Any) -> Value:
    named = raw if isinstance(raw, Doc) and "field" in raw else Doc(field=raw)
    scope.named("$getField", named, ("field",), ("input",))
    name = scope.constant("$getField", named["field"], str)
    value = scope.value(named["input"]) if "input" in named else scope.root()
    found = scope.fields.get(name) if "input" not in named else step_into(value, name, scope.shared.fresh)
    if found is None:
        raise scope.refused(f"$getField: there is no field '{name}'")
    return found


def _set_field(scope: Scope, raw: Any) -> Value:
    named = scope.named("$setField", raw, ("field", "input", "value"))
    fields = dict(fields_of(_document(scope, named["input"], "$setField")))
    name = scope.constant("$setField", named["field"], str)
    if named["value"] == "$$REMOVE":
        fields.pop(name, None)
    else:
        fields[name] = scope.value(named["value"])
    return record(list(fields.items()))


def _let(scope: Scope, raw: Any) -> Value:
    named = scope.named("$let", raw, ("vars", "in"))
    if not isinstance(named["vars"], Doc):
        raise scope.refused("$let needs 'vars', a document of variables")
    return scope.inside(**{name: scope.value(one) for name, one in named["vars"].items()}).value(named["in"])


def _meta(scope: Scope, raw: Any) -> Value:
    name = scope.constant("$meta", raw, str)
    found = scope.meta.get(f"$meta {name}")
    if found is None:
        known = [one.removeprefix("$meta ") for one in scope.meta if one.startswith("$meta ")]
        raise scope.refused(f"$meta '{name}' is not known here; {did_you_mean(name, known)}")
    return found


DOCUMENTS: dict[str, Operator] = {
    "$mergeObjects": _merge,
    "$objectToArray": _to_array,
    "$arrayToObject": _from_array,
    "$getField": _get_field,
    "$setField": _set_field,
    "$let": _let,
    "$meta": _meta,
}
