"""The streaming query: logs and announcements in, machines in between, two tables out."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pipelines.core.errors import JobFileError
from pipelines.core.model import Aggregate, Job
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.spark.announcements import Announcement, checkpoint_uri, control_uri
from pipelines.live.spark.operator import INPUT_TYPE, OUTPUT_TYPE, LiveOperator
from pipelines.live.spark.sink import LiveTable, table_schema
from pipelines.live.spark.source import log_stream, messages_of, type_of, with_sides
from pipelines.live.state.intake import ANNOUNCEMENT
from pipelines.live.state.output import Output
from pipelines.live.state.program import Program
from pipelines.live.state.rows import Result

TIMESTAMP = pa.timestamp("us", "UTC")
_VERDICT_COLUMNS = [
    ("input", pa.string()),
    ("input_partition", pa.int32()),
    ("sequence", pa.int64()),
    ("arrival_time", TIMESTAMP),
    ("event_time", TIMESTAMP),
    ("verdict", pa.string()),
    ("reasons", pa.list_(pa.string())),
    ("system_timestamp", TIMESTAMP),
    ("lifetime_end", TIMESTAMP),
    ("watermark", TIMESTAMP),
    ("missed_windows", pa.list_(TIMESTAMP)),
]
_ANY_TYPE = frozenset({"min", "max", "first", "last", "collect"})
_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def windows_name(job: Job) -> str:
    """``stream_windows/<job>``"""
    return f"stream_windows/{job.name}"


def verdicts_name(job: Job) -> str:
    """``stream_verdicts/<job>``"""
    return f"stream_verdicts/{job.name}"


@dataclass
class Tally:
    """What a run has written so far. ``ended`` once the end of the log was told."""

    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    windows: int = 0
    provisional_windows: int = 0
    batches: int = 0
    ended: bool = False
    error: Exception | None = None

    def add(self, output: Output) -> None:
        """Count a batch's rows; provisional ones as they are now."""
        self.verdicts += output.verdict_counts
        self.reasons += output.reason_counts
        self.windows += len(output.results)
        if output.moved:
            self.provisional_windows = len(output.provisional_results)
        self.ended = self.ended or output.told


