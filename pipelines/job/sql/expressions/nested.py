"""Functions over records, arrays, and what the broker knows of an event (Q42, Q43)."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from pipelines.job.sql.expressions.call import Call, Function
from pipelines.job.sql.expressions.context import Context, name_of
from pipelines.job.sql.expressions.conversions import convert, highest
from pipelines.job.sql.expressions.values import Value, strict, text_literal
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.types import BIGINT, Array, Map, Record, Typed


def property_of(context: Context, node: exp.Expr, value: Value, name: str) -> Value:
    """``value.name``; null is in null."""
    found = context.scope.within(Typed(value.sql, value.type), (name,), node)
    checked = value.checked and context.scope.within(Typed(value.checked, value.type), (name,), node).sql
    return replace(value, sql=found.sql, type=found.type, checked=checked)


def _array(call: Call) -> tuple[Value, Array]:
    value = call.value(0)
    if not isinstance(value.type, Array):
        raise call.refused(f"{name_of(value.type)} stands where an array is due; declare the column as ARRAY", 0)
    return value, value.type


def _get_array_element(call: Call) -> Value:
    """From 0; outside null."""
    value, kind = _array(call)
    return strict("get({0}, try_cast({1} AS INT))", kind.element, value, call.bigint(1))


def _get_array_length(call: Call) -> Value:
    return strict("CAST(array_size({0}) AS BIGINT)", BIGINT, _array(call)[0])


def _get_record_property_value(call: Call) -> Value:
    value, name = call.value(0), call.text(1)
    match value.type:
        case Map(element):
            return strict("try_element_at({0}, {1})", element, value, name)
        case Record(properties):
            if isinstance(name.constant, str):
                return property_of(call.context, call.node, value, name.constant)
            parts = [property_of(call.context, call.node, value, one) for one, _ in properties]
            type_ = highest(call.context, call.node, parts)
            parts = [convert(call.context, call.node, one, type_) for one in parts]
            names = [text_literal(one.lower()) for one, _ in properties]
            cases = [f"WHEN {{{2 * index + 1}}} THEN {{{2 * index + 2}}}" for index in range(len(parts))]
            pairs = [one for pair in zip(names, parts, strict=True) for one in pair]
            return strict(f"CASE lower({{0}}) {' '.join(cases)} END", type_, name, *pairs)
        case _:
            raise call.refused(f"{name_of(value.type)} stands where a record is due; declare the column as STRUCT", 0)


def _get_metadata_property_value(call: Call) -> Value:
    """A column of the source that is called like the property: ingest must have put it there."""
    source = call.arguments[0]
    name = re.findall(r"[^\[\].]+", call.constant(1, "the property"))
    if not isinstance(source, exp.Column) or not name:
        raise call.refused("write GetMetadataPropertyValue(input, '[User].[property]')")
    try:
        found = call.context.scope.resolve((source.name, name[-1]), source)
    except Refused as refused:
        what = f"the log does not have '{name[-1]}'; declare a column of that name and put the property in it at ingest"
        raise call.refused(f"{what} ({refused.what})", 1) from None
    return Value(found.sql, found.type, (), found.kept_if)


FUNCTIONS = {
    "GETARRAYELEMENT": Function(_get_array_element, 2, 2),
    "GETARRAYLENGTH": Function(_get_array_length, 1, 1),
    "GETRECORDPROPERTYVALUE": Function(_get_record_property_value, 2, 2),
    "GETMETADATAPROPERTYVALUE": Function(_get_metadata_property_value, 2, 2),
}
