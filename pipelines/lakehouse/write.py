"""The Spark side of the tables: read arrivals at one version, replace exactly one output range, fingerprint rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.errors import UsageError
from pipelines.core.model import Input, OutputRange
from pipelines.core.plan import ReadTable, Stretch
from pipelines.core.readrange import ReadRange
from pipelines.core.time import format_instant, to_datetime
from pipelines.lakehouse.layout import Layout, is_whole_days
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import LOG_COLUMNS
from pipelines.lakehouse.small import replace_rows

_PATTERN = frozenset("{}[]*?\\")
"""A path that holds one of these would be read as a pattern."""
_LANES = 4
_LANE_DIGITS = 16


def read_arrivals(spark: SparkSession, house: Lakehouse, table: ReadTable, part: Input, read: ReadRange) -> DataFrame:
    """Arrivals of ``[read.from, read.to]``, both ends included, at exactly ``table.version``.

    The files that the plan names, or those that partitions and statistics of the log do not rule out; inside a file,
    row groups are skipped by arrival time.
    """
    if _are_named(house, table):
        (frame,) = _files_of(spark, house, table, [table.paths])
    else:
        frame = _version(spark, house, table)
    names = [name for name, _ in LOG_COLUMNS] + [column.name for column in part.columns]
    return _within(frame, read).select(*names, "arrival_date")


def read_stretches(
    spark: SparkSession, house: Lakehouse, table: ReadTable, read: ReadRange
) -> list[tuple[Stretch, DataFrame]]:
    """As :func:`read_arrivals`, each of the table's stretches by itself, with all columns of the table."""
    if not _are_named(house, table):
        return []
    frames = _files_of(spark, house, table, [[one.path] for one in table.stretches])
    return [(one, _within(frame, read, one)) for one, frame in zip(table.stretches, frames, strict=True)]


def _within(frame: DataFrame, read: ReadRange, held: Stretch | None = None) -> DataFrame:
    """The arrivals of ``[read.from, read.to]``, of ``frame``, which ``held`` tells more of."""
    if read.from_us is not None and (held is None or held.first_us < read.from_us):
        frame = frame.filter(f"arrival_date >= DATE '{to_datetime(read.from_us).date().isoformat()}'")
        frame = frame.filter(f"arrival_time >= TIMESTAMP '{format_instant(read.from_us)}'")
    if read.to_us is not None and (held is None or held.last_us > read.to_us):
        frame = frame.filter(f"arrival_date <= DATE '{to_datetime(read.to_us).date().isoformat()}'")
        frame = frame.filter(f"arrival_time <= TIMESTAMP '{format_instant(read.to_us)}'")
    return frame


def _are_named(house: Lakehouse, table: ReadTable) -> bool:
    return bool(table.paths) and not _PATTERN.intersection(house.uri(table.table))


def _files_of(
    spark: SparkSession, house: Lakehouse, table: ReadTable, paths: Iterable[Sequence[str]]
) -> list[DataFrame]:
    """Files by name, some at once: what a day costs does not depend on how long the log is."""
    log = house.open(table.table, table.version)
    assert log is not None, table.table
    schema = T.StructType.fromJson(json.loads(log.schema().to_json()))
    root = house.uri(table.table)
    reader = spark.read.schema(schema).option("basePath", root)
    return [reader.parquet(*(f"{root}/{path}" for path in some)) for some in paths]


def _version(spark: SparkSession, house: Lakehouse, table: ReadTable) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", table.version).load(house.uri(table.table))


def with_day(frame: DataFrame, layout: Layout) -> DataFrame:
    """``frame`` with its partition column, the UTC date of the time column."""
    return frame.withColumn(layout.day, F.to_date(layout.time))


