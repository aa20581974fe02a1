"""Arrival logs as literal rows, and what the reference engine and the batch engine make of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pipelines.batch.engine import LogSlices
from pipelines.batch.logs import LogSlice
from pipelines.core.model import EVERYTHING, Arrival, Job, OutputRange
from pipelines.core.time import parse_instant
from pipelines.transcripts import Case, Outcome, run_reference
from pipelines.transcripts.engines import arrival_frame, arrival_frames
from pipelines.transcripts.read import Expectation

Row = Mapping[str, Any]


def instant(value: str | int | None) -> int | None:
    """Microseconds of ``12:07``, ``12:07:01.5`` on 2026-01-01, or of a whole ISO instant."""
    return parse_instant(value if "T" in value else f"2026-01-01T{value}") if isinstance(value, str) else value


def arrivals(job: Job, rows: Sequence[Row]) -> list[Arrival]:
    """Rows with ``arrival`` and payload columns; ``partition`` 0 and rising ``sequence`` by default.

    A row names its ``input`` where the job has several; values of TIMESTAMP columns are read by :func:`instant`.
    """
    following = Counter[tuple[str, int]]()
    found = []
    for row in rows:
        source, partition = job.input(row.get("input", job.inputs[0].name)), row.get("partition", 0)
        sequence = row.get("sequence", following[source.name, partition])
        following[source.name, partition] = sequence + 1
        payload = {
            column.name: instant(row.get(column.name)) if column.type == "timestamp" else row.get(column.name)
            for column in source.columns
        }
        arrival_us = instant(row["arrival"])
        assert arrival_us is not None
        found.append(Arrival(source.name, partition, sequence, arrival_us, payload))
    return found


def logs(spark: SparkSession, job: Job, rows: Sequence[Row]) -> dict[str, DataFrame]:
    """A log per input; see :func:`arrivals`."""
    return arrival_frames(spark, job, arrivals(job, rows))


def slices(spark: SparkSession, job: Job, rows: Sequence[Row], count: int = 3) -> LogSlices:
    """As :func:`logs`, each in ``count`` slices, one after the other."""
    found: dict[str, list[LogSlice]] = {}
    for source in job.inputs:
        mine = [row for row in arrivals(job, rows) if row.input == source.name]
        size = -(-len(mine) // count)
        parts = [part for start in range(0, len(mine), size) if (part := mine[start : start + size])]
        found[source.name] = [
            LogSlice(arrival_frame(spark, source, part), part[0].arrival_time_us, part[-1].arrival_time_us)
            for part in parts
        ]
    return {name: partial(list, each) for name, each in found.items()}


def reference(job: Job, rows: Sequence[Row], output: OutputRange = EVERYTHING) -> Outcome:
    """What the reference engine gives for ``rows``."""
    outcome = run_reference(Case("rows", None, 1, job, tuple(arrivals(job, rows)), output, Expectation()))
    assert outcome.error is None, outcome.error
    return outcome
