"""The streaming query: logs and announcements in, the engine of each job, two tables out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pipelines.core.errors import TailraceError
from pipelines.core.model import Job
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.saved import output_of
from pipelines.live.spark.announcements import Announcement, checkpoint_uri, control_uri
from pipelines.live.spark.operator import INPUT_TYPE, OUTPUT_TYPE, LiveOperator
from pipelines.live.spark.results import Fields, Results, StepResults, WindowResults
from pipelines.live.spark.sink import LiveTable, stream_verdicts_table, table_schema
from pipelines.live.spark.source import log_stream, messages_of
from pipelines.live.spark.tables import verdict_columns
from pipelines.live.state.arrivals import LogOutOfOrder
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import ANNOUNCEMENT
from pipelines.live.state.output import Output, RunCounts
from pipelines.runtime.cluster import provide_packages


def live_session(spark: SparkSession, partitions: int = 1) -> SparkSession:
    """A session of the same Spark for streams: state in RocksDB, one task a job."""
    provide_packages(spark)
    session = spark.newSession()
    state = "org.apache.spark.sql.execution.streaming.state"
    settings = {
        "spark.sql.streaming.stateStore.providerClass": f"{state}.RocksDBStateStoreProvider",
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


def outputs_of(frame: DataFrame, jobs: Mapping[str, Job]) -> dict[str, Output]:
    """What a batch gave, by job."""
    return {row["key"]: output_of(bytes(row["output"]), jobs[row["key"]]) for row in frame.collect()}


def live_query(
    spark: SparkSession,
    job: Job,
    lakehouse: Lakehouse,
    announced: Announcement,
    counts: RunCounts,
    files_per_trigger: int,
) -> DataStreamWriter:
    """The job's query, ready to start. ``counts`` is updated by each batch, and has the error of a batch that fails."""
    compiled = CompiledJob(job)
    streams = {
        part.name: log_stream(spark, lakehouse.uri(arrivals_table(part.log)), files_per_trigger) for part in job.inputs
    }
    application = f"tailrace/stream/{job.name}/{announced.stream_id}"

    def table(name: str, columns: Fields, time: str, day: str) -> LiveTable:
        schema = table_schema(columns, day)
        return LiveTable(lakehouse, name, schema, time, day, announced.generation, application)

    results: Results = WindowResults(compiled, streams) if job.steps is None else StepResults(job, lakehouse, spark)
    verdicts = table(stream_verdicts_table(job), verdict_columns(), "arrival_time", "arrival_date")
    tables = {name: table(name, columns, results.time, "output_date") for name, columns in results.tables.items()}
    messages = _announcements(spark, job, lakehouse, announced)
    for part in job.inputs:
        messages = messages.unionByName(messages_of(compiled, part, streams[part.name]))
    writer = operated(messages, {job.name: job}).writeStream.outputMode("append")
    writer = writer.option("checkpointLocation", checkpoint_uri(lakehouse, job, announced.generation))
    return writer.foreachBatch(_writer(job, verdicts, results, tables, counts)).queryName(f"tailrace {job.name}")


def _announcements(spark: SparkSession, job: Job, lakehouse: Lakehouse, announced: Announcement) -> DataFrame:
    rows = log_stream(spark, control_uri(lakehouse, job), 1000).filter(F.col("generation") == announced.generation)
    empty = {"input": "''", "file": "''", "row_count": "0"}
    values = {"key": f"'{job.name}'", "kind": f"'{ANNOUNCEMENT}'", **empty, "body": "body"}
    kinds = dict(field.split(" ", 1) for field in INPUT_TYPE.split(", "))
    return rows.select(*(F.expr(value).cast(kinds[name]).alias(name) for name, value in values.items()))


def _writer(
    job: Job, verdicts: LiveTable, results: Results, tables: Mapping[str, LiveTable], counts: RunCounts
) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, batch: int) -> None:
        output = outputs_of(frame, {job.name: job}).get(job.name)
        if output is None:
            return
        if output.error is not None:
            raise output.error
        verdicts.write(batch, output.verdicts.columns, output.provisional_verdicts.columns, advanced=output.advanced)
        rows = results.rows(output)
        for name, table in tables.items():
            table.write(batch, *rows[name], advanced=output.advanced)
        counts.add(output, rows)

    def write_or_note(frame: DataFrame, batch: int) -> None:
        try:
            write(frame, batch)
        except (TailraceError, LogOutOfOrder) as error:
            # Spark reports it as text alone
            counts.error = error
            raise

    return write_or_note