def check_columns(house: Lakehouse, name: str, frame: DataFrame, output: OutputRange) -> None:
    """:class:`UsageError` if the table holds other columns than ``frame`` and only a part of it is to be replaced."""
    table = house.open(name)
    if table is None or output == OutputRange():
        return
    held = {field.name.lower(): field for field in T.StructType.fromJson(json.loads(table.schema().to_json()))}
    given = {field.name.lower(): field for field in frame.schema}
    for key in sorted(held.keys() | given.keys()):
        before, now = held.get(key), given.get(key)
        if before is not None and now is not None and _plain(before.dataType) == _plain(now.dataType):
            continue
        was = f"{before.name} {before.dataType.simpleString().upper()}" if before else f"no column '{key}'"
        becomes = f"{now.name} {now.dataType.simpleString().upper()}" if now else f"no column '{key}'"
        raise UsageError(
            f"the table {name} has {was}, but the job now gives {becomes}: a part of it cannot be replaced",
            hint="replay without --from and --to, which replaces the whole table, or give the job another name",
        )


def replace_range(
    rows: DataFrame | pa.Table,
    house: Lakehouse,
    name: str,
    layout: Layout,
    output: OutputRange,
    metadata: Mapping[str, str],
) -> int:
    """Replace what lies in ``[from, to)`` by ``rows`` (which have their day column) in one commit; its version.

    Nothing is committed if a row lies outside the range. An open range replaces the table, columns included.
    """
    told = {"userMetadata": json.dumps(dict(metadata))}
    if isinstance(rows, pa.Table):
        replace_rows(rows, house, name, layout, output, told)
    else:
        _replace_by_spark(rows, house, name, layout, output, told)
    return _version_of(house, name, told)


def _replace_by_spark(
    frame: DataFrame, house: Lakehouse, name: str, layout: Layout, output: OutputRange, told: Mapping[str, str]
) -> None:
    # a day in few files, and a big day in several: balanced by Spark as it runs, without a pass to sample
    laid_out = frame.hint("rebalance", layout.day).sortWithinPartitions(layout.day, layout.time)
    writer = laid_out.write.format("delta").mode("overwrite").partitionBy(layout.day)
    writer = writer.options(**told)
    condition = layout.days(output) if is_whole_days(output) else layout.condition(output)
    if condition is None:
        writer = writer.option("overwriteSchema", "true")
    elif house.open(name) is not None:
        writer = writer.option("replaceWhere", condition)
    writer.save(house.uri(name))


def _version_of(house: Lakehouse, name: str, told: Mapping[str, str]) -> int:
    """The version of the commit that was told this."""
    table = house.open(name)
    assert table is not None, name
    for commit in table.history(50):
        if told.items() <= commit.items():
            return int(commit["version"])
    raise AssertionError(f"{name}: the commit just made is not in the log")


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows and their fingerprint."""

    rows: int
    fingerprint: str


def fingerprint(frame: DataFrame) -> Counted:
    """SHA-256 over the multiset of rows: the same whatever their order, files or partitions; 64 hex digits.

    Each row is hashed with SHA-256 over its columns by name, doubles bit by bit; the hashes are added in four lanes of
    64 bits, so that a row there twice counts twice; the sums and the number of rows are hashed once more.
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
    exact = F.struct(*[_exact(F.col(f"`{f.name}`"), f.dataType).alias(f.name) for f in sorted(schema, key=_name)])
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    return F.sha2(F.to_json(exact, options), 256)


def _sums(schema: T.StructType) -> list[Column]:
    """Rows, and the lanes of their hashes added up."""
    digest = digest_of(schema)
    lanes = [
        F.sum(F.conv(F.substring(digest, lane * _LANE_DIGITS + 1, _LANE_DIGITS), 16, 10).cast("decimal(20,0)"))
        for lane in range(_LANES)
    ]
    return [F.count(F.lit(1)).alias("__rows"), *[lane.alias(f"__lane{index}") for index, lane in enumerate(lanes)]]


def _counted(row: Row) -> Counted:
    return fingerprint_of(int(row["__rows"]), [int(row[f"__lane{lane}"] or 0) for lane in range(_LANES)])


def fingerprint_of(rows: int, sums: list[int]) -> Counted:
    """The fingerprint of so many rows, the lanes of whose hashes add up to ``sums``."""
    text = ":".join([str(rows), *(f"{total % (1 << 64):016x}" for total in sums)])
    return Counted(rows, hashlib.sha256(text.encode()).hexdigest())


NO_ROWS = fingerprint_of(0, [0] * _LANES)
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


def _plain(kind: T.DataType) -> str:
    """The type without nullability, which tables and results may differ in."""
    return kind.simpleString().lower()
