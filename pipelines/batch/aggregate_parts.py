"""What aggregates are made of: intermediate columns, and results from them, the same bits in any order.

Doubles are summed exactly (:mod:`pipelines.batch.exact_sum`). Negative zero counts as zero wherever the choice between
the two would be chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch import exact_sum
from pipelines.core.errors import JobFileError
from pipelines.core.query import Aggregate, SortKey

_NUMERIC_ONLY = frozenset(
    {"sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop", "percentile_cont", "percentile_disc"}
)
_SPREAD = frozenset({"stddev_samp", "stddev_pop", "var_samp", "var_pop"})
_PERCENTILE = frozenset({"percentile_cont", "percentile_disc"})
ORDERED = frozenset({"first", "last", "collect", "top_one", "collect_top"})
_SMALL_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType)
_MAX_BIGINT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Argument:
    """One distinct argument expression: evaluated once into column ``name``, shared by every aggregate over it.

    ``place``: the column that rows are ordered by, where order matters.
    """

    name: str
    type: T.DataType
    place: str

    @property
    def is_fractional(self) -> bool:
        return isinstance(self.type, (T.FloatType, T.DoubleType))

    @property
    def is_decimal(self) -> bool:
        return isinstance(self.type, T.DecimalType)

    @property
    def is_integer(self) -> bool:
        return isinstance(self.type, (*_SMALL_INTEGERS, T.LongType))

    @property
    def is_orderable(self) -> bool:
        return not _has_map(self.type)

    @property
    def double(self) -> str:
        """The column with the argument as DOUBLE."""
        return f"{self.name}_double"


@dataclass(frozen=True, slots=True)
class Part:
    """What one intermediate column is: ``first`` computes it from rows; ``merge`` makes one of several such columns.

    ``merge`` None: they are arrays, or cannot be merged.
    """

    name: str
    first: Column
    merge: Literal["sum", "min", "max"] | None = None

    @property
    def again(self) -> Column | None:
        """The aggregate that merges."""
        return None if self.merge is None else {"sum": F.sum, "min": F.min, "max": F.max}[self.merge](self.name)


def sort_key(value: Column, kind: T.DataType, key: SortKey) -> Column:
    """What sorts ascending, null first, as ``key`` says: null is the lowest value (Q56)."""
    if not key.descending:
        return value
    match kind:
        case T.BooleanType():
            flipped = ~value
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            flipped = F.bitwise_not(value)
        case T.TimestampType():
            flipped = F.bitwise_not(F.unix_micros(value))
        case T.FloatType() | T.DoubleType():
            flipped = F.struct(~F.isnan(value), -value)
        case T.DecimalType():
            flipped = -value
        case T.StringType():
            # the hexadecimal digits reversed; a longer text comes before what it begins with
            flipped = F.concat(F.translate(F.hex(value), "0123456789ABCDEF", "FEDCBA9876543210"), F.lit("G"))
        case _:
            raise JobFileError(
                f"'{key.expression}' is {kind.simpleString()}, which nothing can be sorted by descending"
            )
    return F.struct(value.isNull(), flipped)


def check(one: Aggregate, argument: Argument | None) -> None:
    """Raises :class:`JobFileError` where an aggregate of numbers is given something else."""
    if one.function in _NUMERIC_ONLY and argument and not isinstance(argument.type, T.NumericType):
        raise JobFileError(
            f"'{one.name}': {one.function} takes numbers, and '{one.argument}' is {argument.type.simpleString()}",
            hint="cast it to a number if it holds one",
        )


def sums_doubles(one: Aggregate, argument: Argument) -> bool:
    """Whether it asks for the exact sum of the argument as DOUBLE."""
    return one.function in _SPREAD or (one.function in ("sum", "avg") and argument.is_fractional)


def collects_doubles(one: Aggregate) -> bool:
    """Whether it asks for all values of the argument as DOUBLE."""
    return one.function in _SPREAD or one.function in _PERCENTILE


def parts_of(one: Aggregate, argument: Argument | None) -> list[Part]:
    """The intermediate columns that ``one`` needs in addition to the exact sums."""
    if argument is None:
        return [Part("__count", F.count(F.lit(1)), "sum")]
    name, value = argument.name, F.col(argument.name)
    count = Part(f"{name}_count", F.count(value), "sum")
    match one.function:
        case "count" if one.distinct:
            return [Part(f"{name}_distinct", F.count_distinct(_plain_zero(argument)))]
        case "count":
            return [count]
        case "sum" | "avg" if argument.is_decimal:
            native = F.sum(value) if one.function == "sum" else F.avg(value)
            return [Part(f"{name}_{one.function}", native)]
        case "sum" | "avg" if argument.is_integer:
            return [count, *_integer_sum_parts(argument)]
        case "sum" | "avg":
            return [count]
        case "min":
            return [Part(f"{name}_min", F.min(_plain_zero(argument)), "min")]
        case "max":
            return [Part(f"{name}_max", F.max(_plain_zero(argument)), "max")]
        case "first" | "last" | "top_one":
            return [Part(f"{name}_{one.function}{argument.place}", _outermost(one.function, argument))]
        case "collect" | "collect_top":
            placed = F.struct(F.col(argument.place).alias("place"), value.alias("value"))
            taken = F.when(
                value.isNotNull() if one.function == "collect" else F.col(argument.place).isNotNull(), placed
            )
            return [Part(f"{name}_{one.function}{argument.place}", F.collect_list(taken))]
        case _:
            return [count, Part(f"{name}_doubles", F.collect_list(_plain_zero_double(argument)))]


def _integer_sum_parts(argument: Argument) -> list[Part]:
    """BIGINT is summed in two halves that cannot overflow; narrower integers cannot overflow as they are."""
    value = F.col(argument.name)
    high, low = f"{argument.name}_high", f"{argument.name}_low"
    if isinstance(argument.type, _SMALL_INTEGERS):
        return [Part(low, F.sum(value), "sum")]
    return [
        Part(high, F.sum(F.shiftright(value, 32)), "sum"),
        Part(low, F.sum(value.bitwiseAND(F.lit(2**32 - 1).cast("bigint"))), "sum"),
    ]


def _plain_zero(argument: Argument) -> Column:
    value = F.col(argument.name)
    if not argument.is_fractional:
        return value
    return F.when(value == 0, F.lit(0.0).cast(argument.type)).otherwise(value)


def _plain_zero_double(argument: Argument) -> Column:
    value = F.col(argument.double)
    return F.when(value == 0, F.lit(0.0)).otherwise(value)


def _has_map(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, T.StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, T.MapType)


def _outermost(function: str, argument: Argument) -> Column:
    # rows of a join may share one place: then the value decides, so that it is never chance
    place = F.struct(argument.place, *([argument.name] if argument.is_orderable else []))
    pick = F.max_by if function == "last" else F.min_by
    return pick(F.col(argument.name), place)


def result_of(one: Aggregate, argument: Argument | None) -> Column:
    """The aggregate's value from the intermediate columns and exact totals."""
    if argument is None:
        return F.col("__count")
    name = argument.name
    count = F.col(f"{name}_count")
    match one.function:
        case "count":
            return F.col(f"{name}_distinct") if one.distinct else count
        case "sum" | "avg" if argument.is_integer:
            return _integer_result(one, argument)
        case "sum" if argument.is_fractional:
            return F.col(exact_sum.total_column(argument.double))
        case "avg" if argument.is_fractional:
            return F.col(exact_sum.total_column(argument.double)) / count
        case "first" | "last" | "top_one":
            return F.col(f"{name}_{one.function}{argument.place}")
        case "collect":
            return F.transform(_sorted(one, argument), lambda item: item["value"])
        case "collect_top":
            best = F.slice(_sorted(one, argument), 1, one.limit or 0)
            return F.transform(best, lambda item, at: F.struct((at + 1).cast("bigint").alias("rank"), item["value"]))
        case "percentile_cont" | "percentile_disc":
            ascending = not any(key.descending for key in one.order_by)
            values = F.sort_array(f"{name}_doubles", ascending)
            percentile = _percentile_cont if one.function == "percentile_cont" else _percentile_disc
            return percentile(values, one.parameter or 0.0)
        case function if function in _SPREAD:
            mean = F.col(exact_sum.total_column(argument.double)) / count
            return _spread(function, F.col(f"{name}_doubles"), mean, count)
        case function:
            return F.col(f"{name}_{function}")


