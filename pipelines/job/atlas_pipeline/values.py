"""Values of documents: a Spark SQL expression and its type; missing is null (Q103)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.core.columns import stored_property
from pipelines.core.expressions import quoted
from pipelines.core.query import Column
from pipelines.job.atlas_pipeline.text import Instant
from pipelines.job.sql.spark_types import differs, spark_type, type_of
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, NULL, TEXT, Array, Map, Opaque, Record, Scalar, Type


@dataclass(eq=False, slots=True)
class Guess:
    """The type of a field that nobody declared, found from its use in the pipeline (:func:`want`)."""

    found: Type | None = None
    fields: dict[str, Guess] = field(default_factory=dict)
    element: Guess | None = None

    def as_type(self) -> Type:
        """The type found; a field that is only passed on is text."""
        if self.fields:
            return Record(tuple((name, one.as_type()) for name, one in self.fields.items()))
        if self.element is not None:
            return Array(self.element.as_type())
        # of a document whose fields are never named
        return Record((("_id", TEXT),)) if self.found == Record(()) else self.found or TEXT

    def field(self, name: str) -> Guess:
        """The field of that name of a record; of an array, that of its elements."""
        if self.element is not None:
            return self.element.field(name)
        return self.fields.setdefault(name, Guess())


class Mixed(Record):
    """An array of a fixed length whose places have types of their own, as a record of ``_0``, ``_1``, .."""


Kind = Type | Guess


@dataclass(frozen=True, slots=True)
class Value:
    """An expression over one row. ``missing``: the field that it names may be missing, which differs from null.

    ``parts`` are the fields of a document that is written out, and ``rest`` is what else it has. ``pairs`` are the
    fields of ``$objectToArray``.
    """

    sql: str
    type: Kind
    missing: bool = False
    parts: tuple[tuple[str, Value], ...] | None = None
    pairs: tuple[tuple[str, Value], ...] | None = None
    rest: Guess | None = None


_PATH = re.compile(r"[\w`.]+")


def text_sql(text: str) -> str:
    """A Spark SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def literal(value: Any) -> Value | None:
    """A constant as an expression; None if it is an array or a document."""
    match value:
        case None:
            return Value("NULL", NULL)
        case bool():
            return Value("true" if value else "false", BIT)
        case int() if -(2**63) < value < 2**63:
            return Value(f"{value}L", BIGINT)
        case int() | float():
            return Value(_double_sql(float(value) if abs(value) < 1e308 else float("inf")), FLOAT)
        case str():
            return Value(text_sql(value), TEXT)
        case Instant(us):
            return Value(f"timestamp_micros({us}L)", DATETIME)
    return None


def _double_sql(value: float) -> str:
    plain = repr(value)
    return f"CAST('{plain}' AS DOUBLE)" if plain.lstrip("-") in ("inf", "nan") else f"{plain}D"


def column_value(column: Column) -> Value:
    """A column as the field of a document: whole numbers are BIGINT, other numbers DOUBLE, dates TIMESTAMP."""
    kind = type_of(column.type)
    sql = quoted(column.name)
    return Value(f"CAST({sql} AS {spark_type(kind)})" if differs(column.type) else sql, kind, True)


def kind_of(kind: Kind) -> str:
    """``number``, ``text``, ``date``, ``bool``, ``null``, ``record``, ``array``, ``mixed``, ``map`` or ``other``.

    ``open``: nothing is known of the type.
    """
    match kind:
        case Guess():
            known = kind.fields or kind.element or kind.found
            return kind_of(kind.as_type()) if known else "open"
        case Mixed():
            return "mixed"
        case Record():
            return "record"
        case Array():
            return "array"
        case Map():
            return "map"
        case Opaque():
            return "other"
        case Scalar(name):
            return _KINDS[name]


_KINDS = {"bigint": "number", "float": "number", "nvarchar(max)": "text", "datetime": "date", "bit": "bool"}
_KINDS["null"] = "null"


def want(value: Value, kind: Type) -> None:
    """Take note that an undeclared field is used as this type; the first use that needs a type decides.

    A field used with a whole number is taken as DOUBLE: its values may have fractions.
    """
    if isinstance(value.type, Guess) and kind_of(value.type) == "open" and kind != NULL:
        if isinstance(kind, Array):
            value.type.element = Guess(None if kind.element == NULL else kind.element)
        else:
            value.type.found = FLOAT if kind == BIGINT else kind


