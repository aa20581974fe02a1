"""Row-local Spark SQL expressions over plain Python rows: the evaluator that the reference engine may share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from pipelines.batch.spark.failures import named_failures
from pipelines.batch.spark.local_rows import local_frame, local_rows
from pipelines.core.errors import JobFileError
from pipelines.core.model import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = Mapping[str, object]
_ANSI = "spark.sql.ansi.enabled"


class SparkExpressions:
    """Calls like a function: ``(columns, rows, expressions)`` -> for each row the values of the expressions.

    Instants go in and come out as ``int`` microseconds. One Spark job a call; the session is started by the first.
    A column ``a.plate`` (a joined pair) is the field ``plate`` of a struct ``a``. ``ansi``: by ANSI rules, under which
    a value that cannot be computed fails the call (Q37). Raises :class:`JobFileError` for an expression that Spark
    refuses, :class:`~pipelines.core.errors.DataRefused` for a value that it cannot compute.
    """

    def __init__(self, session: SparkSession | None = None, *, ansi: bool = False) -> None:
        self._session = session
        self._ansi = ansi

    def __call__(
        self, columns: tuple[Column, ...], rows: Sequence[Row], expressions: Sequence[str]
    ) -> list[tuple[object, ...]]:
        if not rows or not expressions:
            return [() for _ in rows]
        with self._rules():
            frame = self._frame(columns, rows)
            values = [_evaluated(frame, text).alias(f"__value_{index}") for index, text in enumerate(expressions)]
            found = frame.select("__row", *values)
            # collecting a map loses the order of its entries (Q44)
            maps = {field.name for field in found.schema.fields if isinstance(field.dataType, MapType)}
            collected = [F.map_entries(name).alias(name) if name in maps else name for name in found.columns]
            with named_failures():
                evaluated = local_rows(found.select(*collected))
        result: list[tuple[object, ...]] = [()] * len(rows)
        for row in evaluated:
            number, *given = (_map_of(value) if name in maps else value for name, value in row.items())
            assert isinstance(number, int)
            result[number] = tuple(given)
        return result

    @contextmanager
    def _rules(self) -> Iterator[None]:
        if not self._ansi:
            yield
            return
        conf = self._spark().conf
        before = conf.get(_ANSI, "false")
        conf.set(_ANSI, "true")
        try:
            yield
        finally:
            conf.set(_ANSI, str(before))

    def _frame(self, columns: tuple[Column, ...], rows: Sequence[Row]) -> DataFrame:
        names = [("__row", "bigint"), *((f"__column_{index}", column.type) for index, column in enumerate(columns))]
        data = [(number, *(row[column.name] for column in columns)) for number, row in enumerate(rows)]
        frame = local_frame(self._spark(), names, data)
        return frame.select("__row", *_named(columns))

    def _spark(self) -> SparkSession:
        if self._session is None:
            from pipelines.runtime.session import session

            self._session = session()
        return self._session


def _map_of(entries: Any) -> object:
    return None if entries is None else {entry["key"]: entry["value"] for entry in entries}


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
        frame.select(F.expr(text)).schema  # noqa: B018  # asks Spark to analyse it
    except (AnalysisException, ParseException) as error:
        what = str(error).strip().splitlines()[0]
        raise JobFileError(f"Spark cannot evaluate '{text}': {what}") from None
    return F.expr(text)
