"""Values of one type as values of another (Q34, Q38): by CAST, by TRY_CAST, or because an operator wants the type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from pipelines.job.sql.expressions.context import Context, name_of
from pipelines.job.sql.expressions.values import Value, float_literal, strict, text
from pipelines.job.sql.spark_types import spark_type
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, NULL, TEXT, Scalar, Type

_NUMBER = text(r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$")
_DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_ZONE = "(Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
_ISO_8601 = text(rf"^\s*{_DAY}([T ]{_CLOCK}{_ZONE})?\s*$")
"""Spark converts more: bare years, clock times (as of today), names of zones."""

_TEXT_OF_DATETIME = text("yyyy-MM-dd'T'HH:mm:ss.SSSSSS'0Z'")

_FROM_TEXT = {
    BIGINT: "try_cast({0} AS BIGINT)",
    FLOAT: f"if({{0}} RLIKE {_NUMBER.replace('{', '{{').replace('}', '}}')}, try_cast({{0}} AS DOUBLE), NULL)",
    DATETIME: f"if({{0}} RLIKE {_ISO_8601.replace('{', '{{').replace('}', '}}')}, try_cast({{0}} AS TIMESTAMP), NULL)",
    BIT: "CASE lower(trim({0})) WHEN 'true' THEN true WHEN 'false' THEN false END",
}
_CERTAIN = {
    (BIGINT, FLOAT): "CAST({0} AS DOUBLE)",
    (BIT, BIGINT): "CAST({0} AS BIGINT)",
    (BIT, FLOAT): "CAST({0} AS DOUBLE)",
    (BIGINT, BIT): "({0} <> 0L)",
    (FLOAT, BIT): "({0} <> 0D)",
    (BIGINT, TEXT): "CAST({0} AS STRING)",
    (DATETIME, TEXT): f"date_format({{0}}, {_TEXT_OF_DATETIME})",
}
_HINTS = {
    (BIT, TEXT): "write CASE WHEN .. THEN 'true' ELSE 'false' END",
    (BIGINT, DATETIME): "write DATEADD(millisecond, n, '1970-01-01') with the unit that n counts",
    (FLOAT, DATETIME): "write DATEADD(millisecond, n, '1970-01-01') with the unit that n counts",
    (DATETIME, BIGINT): "write DATEDIFF(millisecond, '1970-01-01', t)",
    (DATETIME, FLOAT): "write DATEDIFF(millisecond, '1970-01-01', t)",
}


def convert(context: Context, node: exp.Expr, value: Value, type_: Type, *, trying: bool = False) -> Value:
    """The value as ``type_``; what cannot be converted stops the run, drops the row, or is null (Q34).

    ``trying``: it is null (TRY_CAST). Refused where no value of the one type is one of the other.
    """
    if value.type == type_:
        return value
    if value.type == NULL:
        return strict(f"CAST({{0}} AS {spark_type(type_)})", type_, value)
    if not isinstance(value.type, Scalar) or not isinstance(type_, Scalar):
        raise _not_convertible(context, node, value, type_)
    if value.type == BIGINT and type_ == FLOAT and isinstance(value.constant, int):
        return float_literal(float(value.constant))
    if (certain := _CERTAIN.get((value.type, type_))) is not None:
        return strict(certain, type_, value)
    if value.type == FLOAT and type_ == TEXT:
        return _text_of_float(value)
    if value.type == FLOAT and type_ == BIGINT:
        attempt = strict("try_cast({0} AS BIGINT)", BIGINT, value)
    elif value.type == TEXT:
        attempt = strict(_FROM_TEXT[type_], type_, value)
    else:
        raise _not_convertible(context, node, value, type_)
    if trying or context.settings.on_cast_error == "null":
        return attempt
    if context.settings.on_cast_error == "drop_row":
        condition = f"({attempt.sql} IS NOT NULL OR {value.sql} IS NULL)"
        return replace(attempt, kept_if=(*attempt.kept_if, condition))
    what = f"a value of {name_of(value.type)} cannot be converted to {name_of(type_)} (TRY_CAST gives null instead)"
    return context.not_null(node, attempt, what, value)


def number(context: Context, node: exp.Expr, value: Value) -> Value:
    """The value as a number: a bigint or float as it is, a bit as 0 or 1, text as float (Q38)."""
    if value.type in (BIGINT, FLOAT):
        return value
    return convert(context, node, value, FLOAT if value.type == TEXT else BIGINT)


def highest(context: Context, node: exp.Expr, values: Sequence[Value]) -> Type:
    """The type that all values are converted to, as branches of CASE are (Q32): text is lower than the other types."""
    types = list(dict.fromkeys(value.type for value in values if value.type != NULL))
    others = [type_ for type_ in types if type_ != TEXT] or types
    numbers = [type_ for type_ in (FLOAT, BIGINT, BIT) if type_ in others]
    if len(others) > max(len(numbers), 1):
        raise context.refused(node, f"{_listed(types)} have no common type; CAST them to one")
    if numbers and any(isinstance(value.constant, str) for value in values):
        raise context.refused(node, f"{_listed(types)} have no common type; CAST them to one")
    return next(iter(numbers or others), NULL)


def common(context: Context, nodes: Sequence[exp.Expr], values: Sequence[Value]) -> list[Value]:
    """All values in their highest type."""
    type_ = highest(context, nodes[0], values)
    return [convert(context, node, value, type_) for node, value in zip(nodes, values, strict=True)]


def _listed(types: Sequence[Type]) -> str:
    names = [name_of(type_) for type_ in types]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _not_convertible(context: Context, node: exp.Expr, value: Value, type_: Type) -> Exception:
    hint = _HINTS.get((value.type, type_), "") if isinstance(type_, Scalar) and isinstance(value.type, Scalar) else ""
    what = f"{name_of(value.type)} cannot be converted to {name_of(type_)}"
    return context.refused(node, f"{what}; {hint}" if hint else what)


def _text_of_float(value: Value) -> Value:
    """The shortest digits that give the number again, as .NET writes them: ``3``, ``0.0001``, ``1E-05``, ``1E+15``."""
    return strict(_TEXT_OF_FLOAT, TEXT, value)


_DECIMAL = "rtrim('0', CAST(CAST(CAST({0} AS STRING) AS DECIMAL(38,21)) AS STRING))"
_SHORT = "replace(CAST({0} AS STRING), '.0E', 'E')"
_EXPONENT = f"regexp_replace(regexp_replace({_SHORT}, 'E([0-9])', 'E+$1'), 'E-([0-9])$', 'E-0$1')"
_TEXT_OF_FLOAT = (
    "CASE WHEN abs({0}) < 1E15D AND {0} = try_cast({0} AS BIGINT) THEN CAST(try_cast({0} AS BIGINT) AS STRING)"
    " WHEN isnan({0}) OR abs({0}) = double('Infinity') OR abs({0}) >= 1E-3D AND abs({0}) < 1E7D"
    " THEN CAST({0} AS STRING)"
    f" WHEN abs({{0}}) >= 1E-4D AND abs({{0}}) < 1E15D THEN {_DECIMAL} ELSE {_EXPONENT} END"
)
