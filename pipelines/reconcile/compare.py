"""The comparison itself, in Spark: one row a key, with both sides' values and its status.

Keys are null-safe. NaN equals NaN, and zero equals negative zero. A key may stand for several rows on both sides
(sessions of different chains that look alike): then the rows are compared as a multiset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.reconcile.live_table import EMITTED_AT

EQUAL = "equal"
DIFFERENT = "different"
MISSING_IN_REPLAY = "missing_in_replay"
MISSING_IN_STREAM = "missing_in_stream"
DUPLICATED_IN_STREAM = "duplicated_in_stream"
STATUSES = (DIFFERENT, MISSING_IN_REPLAY, MISSING_IN_STREAM, DUPLICATED_IN_STREAM)

RELATIVE = 1e-9
"""Doubles this close, relative to ``max(1, |x|)``, differ in their last bits only."""


@dataclass(frozen=True)
class Shape:
    """Which columns identify a row, and which are compared."""

    keys: tuple[str, ...]
    values: tuple[str, ...]


def compare(replay: DataFrame, stream: DataFrame, shape: Shape) -> DataFrame:
    """One row a key: the keys, ``replay`` and ``stream`` (STRUCT of values, null where there is none),
    ``emitted_at``, ``copies`` (rows of the live run), ``status``, ``close`` (doubles alone differ, and hardly),
    ``all_copies``, ``identical`` (all copies are), ``first_equal`` (the first copy is the replay's), ``id`` (text that
    names the key).
    """
    ours = replay.select(*shape.keys, _struct(shape).alias("__ours"), _no_struct(stream, shape).alias("__theirs"))
    theirs = stream.select(
        *shape.keys, _no_struct(replay, shape).alias("__ours"), _struct(shape, EMITTED_AT).alias("__theirs")
    )
    both = (
        ours.unionAll(theirs)
        .groupBy(*shape.keys)
        .agg(F.collect_list("__ours").alias("__r"), F.collect_list("__theirs").alias("__s"))
    )
    both = both.withColumns({"__r": _in_order(F.col("__r")), "__s": _in_order(F.col("__s"))})
    first, live = F.get("__r", 0), F.get("__s", 0)
    kinds = {name: (replay.schema[name].dataType, stream.schema[name].dataType) for name in shape.values}
    equal = _all(_same(first[name], live[name], kinds[name][0]) for name in shape.values)
    close = _all(_close(first[name], live[name], *kinds[name]) for name in shape.values)
    many = _rows_text("__r", shape) == _rows_text("__s", shape)
    rows, copies = F.size("__r"), F.size("__s")
    status = (
        F.when(rows == 0, MISSING_IN_REPLAY)
        .when(copies > rows, DUPLICATED_IN_STREAM)
        .when(copies < rows, MISSING_IN_STREAM)
        .when(F.when(rows == 1, equal).otherwise(many), EQUAL)
        .otherwise(DIFFERENT)
    )
    status = F.when((rows == 0) & (copies > 1), DUPLICATED_IN_STREAM).otherwise(status)
    others = F.forall("__s", lambda one: _all(_same(one[name], live[name], kinds[name][1]) for name in shape.values))
    return both.select(
        *shape.keys,
        F.when(rows > 0, first).alias("replay"),
        F.when(copies > 0, live.dropFields(EMITTED_AT)).alias("stream"),
        live[EMITTED_AT].alias(EMITTED_AT),
        copies.alias("copies"),
        F.transform("__s", lambda one: one.dropFields(EMITTED_AT)).alias("all_copies"),
        status.alias("status"),
        ((status == DIFFERENT) & (rows == 1) & close).alias("close"),
        others.alias("identical"),
        F.to_json(F.struct(*shape.keys), {"ignoreNullFields": "false"}).alias("id"),
        ((rows > 0) & equal).alias("first_equal"),
    )


def _struct(shape: Shape, *more: str) -> Column:
    return F.struct(*shape.values, *more)


def _no_struct(frame: DataFrame, shape: Shape) -> Column:
    """A null of the other side's struct."""
    fields = [frame.schema[name] for name in shape.values]
    if EMITTED_AT in frame.columns:
        fields.append(frame.schema[EMITTED_AT])
    nullable = [T.StructField(field.name, field.dataType, True) for field in fields]
    return F.lit(None).cast(T.StructType(nullable))


def _in_order(rows: Column) -> Column:
    """The rows of one key in an order that does not depend on how they were read; one row is the common case."""
    keyed = F.transform(rows, lambda one: F.struct(F.to_json(one).alias("text"), one.alias("one")))
    by_text = F.array_sort(
        keyed,
        lambda left, right: F.when(left["text"] < right["text"], -1).when(left["text"] > right["text"], 1).otherwise(0),
    )
    return F.when(F.size(rows) <= 1, rows).otherwise(F.transform(by_text, lambda one: one["one"]))


def _rows_text(column: str, shape: Shape) -> Column:
    only = F.transform(column, lambda one: F.to_json(F.struct(*[one[name].alias(name) for name in shape.values])))
    return F.array_join(F.array_sort(only), ",")


def _same(left: Column, right: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.MapType):
        left, right = F.to_json(F.array_sort(F.map_entries(left))), F.to_json(F.array_sort(F.map_entries(right)))
    return left.eqNullSafe(right)


def _close(left: Column, right: Column, kind: T.DataType, other: T.DataType) -> Column:
    same = _same(left, right, kind)
    if not isinstance(kind, (T.DoubleType, T.FloatType)) or not isinstance(other, T.NumericType):
        return same
    left, right = left.cast("double"), right.cast("double")
    finite = (F.abs(left) < float("inf")) & (F.abs(right) < float("inf"))
    return same | F.coalesce(
        finite & (F.abs(left - right) <= RELATIVE * F.greatest(F.lit(1.0), F.abs(left))), F.lit(False)
    )


def _all(conditions: Iterable[Column]) -> Column:
    result = F.lit(True)
    for one in conditions:
        result = result & one
    return result
