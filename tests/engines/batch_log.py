"""Arrival logs as literal rows, and the batch engine's answer to them as plain Python data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipelines.batch.engine import LogSlices, run
from pipelines.batch.logs import LogSlice
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import format_instant, from_datetime, parse_instant, to_datetime

HEAD_TYPES = {
    "arrival_time": "TIMESTAMP",
    "input_partition": "INT",
    "sequence": "BIGINT",
    "kind": "STRING",
    "punctuation_time": "TIMESTAMP",
    "cause": "STRING",
}


def instant(text: str | None) -> datetime | None:
    """``12:07``, ``12:07:01.5`` on 2026-01-01, or a whole ISO instant, as what Spark takes for a TIMESTAMP."""
    return None if text is None else to_datetime(parse_instant(text if "T" in text else f"2026-01-01T{text}"))


def clock(moment: datetime | None) -> str | None:
    """The shortest text of an instant: the inverse of :func:`instant`."""
    if moment is None:
        return None
    text = format_instant(from_datetime(moment)).removesuffix("Z").removeprefix("2026-01-01T")
    return text.removesuffix(":00") if text.count(":") == 2 else text


def log(spark: SparkSession, job: Job, name: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows with ``arrival`` and payload columns; ``partition`` 0 and rising ``sequence`` by default.

    Text in TIMESTAMP columns is read by :func:`instant`; ``punctuation`` makes a row a punctuation.
    """
    columns = job.input(name).columns
    types = HEAD_TYPES | {column.name: column.type for column in columns}
    ddl = ", ".join(f"{column} {kind}" for column, kind in types.items())
    following: dict[int, int] = {}
    data = []
    for row in rows:
        partition = row.get("partition", 0)
        sequence = row.get("sequence", following.get(partition, 0))
        following[partition] = sequence + 1
        mark = row.get("punctuation")
        payload = [
            instant(row.get(column.name)) if column.type == "timestamp" else row.get(column.name) for column in columns
        ]
        kind = "event" if mark is None else "punctuation"
        data.append((instant(row["arrival"]), partition, sequence, kind, instant(mark), row.get("cause"), *payload))
    return spark.createDataFrame(data, StructType.fromDDL(ddl))


def logs(spark: SparkSession, job: Job, rows: Sequence[Mapping[str, Any]]) -> dict[str, DataFrame]:
    """A log per input; a row names its ``input`` where the job has several."""
    first = job.inputs[0].name
    return {
        source.name: log(spark, job, source.name, [row for row in rows if row.get("input", first) == source.name])
        for source in job.inputs
    }


def slices(spark: SparkSession, job: Job, rows: Sequence[Mapping[str, Any]], count: int = 3) -> LogSlices:
    """As :func:`logs`, each in ``count`` slices, one after the other; ``rows`` with a ``sequence`` each."""
    first = job.inputs[0].name
    found: dict[str, list[LogSlice]] = {}
    for source in job.inputs:
        mine = [row for row in rows if row.get("input", first) == source.name]
        size = -(-len(mine) // count)
        parts = [part for start in range(0, len(mine), size) if (part := mine[start : start + size])]
        found[source.name] = [
            LogSlice(log(spark, job, source.name, part), *(_arrival_us(part[end]) for end in (0, -1))) for part in parts
        ]
    return {name: partial(list, each) for name, each in found.items()}


def _arrival_us(row: Mapping[str, Any]) -> int:
    arrival = instant(row["arrival"])
    assert arrival is not None
    return from_datetime(arrival)


def verdicts(
    spark: SparkSession, job: Job, rows: Sequence[Mapping[str, Any]], output: OutputRange = EVERYTHING
) -> list[dict[str, Any]]:
    """The engine's verdicts in the order of input, partition and sequence, instants as :func:`clock` text."""
    found = [row.asDict() for row in run(job, logs(spark, job, rows), output).verdicts.collect()]
    for row in found:
        for column in ("arrival_time", "event_time", "system_timestamp", "lifetime_end", "watermark"):
            row[column] = clock(row[column])
        row["missed_windows"] = [clock(moment) for moment in row["missed_windows"]]
    return sorted(found, key=lambda row: (row["input"], row["input_partition"], row["sequence"]))


def windows(
    spark: SparkSession, job: Job, rows: Sequence[Mapping[str, Any]], output: OutputRange = EVERYTHING
) -> list[tuple[Any, ...]]:
    """The engine's windows as sorted tuples of all columns, instants as :func:`clock` text; without a null id."""
    found = []
    for row in run(job, logs(spark, job, rows), output).windows.collect():
        start, end, window_id, *values = row
        head = (clock(start), clock(end)) if window_id is None else (window_id, clock(start), clock(end))
        found.append((*head, *values))
    return sorted(found, key=lambda row: tuple((value is not None, value) for value in row))
