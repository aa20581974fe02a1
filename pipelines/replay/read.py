"""Arrivals of a plan as DataFrames, at the versions that it names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch.engine import LogSlices
from pipelines.batch.logs import LogSlice
from pipelines.core.expressions import quoted
from pipelines.core.model import Input, Job
from pipelines.core.time import format_instant, to_datetime
from pipelines.lakehouse.arrival_log import data_files, shows_all_rows
from pipelines.lakehouse.layout import references_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import LOG_COLUMNS
from pipelines.plan.definition import Plan, ReadReference, ReadTable, SortedFile
from pipelines.plan.read_range import ReadRange
from pipelines.replay.fingerprint import fingerprint

_PATTERN = frozenset("{}[]*?\\")
"""A path that contains one of these would be read as a pattern."""
_MOST_REFERENCE_FILES = 32
"""Spark lists more paths than that with a job of its own."""


def read_arrivals(spark: SparkSession, job: Job, plan: Plan, lakehouse: Lakehouse) -> dict[str, DataFrame]:
    """What the plan reads, by input: the arrivals of its read range, both ends included, at its versions.

    The files that the plan names, or those that partitions and statistics of the log do not rule out; inside a file,
    row groups are skipped by arrival time.
    """
    return {one.input: _arrivals(spark, lakehouse, one, job.input(one.input)) for one in plan.reads}


def read_references(spark: SparkSession, job: Job, plan: Plan, lakehouse: Lakehouse) -> dict[str, DataFrame]:
    """The reference data that the plan reads, by name: its columns, ``effective_from`` and ``position``."""
    frames = {}
    for one in plan.references:
        rows = _reference(spark, lakehouse, one)
        if one.snapshots_us is not None:
            rows = rows.filter(F.unix_micros("effective_from").isin(list(one.snapshots_us)))
        names = [column.name for column in job.reference(one.reference).columns]
        own = [name for name in ("effective_from", "position") if name not in names]
        frames[one.reference] = rows.select(*map(quoted, names), *own)
    return frames


def reference_fingerprints(references: Mapping[str, DataFrame]) -> dict[str, str]:
    """By table, the fingerprint of the rows that :func:`read_references` gave: the same for the same snapshots with the
    same rows in the same order, whatever batches and versions they came with."""
    place = F.row_number().over(Window.partitionBy("effective_from").orderBy("position"))
    return {
        references_table(name): fingerprint(rows.withColumn("position", place)).fingerprint
        for name, rows in references.items()
    }


def log_slices(spark: SparkSession, plan: Plan, lakehouse: Lakehouse) -> LogSlices:
    """As :func:`read_arrivals`, in the order of the arrivals in the files, each sorted file by itself."""
    return {one.input: partial(_slices, spark, lakehouse, one) for one in plan.reads}


def _arrivals(spark: SparkSession, lakehouse: Lakehouse, table: ReadTable, part: Input) -> DataFrame:
    if _are_named(lakehouse, table):
        (frame,) = _files_of(spark, lakehouse, table, [table.paths])
    else:
        frame = _version(spark, lakehouse, table)
    names = [name for name, _ in LOG_COLUMNS] + [column.name for column in part.columns]
    return within_range(frame, table.read).select(*names, "arrival_date")


def _slices(spark: SparkSession, lakehouse: Lakehouse, table: ReadTable) -> list[LogSlice]:
    if not _are_named(lakehouse, table):
        return []
    frames = _files_of(spark, lakehouse, table, [[one.path] for one in table.sorted_files])
    return [
        LogSlice(within_range(frame, table.read, one), one.first_us, one.last_us)
        for one, frame in zip(table.sorted_files, frames, strict=True)
    ]


def within_range(frame: DataFrame, read: ReadRange, file: SortedFile | None = None) -> DataFrame:
    """The arrivals of ``[read.from, read.to]``, of ``frame``, which is of ``file`` alone if that is given."""
    if read.from_us is not None and (file is None or file.first_us < read.from_us):
        frame = frame.filter(f"arrival_date >= DATE '{to_datetime(read.from_us).date().isoformat()}'")
        frame = frame.filter(f"arrival_time >= TIMESTAMP '{format_instant(read.from_us)}'")
    if read.to_us is not None and (file is None or file.last_us > read.to_us):
        frame = frame.filter(f"arrival_date <= DATE '{to_datetime(read.to_us).date().isoformat()}'")
        frame = frame.filter(f"arrival_time <= TIMESTAMP '{format_instant(read.to_us)}'")
    return frame


def _reference(spark: SparkSession, lakehouse: Lakehouse, one: ReadReference) -> DataFrame:
    """All rows of the version: of its files by name where these are few and plain, which spares Spark's jobs over the
    Delta log."""
    table = lakehouse.open(one.table, one.version)
    assert table is not None, one.table
    paths = [row["path"] for row in data_files(table, ("path",))] if shows_all_rows(table) else []
    plain = not any(_PATTERN.intersection(path) or "/" in path or "%" in path for path in paths)
    if paths and plain and len(paths) <= _MOST_REFERENCE_FILES and not _PATTERN.intersection(lakehouse.uri(one.table)):
        (frame,) = _files_of(spark, lakehouse, one, [paths])
        return frame
    return _version(spark, lakehouse, one)


def _are_named(lakehouse: Lakehouse, table: ReadTable) -> bool:
    return bool(table.paths) and not _PATTERN.intersection(lakehouse.uri(table.table))


def _files_of(
    spark: SparkSession, lakehouse: Lakehouse, table: ReadTable | ReadReference, paths: Iterable[Sequence[str]]
) -> list[DataFrame]:
    """Files by name, some at once: what a day costs does not depend on how long the log is."""
    log = lakehouse.open(table.table, table.version)
    assert log is not None, table.table
    schema = T.StructType.fromJson(json.loads(log.schema().to_json()))
    root = lakehouse.uri(table.table)
    reader = spark.read.schema(schema).option("basePath", root)
    return [reader.parquet(*(f"{root}/{path}" for path in some)) for some in paths]


def _version(spark: SparkSession, lakehouse: Lakehouse, table: ReadTable | ReadReference) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", table.version).load(lakehouse.uri(table.table))
