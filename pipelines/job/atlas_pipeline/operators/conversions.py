"""Conversions. One that fails without ``onError`` sends the document to the dead letter queue."""

from __future__ import annotations

from typing import Any

from pipelines.job.atlas_pipeline.scope import Operator, Scope
from pipelines.job.atlas_pipeline.values import Value, conformed, kind_of, want, whole
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, TEXT, Type

_TYPES: dict[object, str] = {
    "double": "double", 1: "double",
    "string": "string", 2: "string",
    "bool": "bool", 8: "bool",
    "date": "date", 9: "date",
    "int": "int", 16: "int",
    "long": "long", 18: "long",
    "decimal": "decimal", 19: "decimal",
}  # fmt: skip
_RESULTS: dict[str, Type] = {
    "double": FLOAT,
    "decimal": FLOAT,
    "string": TEXT,
    "bool": BIT,
    "date": DATETIME,
    "int": BIGINT,
    "long": BIGINT,
}


def iso_date_sql(text: str) -> str:
    """The date that a text begins with, and its time of day; null if it is none. Dates have milliseconds."""
    return (
        f"date_trunc('MILLISECOND', try_cast(CASE WHEN {text} RLIKE '^ *[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}'"
        f" THEN {text} END AS TIMESTAMP))"
    )


def converted(scope: Scope, value: Value, to: str, name: str) -> tuple[str, str | None]:
    """(the value as that type, the condition under which the conversion fails, None if never)."""
    kind = kind_of(value.type)
    sql = value.sql
    if kind == "open":
        want(value, DATETIME if to == "date" else TEXT)
        kind = kind_of(value.type)
    match to, kind:
        case _, "null":
            return conformed(value, _RESULTS[to], scope.shared.fresh), None
        case "string", _:
            return _as_text(scope, value, name), None
        case "bool", "number":
            return f"({value.sql} <> 0)", None
        case "bool", "bool":
            return sql, None
        case "bool", _:
            return f"CASE WHEN {sql} IS NOT NULL THEN true END", None
        case "date", "date":
            return sql, None
        case "date", "number":
            return f"timestamp_millis(CAST({value.sql} AS BIGINT))", None
        case "date", "text":
            return _tried(sql, iso_date_sql(sql))
        case (("int" | "long" | "double" | "decimal"), "number"):
            target = "BIGINT" if to in ("int", "long") else "DOUBLE"
            return f"CAST({value.sql} AS {target})", None
        case (("int" | "long" | "double" | "decimal"), "text"):
            target = "BIGINT" if to in ("int", "long") else "DOUBLE"
            return _tried(sql, f"try_cast({sql} AS {target})")
        case (("int" | "long" | "double" | "decimal"), "bool"):
            return f"CAST({sql} AS {'BIGINT' if to in ('int', 'long') else 'DOUBLE'})", None
        case (("long" | "double" | "decimal"), "date"):
            milliseconds = f"unix_millis({sql})"
            return (milliseconds if to == "long" else f"CAST({milliseconds} AS DOUBLE)"), None
    raise scope.refused(f"{name}: a value of type {kind} never converts to {to}")


def _tried(given: str, result: str) -> tuple[str, str]:
    return result, f"({given} IS NOT NULL AND {result} IS NULL)"


def _as_text(scope: Scope, value: Value, name: str) -> str:
    match kind_of(value.type):
        case "text":
            return value.sql
        case "number" if whole(value.type):
            return f"CAST({value.sql} AS STRING)"
        case "number":
            number = value.sql
            plain = f"{number} = floor({number}) AND abs({number}) < 1e15D"
            return f"CASE WHEN {plain} THEN CAST(CAST({number} AS BIGINT) AS STRING) ELSE CAST({number} AS STRING) END"
        case "bool":
            return f"CAST({value.sql} AS STRING)"
        case "date":
            return f"date_format({value.sql}, {DATE_PATTERN})"
    raise scope.refused(f"{name}: a document or an array has no text")


DATE_PATTERN = "'yyyy-MM-dd\\'T\\'HH:mm:ss.SSS\\'Z\\''"
"""The form in which a date is written as text, as a Spark SQL literal."""


def _to(name: str, to: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        (node,) = scope.arguments(name, raw, 1, 1)
        sql, fails = converted(scope, scope.value(node), to, name)
        if fails is not None:
            scope.fails_if(fails)
        return Value(sql, _RESULTS[to])

    return build


def _convert(scope: Scope, raw: Any) -> Value:
    named = scope.named("$convert", raw, ("input", "to"), ("onError", "onNull"))
    wanted = named["to"]["type"] if isinstance(named["to"], dict) and "type" in named["to"] else named["to"]
    to = _TYPES.get(wanted) if isinstance(wanted, (str, int)) else None
    if to is None:
        raise scope.refused(f"$convert to {wanted!r} cannot be replayed; it can to {', '.join(_RESULTS)}")
    value = scope.value(named["input"])
    sql, fails = converted(scope, value, to, "$convert")
    return or_else(scope, value, Value(sql, _RESULTS[to]), fails, named)


def or_else(scope: Scope, given: Value, result: Value, fails: str | None, named: dict[str, Any]) -> Value:
    """``result`` with what ``onNull`` and ``onError`` put in its place; without ``onError`` a failure fails."""
    choices = []
    if "onNull" in named:
        choices.append((f"{given.sql} IS NULL", scope.value(named["onNull"])))
    if fails is not None and "onError" in named:
        choices.append((fails, scope.value(named["onError"])))
    elif fails is not None:
        scope.fails_if(fails)
    if not choices:
        return result
    kind = scope.alike([result, *(value for _, value in choices)], "$convert")
    whens = " ".join(f"WHEN {when} THEN {conformed(value, kind, scope.shared.fresh)}" for when, value in choices)
    return Value(f"CASE {whens} ELSE {conformed(result, kind, scope.shared.fresh)} END", kind)


def _is(name: str, kind: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        value = scope.value(scope.arguments(name, raw, 1, 1)[0])
        return Value(f"({value.sql} IS NOT NULL)" if kind_of(value.type) in (kind, "open") else "false", BIT)

    return build


_NAMES = {"text": "string", "bool": "bool", "date": "date", "array": "array", "record": "object", "map": "object"}


def _type(scope: Scope, raw: Any) -> Value:
    value = scope.value(scope.arguments("$type", raw, 1, 1)[0])
    kind = kind_of(value.type)
    if kind == "null":
        return Value("'missing'", TEXT)
    if kind not in (*_NAMES, "open"):
        raise scope.refused("$type of a number cannot be replayed: the log does not keep int, long and double apart")
    scope.shared.note("$type: a field that is null counts as missing")
    return Value(f"CASE WHEN {value.sql} IS NULL THEN 'missing' ELSE '{_NAMES.get(kind, 'string')}' END", TEXT)


CONVERSIONS: dict[str, Operator] = {
    "$toString": _to("$toString", "string"),
    "$toInt": _to("$toInt", "int"),
    "$toLong": _to("$toLong", "long"),
    "$toDouble": _to("$toDouble", "double"),
    "$toDecimal": _to("$toDecimal", "decimal"),
    "$toBool": _to("$toBool", "bool"),
    "$toDate": _to("$toDate", "date"),
    "$convert": _convert,
    "$isNumber": _is("$isNumber", "number"),
    "$isArray": _is("$isArray", "array"),
    "$type": _type,
}
