"""Rows of plain Python to a DataFrame and back, without a Python worker: instants are ``int`` microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampNTZType, TimestampType

from pipelines.core.expressions import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_frame(spark: SparkSession, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> DataFrame:
    """A DataFrame of ``(name, Spark SQL type)`` columns that lives in the plan itself.

    TIMESTAMP values are ``int`` microseconds, DATE :class:`date`, DECIMAL :class:`Decimal` of the column's scale.
    """
    schema = StructType.fromDDL(", ".join(f"{quoted(name)} {kind}" for name, kind in columns))
    assert isinstance(schema, StructType)
    arrow = to_arrow_schema(schema)
    arrays = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(arrow)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema)


def local_rows(frame: DataFrame) -> list[dict[str, object]]:
    """The rows of ``frame``, collected in one Spark job, in the form that :func:`local_frame` takes."""
    return [{name: _plain(row[name]) for name in frame.columns} for row in _without_instants(frame).collect()]


def local_rows_of_each(*frames: DataFrame) -> list[list[dict[str, object]]]:
    """The rows of each frame as :func:`local_rows` gives them, all collected in one Spark job."""
    plain = [_without_instants(frame) for frame in frames]
    parts = [
        frame.select(
            F.lit(number).alias("number"),
            *(
                (F.struct("*") if place == number else F.lit(None).cast(other.schema)).alias(f"row{place}")
                for place, other in enumerate(plain)
            ),
        )
        for number, frame in enumerate(plain)
    ]
    found: list[list[dict[str, object]]] = [[] for _ in frames]
    for number, *rows in reduce(DataFrame.unionAll, parts).collect():
        found[number].append({name: _plain(rows[number][name]) for name in plain[number].columns})
    return found


def _without_instants(frame: DataFrame) -> DataFrame:
    return frame.select(*(micros(F.col(quoted(one.name)), one.dataType).alias(one.name) for one in frame.schema.fields))


def micros(column: SparkColumn, kind: DataType) -> SparkColumn:
    """``column`` with instants at any depth as BIGINT microseconds, so that no local zone can touch them."""
    match kind:
        case TimestampType() | TimestampNTZType():
            return F.unix_micros(column.cast("timestamp"))
        case ArrayType() if _has_instants(kind.elementType):
            return F.transform(column, lambda item: micros(item, kind.elementType))
        case MapType() if _has_instants(kind.valueType):
            return F.transform_values(column, lambda _, item: micros(item, kind.valueType))
        case StructType() if _has_instants(kind):
            fields = [micros(column.getField(one.name), one.dataType).alias(one.name) for one in kind.fields]
            return F.when(column.isNotNull(), F.struct(*fields))
        case _:
            return column


def _has_instants(kind: DataType) -> bool:
    match kind:
        case ArrayType():
            return _has_instants(kind.elementType)
        case MapType():
            return _has_instants(kind.valueType)
        case StructType():
            return any(_has_instants(one.dataType) for one in kind.fields)
        case _:
            return isinstance(kind, (TimestampType, TimestampNTZType))


def _plain(value: object) -> object:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        return {key: _plain(item) for key, item in value.asDict().items()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