def _sorted(one: Aggregate, argument: Argument) -> Column:
    items = F.col(f"{argument.name}_{one.function}{argument.place}")
    if argument.is_orderable:
        return F.sort_array(items)

    def compare(left: Column, right: Column) -> Column:
        return F.when(left["place"] < right["place"], -1).when(left["place"] > right["place"], 1).otherwise(0)

    return F.array_sort(items, compare)


def _integer_result(one: Aggregate, argument: Argument) -> Column:
    low = F.col(f"{argument.name}_low")
    if isinstance(argument.type, _SMALL_INTEGERS):
        exact = low
    else:
        high = F.col(f"{argument.name}_high").cast("decimal(20,0)")
        exact = high * F.lit(2**32).cast("decimal(10,0)") + low.cast("decimal(20,0)")
    if one.function == "avg":
        return exact.cast("double") / F.col(f"{argument.name}_count")
    sentence = (
        f"aggregate '{one.name}': the sum of '{one.argument}' does not fit a BIGINT;"
        " sum a DECIMAL or a DOUBLE instead, like sum(CAST(x AS DECIMAL(38, 0)))"
    )
    fits = exact.isNull() | exact.between(F.lit(-_MAX_BIGINT - 1), F.lit(_MAX_BIGINT))
    return F.when(fits, exact.cast("bigint")).otherwise(F.raise_error(F.lit(sentence)).cast("bigint"))


