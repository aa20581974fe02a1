"""The contract of each output of steps, and which contract an output's table keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from pipelines.batch.steps.outputs import evaluate
from pipelines.core.model import Column, Job, OutputRange
from pipelines.lakehouse.layout import OutputTable, row_keys, table_columns
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.check_result import CheckResult
from pipelines.quality.contracts import Contract, Rule, check, windows_contract
from pipelines.quality.result_types import columns_type
from pipelines.replay.collect import storable

_ARRIVED = {
    "arrival_time": T.TimestampType(),
    "input_partition": T.IntegerType(),
    "sequence": T.LongType(),
    "system_timestamp": T.TimestampType(),
}
_REFERENCE = {"effective_from": T.TimestampType(), "position": T.LongType()}


def check_output(
    spark: SparkSession, lakehouse: Lakehouse, job: Job, one: OutputTable, output: OutputRange
) -> CheckResult:
    """Whether the table of an output keeps its contract over ``output``."""
    contract = windows_contract(job, spark) if job.steps is None else output_contract(job, one, spark)
    return check(spark, lakehouse, contract, output)


def output_contract(job: Job, one: OutputTable, spark: SparkSession) -> Contract:
    """The contract of an output's table. Raises :class:`JobFileError` if Spark refuses an expression."""
    schema = storable(_no_rows(job, one, spark)).schema
    time, day = one.layout.time, one.layout.day
    names = table_columns(job, one)
    rules = [
        Rule(time, "is in the years 1 to 9999", f"NOT year({time}) BETWEEN 1 AND 9999"),
        Rule(day, f"is the UTC date of {time}", f"{day} <> to_date({time})"),
    ]
    if {"window_start", "window_end"} <= set(names):
        rules.append(Rule("window_end", "is not before window_start", "window_end < window_start"))
    keys = row_keys(job, one)
    return Contract(
        name="output_schema",
        table=one.table,
        layout=one.layout,
        columns=(
            *((name, schema[name].dataType, name != time) for name in names if name != day),
            (day, T.DateType(), False),
        ),
        rules=tuple(rules),
        key=keys or tuple(name for name in names if name != day),
        unique=keys or (),
    )


def _no_rows(job: Job, one: OutputTable, spark: SparkSession) -> DataFrame:
    """The output of inputs and references without rows, which has the types of every other."""
    inputs = {part.name: _empty(spark, part.columns, _ARRIVED) for part in job.inputs}
    references = {part.name: _empty(spark, part.columns, _REFERENCE) for part in job.references}
    return evaluate(job, inputs, references, [one.output]).outputs[one.output]


def _empty(spark: SparkSession, columns: Sequence[Column], more: Mapping[str, T.DataType]) -> DataFrame:
    kind = columns_type(columns)
    fields = [T.StructField(name, added) for name, added in more.items() if name not in kind.names]
    return spark.createDataFrame([], T.StructType([*kind.fields, *fields]))