def live_session(spark: SparkSession, partitions: int = 1) -> SparkSession:
    """A session of the same Spark for streams: state in RocksDB, one task a job."""
    session = spark.newSession()
    settings = {
        "spark.sql.streaming.stateStore.providerClass": _STORE,
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


def operated(messages: DataFrame, jobs: dict[str, Job]) -> DataFrame:
    """The stateful operator over messages."""
    return messages.groupBy("key").transformWithStateInPandas(
        statefulProcessor=LiveOperator(jobs), outputStructType=OUTPUT_TYPE, outputMode="Append", timeMode="None"
    )


def outputs_of(frame: DataFrame) -> dict[str, Output]:
    """What a batch gave, by job."""
    return {row["key"]: pickle.loads(row["output"]) for row in frame.collect()}  # noqa: S301  # packed by this program


def live_query(
    spark: SparkSession, job: Job, lakehouse: Lakehouse, begun: Announcement, tally: Tally, files_per_trigger: int
) -> DataStreamWriter:
    """The job's query, ready to start."""
    program = Program(job)
    streams = {
        part.name: log_stream(spark, lakehouse.uri(arrivals_table(part.name)), files_per_trigger) for part in job.inputs
    }
    tables = _tables(job, lakehouse, begun, windows_schema(program, streams))
    messages = _announcements(spark, job, lakehouse, begun)
    for part in job.inputs:
        messages = messages.unionByName(messages_of(program, part, streams[part.name]))
    writer = operated(messages, {job.name: job}).writeStream.outputMode("append")
    writer = writer.option("checkpointLocation", checkpoint_uri(lakehouse, job, begun.generation))
    return writer.foreachBatch(_writer(job, tables, tally)).queryName(f"tailrace {job.name}")


def _announcements(spark: SparkSession, job: Job, lakehouse: Lakehouse, begun: Announcement) -> DataFrame:
    rows = log_stream(spark, control_uri(lakehouse, job), 1000).filter(F.col("generation") == begun.generation)
    kinds = dict(field.split(" ", 1) for field in INPUT_TYPE.split(", "))
    values = {
        "key": F.lit(job.name),
        "kind": F.lit(ANNOUNCEMENT),
        "input": F.lit(""),
        "file": F.lit(""),
        "row_count": F.lit(0),
        "body": F.col("body"),
    }
    return rows.select(*(value.cast(kinds[name]).alias(name) for name, value in values.items()))


def _writer(job: Job, tables: tuple[LiveTable, LiveTable], tally: Tally) -> Callable[[DataFrame, int], None]:
    verdicts, windows = tables

    def write(frame: DataFrame, batch: int) -> None:
        output = outputs_of(frame).get(job.name)
        if output is None:
            return
        if output.error is not None:
            tally.error = output.error
            raise output.error
        verdicts.write(batch, output.verdicts.columns, output.provisional_verdicts.columns, moved=output.moved)
        results, provisional = _columns(output.results), _columns(output.provisional_results)
        windows.write(batch, results, provisional, moved=output.moved)
        tally.add(output)
        tally.batches += 1

    return write


def _columns(results: Sequence[Result]) -> list[Sequence[Any]]:
    return list(zip(*((*one[:3], *one.values) for one in results), strict=True))


# -- columns ----------------------------------------------------------------------------------------------------------


def _tables(job: Job, lakehouse: Lakehouse, begun: Announcement, windows: pa.Schema) -> tuple[LiveTable, LiveTable]:
    application = f"tailrace/stream/{job.name}/{begun.stream_id}"
    verdicts = table_schema(_VERDICT_COLUMNS, "arrival_date")
    return (
        LiveTable(
            lakehouse, verdicts_name(job), verdicts, "arrival_time", "arrival_date", begun.generation, application
        ),
        LiveTable(lakehouse, windows_name(job), windows, "window_end", "output_date", begun.generation, application),
    )


def windows_schema(program: Program, frames: dict[str, DataFrame]) -> pa.Schema:
    """Columns of ``stream_windows``: as those of ``windows``, and ``emitted_at``."""
    name = program.sources[0]
    frame = with_sides(program, program.job.input(name), frames[name])
    types = {text: type_of(frame, text) for text in program.texts}
    columns = [("window_start", TIMESTAMP), ("window_end", TIMESTAMP), ("window_id", pa.string())]
    kinds = [types[column] for column in program.job.window_query.group_by]
    kinds += [result_type(one, None if one.argument is None else types[one.argument]) for one in program.aggregates]
    columns += [
        (name, to_arrow_type(kind, timestamp_utc=True)) for name, kind in zip(program.output_names, kinds, strict=True)
    ]
    return table_schema(columns, "output_date")


def result_type(one: Aggregate, argument: T.DataType | None) -> T.DataType:
    """The type of an aggregate over an argument of that type, as Spark SQL has it."""
    if argument is None or one.function == "count":
        return T.LongType()
    if isinstance(argument, T.NullType):
        argument = T.StringType() if one.function in _ANY_TYPE else T.DoubleType()
    if one.function not in _ANY_TYPE and not isinstance(argument, T.NumericType):
        raise JobFileError(
            f"'{one.argument}' is {argument.simpleString().upper()}, not a number, which {one.function} needs",
            key=f"query.aggregates.{one.name}",
            hint=f"write {one.function}(CAST({one.argument} AS DOUBLE))",
        )
    match one.function:
        case "collect":
            return T.ArrayType(argument)
        case function if function in _ANY_TYPE:
            return argument
        case "sum" if isinstance(argument, T.IntegralType):
            return T.LongType()
        case "sum" | "avg" if isinstance(argument, T.DecimalType):
            digits, more = (10, 0) if one.function == "sum" else (4, 4)
            return T.DecimalType(min(argument.precision + digits, 38), min(argument.scale + more, 38))
    return T.DoubleType()
