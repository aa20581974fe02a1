"""From a table of arrivals to the columns that the ordering policies work on."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DateType, NullType, StringType, TimestampNTZType, TimestampType

from pipelines.batch.columns import (
    ARRIVAL_DAY,
    ARRIVAL_TIME,
    ARRIVAL_US,
    EVENT_US,
    INPUT,
    INPUT_RANK,
    IS_PUNCTUATION,
    KEY_VALID,
    PARTITION,
    PUNCTUATION_US,
    READING,
    SEQUENCE,
)
from pipelines.core.errors import JobFileError
from pipelines.core.expressions import quoted
from pipelines.core.model import Input
from pipelines.job.expressions import instant_sql

_INSTANT_TYPES = (TimestampType, TimestampNTZType, DateType, StringType, NullType)


def normalise(arrivals: DataFrame, source: Input, rank: int) -> DataFrame:
    """The payload columns untouched, and INPUT .. KEY_VALID of :mod:`pipelines.batch.columns`.

    ``arrivals`` has the columns of table ``arrivals/<input>``, and may have those of READING, which pass; ``rank`` is
    the input's place in the job and breaks ties of arrival order between inputs. Events and punctuations both pass.
    EVENT_US is null where ``timestamp_by`` is null or cannot be converted (G7), and the arrival time where the input
    has no ``timestamp_by``; it is null for a punctuation. KEY_VALID is whether every column of ``over`` has a value
    (S1). Raises :class:`JobFileError` if ``timestamp_by`` is neither an instant nor text.
    """
    arrival_us = F.unix_micros("arrival_time")
    # ingest lets nothing but punctuations have one; it is read and tested in a fraction of the time that a text takes
    is_punctuation = F.col("punctuation_time").isNotNull()
    return arrivals.select(
        *(F.col(quoted(column.name)) for column in source.columns),
        F.lit(source.name).alias(INPUT),
        F.lit(rank).alias(INPUT_RANK),
        F.col("input_partition").alias(PARTITION),
        F.col("sequence").alias(SEQUENCE),
        arrival_us.alias(ARRIVAL_US),
        F.col("arrival_time").alias(ARRIVAL_TIME),
        *([F.col("arrival_date").alias(ARRIVAL_DAY)] if "arrival_date" in arrivals.columns else []),
        *(F.col(name) for name in arrivals.columns if name in READING),
        is_punctuation.alias(IS_PUNCTUATION),
        F.unix_micros("punctuation_time").alias(PUNCTUATION_US),
        F.when(~is_punctuation, _event_us(arrivals, source, arrival_us)).alias(EVENT_US),
        _all_present(source.over).alias(KEY_VALID),
    )


def _event_us(arrivals: DataFrame, source: Input, arrival_us: Column) -> Column:
    if source.timestamp_by is None:
        return arrival_us
    return instant_us(arrivals, source.timestamp_by, f"inputs.{source.name}.timestamp_by")


def instant_us(frame: DataFrame, expression: str, key: str) -> Column:
    """BIGINT microseconds of an SQL expression that yields an instant or text; null where it cannot be converted.

    ``key`` is the expression's place in the job file, which the :class:`JobFileError` of any other type names.
    """
    kind = expression_type(frame, expression, key)
    if not isinstance(kind, _INSTANT_TYPES):
        raise JobFileError(
            f"'{expression}' is {kind.simpleString().upper()}, not an instant",
            key=key,
            hint="convert it, for example timestamp_millis(x)",
        )
    return F.unix_micros(F.expr(instant_sql(expression)))


def condition(frame: DataFrame, expression: str, key: str) -> Column:
    """A boolean SQL expression, in which null counts as false (G2); :class:`JobFileError` for another type."""
    kind = expression_type(frame, expression, key)
    if not isinstance(kind, (BooleanType, NullType)):
        raise JobFileError(
            f"'{expression}' is {kind.simpleString().upper()}, not a condition", key=key, hint="compare it to something"
        )
    return F.coalesce(F.expr(expression).cast("boolean"), F.lit(False))


def expression_type(frame: DataFrame, expression: str, key: str) -> DataType:
    """The type that Spark gives to an SQL expression over ``frame``; :class:`JobFileError` if Spark refuses it."""
    try:
        return frame.select(F.expr(expression)).schema[0].dataType
    except (AnalysisException, ParseException) as error:
        what = str(error).strip().splitlines()[0]
        raise JobFileError(f"Spark cannot evaluate '{expression}': {what}", key=key) from None


def _all_present(columns: Sequence[str]) -> Column:
    present = F.lit(True)
    for name in columns:
        present = present & F.col(quoted(name)).isNotNull()
    return present
