"""SHA-256 of a multiset of rows: the same whatever their order, files or partitions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.expressions import quoted

_LANES = 4


_LANE_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Counted:
    """So many rows, whose hashes add up to ``sums``, four numbers modulo 2^64. Those of disjoint rows can be added."""

    rows: int = 0
    sums: tuple[int, ...] = (0,) * _LANES

    @property
    def fingerprint(self) -> str:
        """SHA-256, 64 hex digits."""
        text = ":".join([str(self.rows), *(f"{total:016x}" for total in self.sums)])
        return hashlib.sha256(text.encode()).hexdigest()

    def __add__(self, other: Counted) -> Counted:
        sums = (one + another for one, another in zip(self.sums, other.sums, strict=True))
        return Counted(self.rows + other.rows, tuple(total % (1 << 64) for total in sums))


def fingerprint(frame: DataFrame) -> Counted:
    """SHA-256 over the multiset of rows: the same whatever their order, files or partitions; 64 hex digits.

    Each row is hashed with SHA-256 over its columns by name, doubles bit by bit; the hashes are added as four numbers
    of 64 bits, so that a row there twice counts twice; the sums and the number of rows are hashed once more.
    """
    row = frame.agg(*_sums(frame.schema)).first()
    assert row is not None
    return _counted(row)


def fingerprints_by(frame: DataFrame, column: str) -> dict[Any, Counted]:
    """:func:`fingerprint` of the rows of each value of ``column``, that column left out."""
    sums = _sums(frame.drop(column).schema)
    return {row[column]: _counted(row) for row in frame.groupBy(column).agg(*sums).collect()}


def digest_of(schema: T.StructType) -> Column:
    """The hash of a row of these columns, 64 hex digits."""
    exact = F.struct(*[_exact(F.col(quoted(f.name)), f.dataType).alias(f.name) for f in sorted(schema, key=_name)])
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    return F.sha2(F.to_json(exact, options), 256)


def _sums(schema: T.StructType) -> list[Column]:
    """Rows, and the four numbers of each hash added up."""
    digest = digest_of(schema)
    task_ranges = [
        F.sum(F.conv(F.substring(digest, task_range * _LANE_DIGITS + 1, _LANE_DIGITS), 16, 10).cast("decimal(20,0)"))
        for task_range in range(_LANES)
    ]
    return [
        F.count(F.lit(1)).alias("__rows"),
        *[task_range.alias(f"__lane{index}") for index, task_range in enumerate(task_ranges)],
    ]


def _counted(row: Row) -> Counted:
    sums = (int(row[f"__lane{task_range}"] or 0) % (1 << 64) for task_range in range(_LANES))
    return Counted(int(row["__rows"]), tuple(sums))


NO_ROWS = Counted()
"""What :func:`fingerprint` gives for a frame without rows."""


def _name(field: T.StructField) -> str:
    return field.name


def _exact(column: Column, kind: T.DataType) -> Column:
    """``column`` with doubles as hexadecimal text: decimal text of a double differs between Java versions."""
    if isinstance(kind, (T.DoubleType, T.FloatType)):
        return F.when(column.isNotNull(), F.format_string("%a", column.cast("double")))
    if isinstance(kind, T.ArrayType):
        inner = kind.elementType
        return F.transform(column, lambda item: _exact(item, inner))
    if isinstance(kind, T.StructType):
        parts = [_exact(column.getField(field.name), field.dataType).alias(field.name) for field in kind]
        return F.when(column.isNotNull(), F.struct(*parts))
    if isinstance(kind, T.MapType):
        entry = T.StructType([T.StructField("key", kind.keyType), T.StructField("value", kind.valueType)])
        return F.transform(F.array_sort(F.map_entries(column)), lambda item: _exact(item, entry))
    return column
