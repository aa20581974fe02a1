"""Row-local Spark SQL expressions over plain Python rows: the evaluator that the reference engine may share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, TimestampNTZType, TimestampType

from pipelines.core.errors import JobFileError
from pipelines.core.model import Column
from pipelines.core.time import to_datetime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = Mapping[str, object]


class SparkExpressions:
    """Calls like a function: ``(columns, rows, expressions)`` -> for each row the values of the expressions.

    Instants go in and come out as ``int`` microseconds. One Spark job a call; the session is started by the first.
    A column ``a.plate`` (a joined pair) is the field ``plate`` of a struct ``a``.
    Raises :class:`JobFileError` for an expression that Spark refuses.
    """

    def __init__(self, session: SparkSession | None = None) -> None:
        self._session = session

    def __call__(
        self, columns: tuple[Column, ...], rows: Sequence[Row], expressions: Sequence[str]
    ) -> list[tuple[object, ...]]:
        if not rows or not expressions:
            return [() for _ in rows]
        frame = self._frame(columns, rows)
        values = [_evaluated(frame, text).alias(f"__value_{index}") for index, text in enumerate(expressions)]
        result: list[tuple[object, ...]] = [()] * len(rows)
        for row in frame.select("__row", *values).collect():
            result[row[0]] = tuple(plain_value(value) for value in row[1:])
        return result

    def _frame(self, columns: tuple[Column, ...], rows: Sequence[Row]) -> DataFrame:
        types = [f"__column_{index} {column.type}" for index, column in enumerate(columns)]
        converters = [to_spark(column.type) for column in columns]
        data = [
            (number, *(convert(row[column.name]) for convert, column in zip(converters, columns, strict=True)))
            for number, row in enumerate(rows)
        ]
        frame = self._spark().createDataFrame(data, ", ".join(["__row BIGINT", *types]))
        return frame.select("__row", *_named(columns))

    def _spark(self) -> SparkSession:
        if self._session is None:
            from pipelines.runtime.session import session

            self._session = session()
        return self._session


def _named(columns: Sequence[Column]) -> list[SparkColumn]:
    """The columns under their own names; those with a dot gathered in one struct for each word before it."""
    plain: list[SparkColumn] = []
    structs: dict[str, list[SparkColumn]] = {}
    for index, column in enumerate(columns):
        owner, dot, name = column.name.partition(".")
        if dot:
            structs.setdefault(owner, []).append(F.col(f"__column_{index}").alias(name))
        else:
            plain.append(F.col(f"__column_{index}").alias(column.name))
    return [*plain, *(F.struct(*fields).alias(owner) for owner, fields in structs.items())]


def _evaluated(frame: DataFrame, text: str) -> SparkColumn:
    try:
        kind = frame.select(F.expr(text)).schema[0].dataType
    except (AnalysisException, ParseException) as error:
        what = str(error).strip().splitlines()[0]
        raise JobFileError(f"Spark cannot evaluate '{text}': {what}") from None
    return micros(F.expr(text), kind)


def micros(column: SparkColumn, kind: DataType) -> SparkColumn:
    """``column`` with instants, also those in arrays, as BIGINT microseconds, so that no local zone can touch them."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, TimestampNTZType):
        return F.unix_micros(column.cast("timestamp"))
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, (TimestampType, TimestampNTZType)):
        return F.transform(column, lambda item: F.unix_micros(item.cast("timestamp")))
    return column


def to_spark(type_name: str) -> Callable[[Any], Any]:
    """Turns a payload value of that Spark type (lower case) into what ``createDataFrame`` takes."""
    if type_name.startswith("timestamp"):
        return lambda value: None if value is None else to_datetime(value)
    if type_name.startswith("array<") and "timestamp" in type_name:
        inner = to_spark(type_name[len("array<") : -1])
        return lambda value: None if value is None else [inner(item) for item in value]
    return lambda value: value


def plain_value(value: object) -> object:
    """A collected value as a payload holds it: rows as dicts, bytes as ``bytes``."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    return value
