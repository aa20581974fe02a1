"""The types of the Stream Analytics query language, and the Spark types that contain their values (Q27, Q28)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scalar:
    """A simple type. In Spark: BIGINT, DOUBLE, STRING, TIMESTAMP, BOOLEAN; ``null`` is the type of a bare NULL."""

    name: str


BIGINT = Scalar("bigint")
FLOAT = Scalar("float")
TEXT = Scalar("nvarchar(max)")
DATETIME = Scalar("datetime")
BIT = Scalar("bit")
NULL = Scalar("null")


@dataclass(frozen=True, slots=True)
class Record:
    """A record of named properties, in order. In Spark a STRUCT."""

    properties: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Array:
    """An array. In Spark an ARRAY."""

    element: Type


@dataclass(frozen=True, slots=True)
class Map:
    """A record whose property names only the data knows. In Spark a MAP from STRING."""

    value: Type


@dataclass(frozen=True, slots=True)
class Opaque:
    """A type of Spark that the query language does not have (BINARY): passed on, never computed with."""

    spark: str


Type = Scalar | Record | Array | Map | Opaque


@dataclass(frozen=True, slots=True)
class Typed:
    """A Spark SQL expression over one row, in the form of ``type``.

    ``kept_if``: conditions over the same row, each true or false. With ``on_cast_error: drop_row`` (Q34) a row is
    dropped where one of them is false, before the expression is used.
    """

    sql: str
    type: Type
    kept_if: tuple[str, ...] = ()