def whole(kind: Kind) -> bool:
    """Whether a number of this type has no fraction."""
    return settled(kind) == BIGINT


def fields_of(value: Value) -> tuple[tuple[str, Value], ...]:
    """The fields of a document, each as an expression; none of what is no document."""
    if value.parts is not None:
        return value.parts
    if isinstance(value.type, Record):
        return tuple((name, Value(_dotted(value.sql, name), kind, True)) for name, kind in value.type.properties)
    if isinstance(value.type, Guess):
        return tuple((name, Value(_dotted(value.sql, name), kind, True)) for name, kind in value.type.fields.items())
    return ()


def element_of(value: Value) -> Kind:
    """The type of an array's elements."""
    match value.type:
        case Array(element):
            return element
        case Guess() as guess:
            guess.element = guess.element or Guess()
            return guess.element
    return value.type


def _dotted(sql: str, name: str) -> str:
    return f"{sql}.{quoted(name)}" if _PATH.fullmatch(sql) else f"({sql}).{quoted(name)}"


def step_into(value: Value, name: str, fresh: Callable[[], str]) -> Value | None:
    """The field of a document, or of each document in an array; None if it has no such field (Q103).

    ``fresh`` gives a new name for the variable of a lambda.
    """
    if isinstance(value.type, Guess) and value.type.element is None:
        value.type.found = None
        return Value(_dotted(value.sql, name), value.type.field(name), True)
    if kind_of(value.type) == "array":
        variable = fresh()
        inner = step_into(Value(variable, element_of(value)), name, fresh)
        if inner is None:
            return None
        return Value(f"array_compact(transform({value.sql}, {variable} -> {inner.sql}))", Array(settled(inner.type)))
    if isinstance(value.type, Map):
        return Value(f"{value.sql}[{text_sql(name)}]", value.type.value, True)
    fields = dict(fields_of(value))
    return fields.get(name) or fields.get(stored_property(name))


def ddl(kind: Type) -> str:
    """The type in Spark's DDL; STRING where nothing but null is known."""
    return re.sub(r"\bVOID\b", "STRING", spark_type(kind))


def settled(kind: Kind) -> Type:
    """The type as far as it is known."""
    return kind.as_type() if isinstance(kind, Guess) else kind


def record(parts: Sequence[tuple[str, Value]]) -> Value:
    """A document of these fields."""
    inner = ", ".join(f"{text_sql(name)}, {one.sql}" for name, one in parts)
    kind = Record(tuple((name, settled(one.type)) for name, one in parts))
    return Value(f"named_struct({inner})", kind, parts=tuple(parts))


def unified(one: Kind, other: Kind) -> Type | None:
    """The least type that fits values of both; None if there is none."""
    one, other = settled(one), settled(other)
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    if kind_of(one) == kind_of(other) == "number":
        return BIGINT if whole(one) and whole(other) else FLOAT
    if isinstance(one, Array) and isinstance(other, Array):
        element = unified(one.element, other.element)
        return None if element is None else Array(element)
    if isinstance(one, Record) and isinstance(other, Record):
        fields = dict(one.properties)
        for name, kind in other.properties:
            both = unified(fields.get(name, NULL), kind)
            if both is None:
                return None
            fields[name] = both
        return Record(tuple(fields.items()))
    return None


def conformed(value: Value, kind: Type, fresh: Callable[[], str]) -> str:
    """The value as an expression of the type, which fits it (:func:`unified`)."""
    if settled(value.type) == kind:
        return value.sql
    if isinstance(kind, Record) and value.type != NULL:
        own = dict(fields_of(value))
        inner = ", ".join(
            f"{text_sql(name)}, {conformed(own.get(name, Value('NULL', NULL)), one, fresh)}"
            for name, one in kind.properties
        )
        built = f"named_struct({inner})"
        return built if value.parts is not None else f"CASE WHEN {value.sql} IS NOT NULL THEN {built} END"
    if isinstance(kind, Array) and kind_of(value.type) == "array" and settled(element_of(value)) != NULL:
        variable = fresh()
        inner = conformed(Value(variable, element_of(value)), kind.element, fresh)
        return f"transform({value.sql}, {variable} -> {inner})"
    return f"CAST({value.sql} AS {ddl(kind)})"
