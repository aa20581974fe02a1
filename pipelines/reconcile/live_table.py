"""The live run's results as a frame with the columns of the replay's, wherever and however they are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import AnyOf, Grid, Job, OutputRange, Sliding, Snapshot
from pipelines.core.results import time_columns, window_of
from pipelines.core.steps import SYSTEM_TIMESTAMP
from pipelines.lakehouse.layout import OutputTable
from pipelines.lakehouse.root import Lakehouse
from pipelines.reconcile.live_files import live_files

_CATALOG_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
EMITTED_AT = "emitted_at"


@dataclass(frozen=True)
class LiveTable:
    """Rows of the range with the columns of the replay's table that it has, and ``emitted_at``.

    ``name`` is what the user calls it, ``version`` its Delta version (None in a catalog), ``lacking`` the values that
    it does not have, which are not compared.
    """

    name: str
    version: int | None
    rows: DataFrame
    lacking: tuple[str, ...]


def live_table(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: Job,
    one: OutputTable,
    output: OutputRange,
    ours: T.StructType,
    keys: Sequence[str],
    against: str | None,
) -> LiveTable:
    """The live table ``against`` (default: the job's) of an output, cut to ``output``.

    ``ours`` are the columns of the replay's table, of which ``keys`` must be there. ``against`` is a table under the
    lakehouse root, a Delta folder or URI, a folder of Parquet or JSON files, or a catalog name. Raises
    :class:`UsageError` if there is no such table, or it lacks a column that is needed.
    """
    name = against or one.live
    frame, version, by_day = _open(spark, lakehouse, name, one, output)
    there = {field.name.lower(): field for field in frame.schema}
    mapping = {ours_name: theirs for theirs, ours_name in job.stream_columns}
    for theirs in mapping.values():
        if theirs.lower() not in there:
            raise UsageError(
                f"the table {name} has no column '{theirs}', which 'stream.columns' names;"
                f" {did_you_mean(theirs.lower(), there)}"
            )
    found = {column: there.get(mapping.get(column, column).lower()) for column in (*ours.names, EMITTED_AT)}
    # where the output has its time under another name, or rows are windows, the live run has it too
    ends = [SYSTEM_TIMESTAMP, *(["window_end"] if one.has_windows else [])]
    time = next((field for name in (*time_columns(job, one.output), *ends) if (field := found.get(name))), None)
    found |= {name: found[name] or time for name in ends if name in found}
    values = [column for column in ours.names if column not in keys]
    lacking = tuple(column for column in values if found[column] is None)
    if values and len(lacking) == len(values):
        raise UsageError(
            f"the table {name} has none of the columns {', '.join(values)}: there is nothing to compare",
            hint="name its columns in 'stream.columns' of the job file",
        )
    columns = [_key(job, one, name, column, found, ours[column].dataType).alias(column) for column in keys]
    columns += [
        _value(field, ours[column].dataType).alias(column) for column in values if (field := found[column]) is not None
    ]
    emitted = found[EMITTED_AT]
    emitted_at = F.lit(None) if emitted is None else F.col(f"`{emitted.name}`")
    rows = frame.select(*columns, emitted_at.cast("timestamp").alias(EMITTED_AT))
    if not by_day and output.from_us is not None:
        rows = rows.filter(F.unix_micros(one.layout.time) >= output.from_us)
    if not by_day and output.to_us is not None:
        rows = rows.filter(F.unix_micros(one.layout.time) < output.to_us)
    return LiveTable(name, version, rows, lacking)


def _open(
    spark: SparkSession, lakehouse: Lakehouse, name: str, one: OutputTable, output: OutputRange
) -> tuple[DataFrame, int | None, bool]:
    """The table, its version, and whether it is laid out as the lakehouse's own and cut to the range already."""
    if _CATALOG_NAME.fullmatch(name):
        try:
            frame = spark.read.table(name)
            frame.schema  # noqa: B018  # asks the catalog
        except AnalysisException as error:
            raise UsageError(
                f"the catalog has no table {name}: {str(error).splitlines()[0]}", key="--against"
            ) from None
        return frame, None, False
    place = str(Path(name).absolute()) if name.startswith((".", "~")) else name
    table = lakehouse.open(place)
    if table is None:
        files = live_files(spark, lakehouse.uri(place))
        if files is not None:
            return files, None, False
        raise UsageError(
            f"there is no table {name} with the live run's results in {lakehouse.root}, and no folder of its files",
            hint="run 'tailrace stream JOB', or name the table with --against or in section 'stream' of the job file",
        )
    version = table.version()
    frame = spark.read.format("delta").option("versionAsOf", version).load(lakehouse.uri(place))
    condition, layout = one.layout.condition(output), one.layout
    kinds = {field.name: field.dataType for field in frame.schema}
    ours = isinstance(kinds.get(layout.time), T.TimestampType) and isinstance(kinds.get(layout.day), T.DateType)
    if ours and condition is not None:
        return frame.filter(condition), version, True
    return frame, version, ours


def _key(
    job: Job,
    one: OutputTable,
    table: str,
    column: str,
    found: Mapping[str, T.StructField | None],
    kind: T.DataType,
) -> Column:
    field = found[column]
    if field is not None:
        return _value(field, kind, exactly=True)
    window = window_of(job, one.output)
    end = found.get("window_end")
    if column == "window_id" and not isinstance(window, AnyOf):
        return F.lit(None).cast("string")
    if column == "window_start" and end is not None:
        # the end and the size give the start
        ends = F.unix_micros(_value(end, T.TimestampType()))
        if isinstance(window, Snapshot) and job.profile == "stream_analytics":
            return F.timestamp_micros(ends)
        if isinstance(window, (Grid, Sliding)):
            return F.timestamp_micros(ends - window.size_us)
    raise UsageError(
        f"the table {table} has no column '{column}', which identifies its rows",
        hint=f"name it in 'stream.columns' of the job file, {{their_name: {column}}}, or compare without a range",
    )


def _value(field: T.StructField, kind: T.DataType, *, exactly: bool = False) -> Column:
    """A column of the live table in the type of ours; numbers of another type keep it and compare by value."""
    column = F.col(f"`{field.name}`")
    if field.dataType == kind:
        return column
    if isinstance(kind, T.TimestampType) and not isinstance(
        field.dataType, (T.TimestampNTZType, T.StringType, T.DateType)
    ):
        raise UsageError(
            f"column '{field.name}' of the live run's table is {field.dataType.simpleString().upper()}, not a TIMESTAMP"
        )
    if not exactly and isinstance(kind, T.NumericType) and isinstance(field.dataType, T.NumericType):
        return column
    return column.try_cast(kind)