def _percentile_cont(values: Column, fraction: float) -> Column:
    """Between the neighbours of position ``(n - 1) * fraction`` in the sorted values; null without values.

    Between equal neighbours lies their value: the weighted sum could miss it by a last bit.
    """
    position = (F.size(values) - 1).cast("double") * F.lit(fraction)
    low, high = F.floor(position), F.ceil(position)
    below, above = F.get(values, low.cast("int")), F.get(values, high.cast("int"))
    between = (high.cast("double") - position) * below + (position - low.cast("double")) * above
    return F.when(F.size(values) == 0, F.lit(None).cast("double")).when(below == above, below).otherwise(between)


def _percentile_disc(values: Column, fraction: float) -> Column:
    """The smallest value whose cumulative share ``k / n`` is at least ``fraction``; null without values."""
    count = F.size(values)
    # n * fraction may be rounded up: then the value before is the answer already
    near = F.ceil(count.cast("double") * F.lit(fraction)).cast("int")
    enough = (near - 1).cast("double") / count.cast("double") >= F.lit(fraction)
    place = F.greatest(F.when(enough, near - 1).otherwise(near), F.lit(1))
    return F.when(count == 0, F.lit(None).cast("double")).otherwise(F.get(values, place - 1))


def _spread(function: str, values: Column, mean: Column, count: Column) -> Column:
    """Variance or standard deviation: exact sum of ``(x - mean) * (x - mean)`` over n - 1 or n, in two passes."""
    squares = exact_sum.let(
        mean, lambda mean: exact_sum.array_total(F.transform(values, lambda x: (x - mean) * (x - mean)))
    )
    divisor = count - 1 if function.endswith("samp") else count
    variance = F.when(divisor > 0, squares / divisor)
    return F.sqrt(variance) if function.startswith("stddev") else variance
