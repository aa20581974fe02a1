"""The stream's input: each arrival log is read as a stream, expressions are evaluated, rows are packed by file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.errors import JobFileError
from pipelines.core.model import Input
from pipelines.live.expressions import readings
from pipelines.live.spark.operator import INPUT_TYPE
from pipelines.live.spark.workers import trust_archives
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import ROWS, pack

FILE = "__file"
_INSTANTS = (T.TimestampType, T.TimestampNTZType, T.DateType, T.StringType, T.NullType)


def log_stream(spark: SparkSession, uri: str, files_per_trigger: int) -> DataFrame:
    """A Delta table from its first commit on."""
    reader = spark.readStream.format("delta").option("startingVersion", "0")
    return reader.option("maxFilesPerTrigger", files_per_trigger).load(uri)


def messages_of(compiled: CompiledJob, part: Input, arrivals: DataFrame) -> DataFrame:
    """The rows of ``arrivals/<input>`` as messages (:data:`~pipelines.live.spark.operator.INPUT_TYPE`)."""
    file = F.substring_index(F.input_file_name(), "/", -1).alias(FILE)
    own = [
        F.col("input_partition").alias("partition"),
        F.col("sequence"),
        F.unix_micros("arrival_time").alias("arrival"),
        F.unix_micros("punctuation_time").alias("punctuation"),
    ]
    seen = with_sides(compiled, part, arrivals)
    _check_types(compiled, part, seen)
    read = [
        # steps take columns as they are, of whatever type
        (F.expr(text) if name[0] == "v" and compiled.job.steps is not None else _plain(seen, text)).alias(name)
        for name, text in readings(compiled, part).items()
    ]
    return seen.select(file, *own, *read).mapInArrow(_packer(compiled.job.name, part.name), INPUT_TYPE)


def with_sides(compiled: CompiledJob, part: Input, frame: DataFrame) -> DataFrame:
    """For a join: a struct column for each side, named as the input; the side that is not this input is null."""
    if not compiled.joins(part.name):
        return frame
    sides = []
    for name in compiled.sources:
        other = compiled.job.input(name)
        if other is part:
            sides.append(F.struct(*(F.col(f"`{column.name}`") for column in part.columns)).alias(name))
        else:
            kind = ", ".join(f"`{column.name}`: {column.type}" for column in other.columns)
            sides.append(F.lit(None).cast(f"struct<{kind}>").alias(name))
    return frame.select("*", *sides)


def type_of(frame: DataFrame, text: str) -> T.DataType:
    """The type that Spark gives an expression; :class:`JobFileError` if it refuses it."""
    try:
        return frame.select(F.expr(text)).schema[0].dataType
    except (AnalysisException, ParseException) as error:
        what = str(error).strip().splitlines()[0]
        raise JobFileError(f"Spark cannot evaluate '{text}': {what}") from None


def _check_types(compiled: CompiledJob, part: Input, frame: DataFrame) -> None:
    """:class:`JobFileError` where a time is no instant, or ``where`` is no condition."""
    for key, text in (("timestamp_by", part.timestamp_by), ("end_by", part.end_by)):
        kind = None if text is None else type_of(frame, text)
        if kind is not None and not isinstance(kind, _INSTANTS):
            raise JobFileError(
                f"'{text}' is {kind.simpleString().upper()}, not an instant",
                key=f"inputs.{part.name}.{key}",
                hint="convert it, for example timestamp_millis(x)",
            )
    where = compiled.job.window_query.where if compiled.job.steps is None and compiled.reads(part.name) else None
    kind = None if where is None else type_of(frame, where)
    if kind is not None and not isinstance(kind, (T.BooleanType, T.NullType)):
        raise JobFileError(
            f"'{where}' is {kind.simpleString().upper()}, not a condition",
            key="query.where",
            hint="compare it to something",
        )


def _plain(frame: DataFrame, text: str) -> SparkColumn:
    """An expression whose instants are BIGINT microseconds: they need no zone, and no nanoseconds, on their way."""
    kind = type_of(frame, text)
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(F.expr(text))
    if isinstance(kind, T.TimestampNTZType):
        return F.unix_micros(F.expr(text).cast("timestamp"))
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, (T.TimestampType, T.TimestampNTZType)):
        return F.transform(F.expr(text), lambda item: F.unix_micros(item.cast("timestamp")))
    return F.expr(text)


def _packer(key: str, name: str) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        trust_archives()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            for file in pc.unique(table[FILE]).to_pylist():
                rows = table.filter(pc.equal(table[FILE], file)).drop_columns([FILE])
                yield pa.RecordBatch.from_pydict(
                    {
                        "key": pa.array([key]),
                        "kind": pa.array([ROWS]),
                        "input": pa.array([name]),
                        "file": pa.array([file]),
                        "row_count": pa.array([len(rows)], pa.int32()),
                        "body": pa.array([pack(rows)], pa.binary()),
                    }
                )

    return packed
