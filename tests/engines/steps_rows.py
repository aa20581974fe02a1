"""Steps over literal rows, and the batch engine's answer to them as plain Python data, in one Spark action."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.batch.spark.local_rows import local_frame
from pipelines.batch.steps.outputs import evaluate
from pipelines.core.model import Column, Input, Job, Reference, StreamAnalyticsOrdering
from pipelines.core.steps import WINDOW_COLUMNS, Output, Rows, Step, Steps
from pipelines.core.time import parse_instant

Row = Mapping[str, Any]
Answer = list[tuple[Any, ...]]

_HEAD = (("arrival_time", "timestamp"), ("input_partition", "int"), ("sequence", "bigint"))
_CLOCK = "HH:mm:ss.SSSSSS"


def columns_of(ddl: str) -> tuple[Column, ...]:
    """``"k STRING, x INT"`` as columns."""
    return tuple(Column(*part.split(" ", 1)) for part in ddl.lower().split(", "))


def job_of(
    inputs: Mapping[str, str],
    results: Mapping[str, Rows],
    steps: Mapping[str, Rows] | None = None,
    references: Sequence[Reference] = (),
    *,
    ansi: bool = True,
) -> Job:
    """A job of these inputs (name to columns), outputs and steps."""
    return Job(
        name="steps",
        profile="stream_analytics",
        inputs=tuple(Input(name, columns_of(ddl)) for name, ddl in inputs.items()),
        orderings=tuple((name, StreamAnalyticsOrdering()) for name in inputs),
        query=Steps(
            tuple(Step(name, rows) for name, rows in (steps or {}).items()),
            tuple(Output(name, rows) for name, rows in results.items()),
            ansi,
        ),
        end_of_log="flush",
        references=tuple(references),
    )


def answers(
    spark: SparkSession,
    job: Job,
    rows: Mapping[str, Sequence[Row]],
    references: Mapping[str, Sequence[Row]] | None = None,
) -> dict[str, Answer]:
    """The rows of each output as sorted tuples of its columns but a window's; instants as the clock shows them.

    A row of an input counts at ``at``, and arrives then if it has no ``arrival``; in partition 0 and in the order given
    if it has no ``partition`` and ``sequence``. A row of a reference is valid from ``from`` on.
    """
    inputs = {one.name: input_frame(spark, one, rows.get(one.name, ())) for one in job.inputs}
    data = {one.name: reference_frame(spark, one, (references or {})[one.name]) for one in job.references}
    found = evaluate(job, inputs, data).outputs
    as_text = {"timestampFormat": _CLOCK, "ignoreNullFields": "false"}
    shown = {name: frame.drop(*WINDOW_COLUMNS) for name, frame in found.items()}
    texts = [frame.select(F.lit(name), F.to_json(F.struct("*"), as_text)) for name, frame in shown.items()]
    answer: dict[str, Answer] = {name: [] for name in found}
    for name, text in reduce(DataFrame.union, texts).collect():
        answer[name].append(tuple(_plain(value) for value in json.loads(text).values()))
    return {name: sorted(each, key=repr) for name, each in answer.items()}


def input_frame(spark: SparkSession, source: Input, rows: Sequence[Row]) -> DataFrame:
    """Events that count; see :func:`answers`."""
    names = [(column.name, column.type) for column in source.columns]
    data = [
        (
            *(_value(row.get(name), kind) for name, kind in names),
            _micros(row.get("arrival", row["at"])),
            row.get("partition", 0),
            row.get("sequence", number),
            _micros(row["at"]),
        )
        for number, row in enumerate(rows)
    ]
    return local_frame(spark, [*names, *_HEAD, ("system_timestamp", "timestamp")], data)


def reference_frame(spark: SparkSession, reference: Reference, rows: Sequence[Row]) -> DataFrame:
    """Reference data; see :func:`answers`."""
    names = [(column.name, column.type) for column in reference.columns]
    data = [
        (*(_value(row.get(name), kind) for name, kind in names), _micros(row["from"]) if "from" in row else None, place)
        for place, row in enumerate(rows)
    ]
    return local_frame(spark, [*names, ("effective_from", "timestamp"), ("position", "bigint")], data)


def _micros(text: str) -> int:
    return parse_instant(text if "-" in text else f"2026-01-01T{text}")


def _value(value: Any, kind: str) -> Any:
    return _micros(value) if kind == "timestamp" and isinstance(value, str) else value


def _plain(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6}", value):
        return re.sub(r"(:00)?\.0{6}$|0+$", "", value)
    return value
