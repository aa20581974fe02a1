"""The Spark type of every column of a job's result, by function and argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.errors import JobFileError
from pipelines.core.expressions import quoted_path
from pipelines.core.model import Aggregate, Column, Input, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def result_types(job: Job, spark: SparkSession) -> tuple[list[T.DataType], list[T.DataType]]:
    """Types of the group keys and of the aggregates, in the job's order. Spark analyses, but runs nothing."""
    rows = _no_rows(job, spark)
    keys = [rows.select(F.col(quoted_path(name))).schema[0].dataType for name in job.window_query.group_by]
    return keys, [_type_of(one, rows) for one in job.window_query.aggregates]


def _type_of(one: Aggregate, rows: DataFrame) -> T.DataType:
    if one.function == "count":
        return T.LongType()
    if one.function.startswith(("stddev", "var", "percentile")):
        return T.DoubleType()
    assert one.argument is not None
    given = _argument_type(one.argument, rows)
    match one.function:
        case "min" | "max" | "first" | "last":
            return given
        case "collect":
            return T.ArrayType(given)
        case _ if isinstance(given, T.DecimalType):
            function = F.sum if one.function == "sum" else F.avg
            return rows.agg(function(F.expr(one.argument))).schema[0].dataType
        case "sum" if isinstance(given, T.IntegralType):
            return T.LongType()
        case _:
            return T.DoubleType()


def _argument_type(text: str, rows: DataFrame) -> T.DataType:
    from pyspark.errors import AnalysisException, ParseException

    try:
        return rows.select(F.expr(text)).schema[0].dataType
    except (AnalysisException, ParseException) as error:
        raise JobFileError(f"Spark cannot evaluate '{text}': {str(error).strip().splitlines()[0]}") from None


def _no_rows(job: Job, spark: SparkSession) -> DataFrame:
    """A frame without rows that has the columns which the query sees; in a join one struct a side."""
    join = job.window_query.join
    if join is None:
        return spark.createDataFrame([], payload_type(job.input(job.window_query.sources[0])))
    sides = [T.StructField(name, payload_type(job.input(name))) for name in (join.left, join.right)]
    return spark.createDataFrame([], T.StructType(sides))


def payload_type(part: Input) -> T.StructType:
    """The payload's columns as Spark types. Needs an active Spark session, which parses them."""
    return columns_type(part.columns)


def columns_type(columns: Sequence[Column]) -> T.StructType:
    """Columns as Spark types. Needs an active Spark session, which parses them."""
    kind = T.StructType.fromDDL(", ".join(f"`{column.name}` {column.type}" for column in columns))
    assert isinstance(kind, T.StructType)
    return kind
