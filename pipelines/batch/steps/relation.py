"""A relation of a query as a DataFrame: its columns, when each row counts, and the order among rows of equal time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.batch.columns import SYSTEM_US, WINDOW_ID, WINDOW_START_US
from pipelines.batch.normalise import expression_type
from pipelines.core.expressions import quoted
from pipelines.core.steps import EVENT_COLUMNS, SYSTEM_TIMESTAMP, WINDOW_COLUMNS

ORDER = "__order"
"""A struct that sorts rows of equal time (Q6): ``place``, then ``positions``, an ARRAY<BIGINT> that row steps add to.

Of a row that stems from one event ``place`` is (arrival_us, input_rank, input_partition, sequence).
"""
EFFECTIVE_US = "__effective_us"
POSITION = "__position"

_ANSI = "spark.sql.ansi.enabled"


@dataclass(frozen=True)
class Relation:
    """``frame`` has ``columns`` by their names and hidden columns, whose names begin with two underscores.

    Hidden are SYSTEM_US and ORDER; of rows that stem from windows also WINDOW_START_US and WINDOW_ID, of rows that stem
    from events what the profile's windows ask for. Reference data has EFFECTIVE_US and POSITION instead. ``ansi``:
    expressions follow ANSI rules.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    origin: Literal["event", "window", "rows", "reference"]
    ansi: bool
    for_windows: tuple[str, ...] = ()

    @property
    def hidden(self) -> tuple[str, ...]:
        """The hidden columns."""
        match self.origin:
            case "reference":
                return EFFECTIVE_US, POSITION
            case "window":
                return SYSTEM_US, ORDER, WINDOW_START_US, WINDOW_ID
            case "event":
                return SYSTEM_US, ORDER, *self.for_windows
            case _:
                return SYSTEM_US, ORDER

    @property
    def visible(self) -> DataFrame:
        """``frame``, and what else an expression may name: the time, and what is known of where a row stems from."""
        taken = {name.lower() for name in self.columns}
        return self.frame.withColumns({name: value for name, value in self._known().items() if name not in taken})

    def computed(self, expressions: Mapping[str, str], *kept: str) -> DataFrame:
        """Columns ``kept`` of the frame and the values of SQL expressions over each row, by name.

        Raises :class:`JobFileError` for an expression that Spark refuses.
        """
        frame = self.visible
        values = [F.expr(text).alias(name) for name, text in expressions.items()]
        with analysed_by(frame, self.ansi, tuple(expressions.values())):
            return frame.select(*(F.col(quoted(name)) for name in kept), *values)

    def with_columns(self, frame: DataFrame, columns: Sequence[str]) -> Relation:
        """A relation of other columns in ``frame``, whose rows stem from where these do."""
        return replace(self, frame=frame, columns=tuple(columns))

    def struct(self) -> Column:
        """A row of :attr:`visible` as one side of a join shows it: the columns and, of a stream, the time."""
        names = list(self.columns)
        if self.origin != "reference" and SYSTEM_TIMESTAMP not in {name.lower() for name in names}:
            names.append(SYSTEM_TIMESTAMP)
        return F.struct(*(F.col(quoted(name)) for name in names))

    def _known(self) -> dict[str, Column]:
        if self.origin == "reference":
            return {}
        time = F.timestamp_micros(SYSTEM_US)
        known = {SYSTEM_TIMESTAMP: time}
        if self.origin == "event":
            place = F.col(ORDER)["place"]
            of_event = (F.timestamp_micros(place["arrival_us"]), place["input_partition"], place["sequence"])
            known |= zip(EVENT_COLUMNS, of_event, strict=True)
        if self.origin == "window":
            of_window = (F.timestamp_micros(WINDOW_START_US), time, F.col(WINDOW_ID))
            known |= zip(WINDOW_COLUMNS, of_window, strict=True)
        return known


def in_order(place: Column) -> Column:
    """ORDER of rows that nothing has added a position to."""
    return F.struct(place.alias("place"), F.array().cast("array<bigint>").alias("positions"))


def then_by(position: Column) -> Column:
    """ORDER with one more position, 0 where it is null."""
    order = F.col(ORDER)
    added = F.array(F.coalesce(position.cast("bigint"), F.lit(0).cast("bigint")))
    return F.struct(order["place"].alias("place"), F.concat(order["positions"], added).alias("positions"))


@contextmanager
def analysed_by(frame: DataFrame, ansi: bool, expressions: Sequence[str]) -> Iterator[None]:
    """A block in which Spark analyses ``expressions`` over ``frame``, by ANSI rules or without.

    Which rules an expression follows is settled when it is analysed, not when it runs. What Spark refuses is raised as
    :class:`JobFileError`.
    """
    with _rules(frame.sparkSession, ansi):
        try:
            yield
        except (AnalysisException, ParseException):
            for text in expressions:
                expression_type(frame, text, "query")
            raise


@contextmanager
def _rules(spark: SparkSession, ansi: bool) -> Iterator[None]:
    before = spark.conf.get(_ANSI)
    spark.conf.set(_ANSI, "true" if ansi else "false")
    try:
        yield
    finally:
        spark.conf.set(_ANSI, str(before))
