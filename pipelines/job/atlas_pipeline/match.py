"""Conditions on documents: the query language of ``$match`` and ``$validate``, and JSON Schema (Q102, Q109).

A condition is true or false, never null. Comparisons look at values of their own type only; of an array one element
must fulfil them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.core.errors import did_you_mean
from pipelines.job.atlas_pipeline.operators.logic import same
from pipelines.job.atlas_pipeline.operators.strings import regex_sql
from pipelines.job.atlas_pipeline.scope import Scope
from pipelines.job.atlas_pipeline.text import Doc, Items, Pattern
from pipelines.job.atlas_pipeline.values import (
    Value,
    element_of,
    fields_of,
    kind_of,
    literal,
    record,
    settled,
    want,
    whole,
)
from pipelines.job.sql.types import BIT, DATETIME, FLOAT, NULL, TEXT, Array, Type

_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_TYPES = {
    "number": "number",
    "int": "number",
    "long": "number",
    "double": "number",
    "decimal": "number",
    "integer": "number",
    "string": "text",
    "bool": "bool",
    "boolean": "bool",
    "date": "date",
    "object": "record",
    "array": "array",
    "null": "null",
}


def condition(scope: Scope, query: Any) -> str:
    """A query as Spark SQL."""
    if not isinstance(query, Doc):
        raise scope.refused("a condition is a document, like {speed: {$gt: 30}}")
    return _all([_clause(scope, name, one) for name, one in query.items()])


def _clause(scope: Scope, name: str, one: Any) -> str:
    match name:
        case "$and" | "$or" | "$nor":
            if not isinstance(one, Items) or not one:
                raise scope.refused(f"{name} needs an array of conditions")
            parts = [condition(scope, part) for part in one]
            joined = f"({(' AND ' if name == '$and' else ' OR ').join(parts)})"
            return f"(NOT {joined})" if name == "$nor" else joined
        case "$expr":
            return scope.condition(one)
        case "$jsonSchema":
            return _schema(scope, scope.root(), one)
        case "$comment":
            return "true"
    if name.startswith("$"):
        raise scope.refused(f"{name} cannot be replayed in a condition; write it with $expr")
    return _test(scope, scope.value(f"${name}"), one)


def _all(parts: Sequence[str]) -> str:
    if not parts:
        return "true"
    return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"


def _constant(scope: Scope, node: Any) -> Value:
    """A literal: ``$`` in its texts means nothing."""
    if isinstance(node, Items):
        return scope.array([_constant(scope, one) for one in node])
    if isinstance(node, Doc):
        return record([(name, _constant(scope, one)) for name, one in node.items()])
    value = literal(node)
    if value is None:
        raise scope.refused(f"{node!r} cannot stand in a condition")
    return value


def _test(scope: Scope, value: Value, wanted: Any) -> str:
    if isinstance(wanted, Doc) and any(name.startswith("$") for name in wanted):
        options = wanted.get("$options", "")
        tests = [_operator(scope, value, name, one, options) for name, one in wanted.items() if name != "$options"]
        return _all(tests)
    return _operator(scope, value, "$eq", wanted, "")


def _operator(scope: Scope, value: Value, name: str, wanted: Any, options: Any) -> str:
    match name:
        case "$ne":
            return f"(NOT {_operator(scope, value, '$eq', wanted, '')})"
        case "$nin":
            return f"(NOT {_operator(scope, value, '$in', wanted, '')})"
        case "$not":
            return f"(NOT {_test(scope, value, wanted)})"
        case "$exists":
            scope.shared.note("$exists: a field that is null counts as missing")
            return f"({value.sql} IS {'NOT ' if wanted not in (False, 0, None) else ''}NULL)"
        case "$type":
            return _has_type(scope, value, wanted)
        case "$size":
            return f"coalesce(size({_array(scope, value, name).sql}) = {scope.constant(name, wanted, int)}, false)"
        case "$elemMatch":
            return _element_match(scope, _array(scope, value, name), wanted)
        case "$all":
            if not isinstance(wanted, Items):
                raise scope.refused("$all needs an array")
            return _all([_operator(scope, value, "$eq", one, "") for one in wanted])
    if kind_of(value.type) == "array" and not (name == "$eq" and isinstance(wanted, Items)):
        variable = scope.shared.fresh()
        inner = _operator(scope, Value(variable, element_of(value)), name, wanted, options)
        found = f"coalesce(exists({value.sql}, {variable} -> {inner}), false)"
        return f"({found} OR {value.sql} IS NULL)" if name == "$eq" and wanted is None else found
    return _scalar(scope, value, name, wanted, options)


def _scalar(scope: Scope, value: Value, name: str, wanted: Any, options: Any) -> str:
    match name:
        case "$eq" | "$regex" if isinstance(wanted, Pattern):
            return _regex(scope, value, wanted.pattern, f"{wanted.options}{options}")
        case "$eq":
            return same(scope, value, _constant(scope, wanted))
        case "$in":
            if not isinstance(wanted, Items):
                raise scope.refused("$in needs an array")
            tests = [_scalar(scope, value, "$eq", one, "") for one in wanted]
            return f"({' OR '.join(tests)})" if tests else "false"
        case "$gt" | "$gte" | "$lt" | "$lte":
            return _compared(scope, value, name, _constant(scope, wanted))
        case "$regex":
            pattern = scope.constant(name, wanted, str)
            return _regex(scope, value, pattern, scope.constant("$options", options, str))
        case "$mod":
            if not isinstance(wanted, Items) or len(wanted) != 2:
                raise scope.refused("$mod needs [divisor, remainder]")
            divisor, remainder = (scope.constant(name, one, int) for one in wanted)
            if divisor == 0:
                raise scope.refused("$mod by 0 is not allowed")
            want(value, FLOAT)
            return f"coalesce(CAST({value.sql} AS BIGINT) % {divisor} = {remainder}, false)"
    known = ("$eq", "$ne", "$in", "$nin", *_SIGNS, "$exists", "$type", "$size", "$elemMatch", "$all", "$regex", "$mod")
    raise scope.refused(f"{name} cannot be replayed in a condition; {did_you_mean(name, known)}")


def _compared(scope: Scope, value: Value, name: str, wanted: Value) -> str:
    """A comparison with a literal, which only values of its own type can fulfil."""
    want(value, settled(wanted.type))
    one, other = kind_of(value.type), kind_of(wanted.type)
    if other == "null":
        return f"({value.sql} IS NULL)" if name in ("$gte", "$lte") else "false"
    if one != other and one != "open":
        scope.shared.note(f"{value.sql} is compared with a value of another type, which is never true")
        return "false"
    return f"coalesce({value.sql} {_SIGNS[name]} {wanted.sql}, false)"


def _regex(scope: Scope, value: Value, pattern: str, options: str) -> str:
    want(value, TEXT)
    if kind_of(value.type) != "text":
        return "false"
    return f"coalesce({value.sql} RLIKE {regex_sql(scope, pattern, options)}, false)"


def _array(scope: Scope, value: Value, name: str) -> Value:
    want(value, Array(NULL))
    if kind_of(value.type) != "array":
        raise scope.mismatch(name, "an array", value, "the field")
    return value


def _element_match(scope: Scope, value: Value, wanted: Any) -> str:
    variable = scope.shared.fresh()
    element = Value(variable, element_of(value))
    if not isinstance(wanted, Doc):
        raise scope.refused("$elemMatch needs a condition")
    if any(name.startswith("$") for name in wanted):
        inner = _test(scope, element, wanted)
    else:
        inner = _all([_test(scope, scope.into(element, name.split("."), name), one) for name, one in wanted.items()])
    return f"coalesce(exists({value.sql}, {variable} -> {inner}), false)"


def _has_type(scope: Scope, value: Value, wanted: Any) -> str:
    names = list(wanted) if isinstance(wanted, Items) else [wanted]
    for one in names:
        if not isinstance(one, str) or one not in _TYPES:
            raise scope.refused(f"$type {one!r} cannot be replayed; it can be {', '.join(_TYPES)}")
    kinds = {_TYPES[one] for one in names}
    scope.shared.note("$type: a column has one type, and a field that is null counts as missing")
    if kind_of(value.type) not in (*kinds, "open"):
        return "false"
    return f"({value.sql} IS NOT NULL)"


# JSON Schema

_WANTED: dict[str, Type] = {"number": FLOAT, "text": TEXT, "array": Array(NULL), "bool": BIT, "date": DATETIME}
_SAID_ONLY = frozenset({"title", "description", "$comment"})


def _schema(scope: Scope, value: Value, schema: Any) -> str:
    """Whether a value fulfils a schema. A schema demands nothing of a missing field."""
    if not isinstance(schema, Doc):
        raise scope.refused("a schema is a document, like {required: ['at']}")
    return _all([_keyword(scope, value, name, one, schema) for name, one in schema.items() if name not in _SAID_ONLY])


def _keyword(scope: Scope, value: Value, name: str, one: Any, schema: Doc) -> str:
    match name:
        case "required" | "dependencies" | "enum" | "allOf" | "anyOf" | "oneOf" if not isinstance(one, Items):
            raise scope.refused(f"'{name}' of a schema needs an array")
        case "required":
            return _all([f"({_property(scope, value, field).sql} IS NOT NULL)" for field in one])
        case "properties" if isinstance(one, Doc):
            return _all([_if_present(scope, _property(scope, value, field), part) for field, part in one.items()])
        case "bsonType" | "type":
            return _schema_type(scope, value, one)
        case "minimum" | "maximum":
            strict = schema.get(f"exclusive{name.capitalize()}") is True
            sign = (">" if name == "minimum" else "<") + ("" if strict else "=")
            return f"({_number(scope, value)} {sign} {_limit(scope, name, one)})"
        case "exclusiveMinimum" | "exclusiveMaximum" if isinstance(one, bool):
            return "true"
        case "exclusiveMinimum" | "exclusiveMaximum":
            return f"({_number(scope, value)} {'>' if name.endswith('Minimum') else '<'} {_limit(scope, name, one)})"
        case "pattern":
            return _regex(scope, value, scope.constant("pattern", one, str), "")
        case "minLength" | "maxLength":
            want(value, TEXT)
            return f"(length({value.sql}) {'>' if name == 'minLength' else '<'}= {scope.constant(name, one, int)})"
        case "minItems" | "maxItems":
            size = f"size({_array(scope, value, name).sql})"
            return f"({size} {'>' if name == 'minItems' else '<'}= {scope.constant(name, one, int)})"
        case "enum":
            return f"({' OR '.join(same(scope, value, _constant(scope, part)) for part in one) or 'false'})"
        case "not":
            return f"(NOT {_schema(scope, value, one)})"
        case "allOf":
            return _all([_schema(scope, value, part) for part in one])
        case "anyOf":
            return f"({' OR '.join(_schema(scope, value, part) for part in one) or 'false'})"
        case "additionalProperties" if one is True:
            return "true"
    raise scope.refused(f"'{name}' of a schema cannot be replayed; leave it out, or write it with $expr")


def _property(scope: Scope, value: Value, name: Any) -> Value:
    if not isinstance(name, str):
        raise scope.refused(f"{name!r} is not a field's name")
    known = dict(fields_of(value))
    if name in known:
        return known[name]
    return scope.into(value, [name], name)


def _if_present(scope: Scope, value: Value, schema: Any) -> str:
    return f"({value.sql} IS NULL OR {_schema(scope, value, schema)})"


def _schema_type(scope: Scope, value: Value, one: Any) -> str:
    names = list(one) if isinstance(one, Items) else [one]
    kinds = []
    for name in names:
        if not isinstance(name, str) or name not in _TYPES:
            raise scope.refused(f"a schema's type {name!r} cannot be replayed; it can be {', '.join(_TYPES)}")
        kinds.append(_TYPES[name])
    if len(kinds) == 1:
        want(value, _WANTED.get(kinds[0], NULL))
    kind = kind_of(value.type)
    if kind not in (*kinds, "open"):
        scope.shared.note(f"{value.sql} never has the type that a schema demands")
        return "false"
    if kind == "number" and not {"number", "double", "decimal"} & set(names) and not whole(value.type):
        return f"({value.sql} = floor({value.sql}))"
    return "true"


def _number(scope: Scope, value: Value) -> str:
    want(value, FLOAT)
    if kind_of(value.type) not in ("number", "open"):
        raise scope.refused(f"{value.sql} is not a number, but a schema limits it")
    return value.sql


def _limit(scope: Scope, name: str, one: Any) -> str:
    limit = literal(one)
    if limit is None or kind_of(limit.type) != "number":
        raise scope.refused(f"'{name}' of a schema needs a number")
    return limit.sql
