"""Results of little data: taken from Spark once, then counted, fingerprinted and written here.

For a day of a quiet log Spark's own way costs many times what the data cost: a pass over everything for every number,
and a dozen jobs a commit. The rows, the fingerprint and the commits are the same in both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipelines.lakehouse.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DIGEST = "__digest"


@dataclass(frozen=True, slots=True)
class Collected:
    """All rows of a result with their day column, as in a table; ``query`` gave them and was executed."""

    rows: pa.Table
    query: DataFrame


def to_arrow(frame: DataFrame) -> pa.Table:
    """The rows of any frame, also with structs that are null."""
    return _loosened(frame).toArrow()


def take(frame: DataFrame, layout: Layout) -> Collected:
    """The rows of a result."""
    from pipelines.replay.write import with_day

    query = _loosened(with_day(frame, layout))
    return Collected(_nullable(query.toArrow()), query)


def collect_fingerprinted(frame: DataFrame, layout: Layout) -> tuple[Collected, str]:
    """The rows of a result, and what :func:`pipelines.replay.fingerprint.fingerprint` says of them."""
    from pipelines.replay.fingerprint import digest_of, fingerprint_of
    from pipelines.replay.write import with_day

    query = _loosened(with_day(frame.withColumn(_DIGEST, digest_of(frame.schema)), layout))
    rows = query.toArrow()
    digests = bytes.fromhex("".join(rows[_DIGEST].to_pylist()))
    # unsigned integers wrap round, which is what adding up modulo 2^64 means
    task_ranges = np.frombuffer(digests, ">u8").astype(np.uint64).reshape(len(rows), -1).sum(axis=0, dtype=np.uint64)
    counted = fingerprint_of(len(rows), [int(task_range) for task_range in task_ranges])
    return Collected(_nullable(rows.drop_columns([_DIGEST])), query), counted.fingerprint


def _loosened(frame: DataFrame) -> DataFrame:
    """``frame`` with structs whose fields may all be null: Arrow refuses a null struct of fields that may not."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    def loose(kind: T.DataType) -> T.DataType:
        match kind:
            case T.ArrayType():
                return T.ArrayType(loose(kind.elementType))
            case T.MapType():
                return T.MapType(kind.keyType, loose(kind.valueType))
            case T.StructType():
                return T.StructType([T.StructField(field.name, loose(field.dataType)) for field in kind])
        return kind

    nested = [field for field in frame.schema if "struct<" in field.dataType.simpleString()]
    return frame.withColumns({field.name: F.col(f"`{field.name}`").cast(loose(field.dataType)) for field in nested})


def _nullable(rows: pa.Table) -> pa.Table:
    return rows.cast(pa.schema([pa.field(field.name, _loose(field.type)) for field in rows.schema]))


def _loose(kind: pa.DataType) -> pa.DataType:
    """The type with nothing in it that may not be null."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _loose(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, pa.field("value", _loose(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _loose(field.type)) for field in kind])
    return kind
