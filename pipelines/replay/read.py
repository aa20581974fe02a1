"""Arrivals of a plan as DataFrames, at the versions that it names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from pipelines.core.model import Input
from pipelines.core.time import format_instant, to_datetime
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import LOG_COLUMNS
from pipelines.plan.definition import ReadTable, SortedFile
from pipelines.plan.read_range import ReadRange

_PATTERN = frozenset("{}[]*?\\")
"""A path that holds one of these would be read as a pattern."""


def read_arrivals(
    spark: SparkSession, lakehouse: Lakehouse, table: ReadTable, part: Input, read: ReadRange
) -> DataFrame:
    """Arrivals of ``[read.from, read.to]``, both ends included, at exactly ``table.version``.

    The files that the plan names, or those that partitions and statistics of the log do not rule out; inside a file,
    row groups are skipped by arrival time.
    """
    if _are_named(lakehouse, table):
        (frame,) = _files_of(spark, lakehouse, table, [table.paths])
    else:
        frame = _version(spark, lakehouse, table)
    names = [name for name, _ in LOG_COLUMNS] + [column.name for column in part.columns]
    return _within(frame, read).select(*names, "arrival_date")


def read_sorted_files(
    spark: SparkSession, lakehouse: Lakehouse, table: ReadTable, read: ReadRange
) -> list[tuple[SortedFile, DataFrame]]:
    """As :func:`read_arrivals`, each of the table's stretches by itself, with all columns of the table."""
    if not _are_named(lakehouse, table):
        return []
    frames = _files_of(spark, lakehouse, table, [[one.path] for one in table.sorted_files])
    return [(one, _within(frame, read, one)) for one, frame in zip(table.sorted_files, frames, strict=True)]


def _within(frame: DataFrame, read: ReadRange, held: SortedFile | None = None) -> DataFrame:
    """The arrivals of ``[read.from, read.to]``, of ``frame``, which ``held`` tells more of."""
    if read.from_us is not None and (held is None or held.first_us < read.from_us):
        frame = frame.filter(f"arrival_date >= DATE '{to_datetime(read.from_us).date().isoformat()}'")
        frame = frame.filter(f"arrival_time >= TIMESTAMP '{format_instant(read.from_us)}'")
    if read.to_us is not None and (held is None or held.last_us > read.to_us):
        frame = frame.filter(f"arrival_date <= DATE '{to_datetime(read.to_us).date().isoformat()}'")
        frame = frame.filter(f"arrival_time <= TIMESTAMP '{format_instant(read.to_us)}'")
    return frame


def _are_named(lakehouse: Lakehouse, table: ReadTable) -> bool:
    return bool(table.paths) and not _PATTERN.intersection(lakehouse.uri(table.table))


def _files_of(
    spark: SparkSession, lakehouse: Lakehouse, table: ReadTable, paths: Iterable[Sequence[str]]
) -> list[DataFrame]:
    """Files by name, some at once: what a day costs does not depend on how long the log is."""
    log = lakehouse.open(table.table, table.version)
    assert log is not None, table.table
    schema = T.StructType.fromJson(json.loads(log.schema().to_json()))
    root = lakehouse.uri(table.table)
    reader = spark.read.schema(schema).option("basePath", root)
    return [reader.parquet(*(f"{root}/{path}" for path in some)) for some in paths]


def _version(spark: SparkSession, lakehouse: Lakehouse, table: ReadTable) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", table.version).load(lakehouse.uri(table.table))
