"""All aggregates of a query, the same bits whatever the file layout, the partitioning or the number of cores.

Doubles are summed exactly (:mod:`pipelines.batch.exact_sum`), and what depends on order is taken in the order (system
timestamp, arrival order) (G6). Negative zero counts as zero wherever the choice between the two would be chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch import exact_sum
from pipelines.batch.columns import ARRIVAL_ORDER, SYSTEM_US, WINDOW, WINDOW_END_US, WINDOW_ID, WINDOW_START_US
from pipelines.core.errors import JobFileError
from pipelines.core.expressions import quoted_path
from pipelines.core.model import Aggregate, Grid, Query, output_name

_NUMERIC_ONLY = frozenset(
    {"sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop", "percentile_cont", "percentile_disc"}
)
_SPREAD = frozenset({"stddev_samp", "stddev_pop", "var_samp", "var_pop"})
_PERCENTILE = frozenset({"percentile_cont", "percentile_disc"})
_ORDERED = frozenset({"first", "last", "collect"})
_SMALL_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType)
_MAX_BIGINT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Argument:
    """One distinct argument expression: evaluated once into column ``name``, shared by every aggregate over it."""

    name: str
    type: T.DataType

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
class _Step:
    """What one intermediate column is: ``first`` computes it from rows, ``again`` from several such columns."""

    name: str
    first: Column
    again: Column | None


def aggregate(members: DataFrame, query: Query) -> DataFrame:
    """One row per window and group that has rows (G4): the WINDOW columns, group keys, aggregates by name.

    ``members`` holds one row per (event, window): the WINDOW columns, SYSTEM_US, the ARRIVAL_ORDER columns and the
    payload (in a join one struct a side, so that ``a.plate`` means in SQL what it means in the job file). Groups
    without a row do not appear. Raises :class:`JobFileError` where an aggregate of numbers is given something else.
    The resulting query fails where an integer sum passes BIGINT.
    """
    rows, keys, arguments = _arranged(members, query)
    pairs = [(one, arguments.get(one.argument or "")) for one in query.aggregates]
    for one, argument in pairs:
        _check(one, argument)
    summed = sorted({argument.double for one, argument in pairs if argument and _sums_doubles(one, argument)})
    as_double = {argument.double: F.col(argument.name).cast("double") for argument in arguments.values()}
    wanted = {*summed, *(argument.double for one, argument in pairs if argument and _collects_doubles(one))}
    rows = exact_sum.split(rows.withColumns({name: as_double[name] for name in sorted(wanted)}), summed)

    steps = {step.name: step for one, argument in pairs for step in _steps(one, argument)}
    if summed and all(step.again is not None for step in steps.values()):
        rows, steps = _by_tier(rows, keys, steps, summed)
    columns = [step.first.alias(step.name) for step in steps.values()]
    columns += [column.alias(name) for one in summed for name, column in exact_sum.tiered_sums(one).items()]
    grouped = rows.groupBy(*keys).agg(*(columns or [F.count(F.lit(1)).alias("__rows")]))
    grouped = exact_sum.with_totals(grouped, summed)
    results = [_result(one, argument).alias(one.name) for one, argument in pairs]
    return grouped.select(
        *_window_columns(query), *map(F.col, map(quoted_path, map(output_name, query.group_by))), *results
    )


def _window_keys(query: Query) -> tuple[str, ...]:
    """What tells the query's windows apart: of one grid their ends alone, and narrower keys meet faster."""
    return (WINDOW_END_US,) if isinstance(query.window, Grid) else WINDOW


def _window_columns(query: Query) -> list[Column]:
    if not isinstance(query.window, Grid):
        return [F.col(name) for name in WINDOW]
    start = F.col(WINDOW_END_US) - query.window.size_us
    return [start.alias(WINDOW_START_US), F.col(WINDOW_END_US), F.lit(None).cast("string").alias(WINDOW_ID)]


def _arranged(members: DataFrame, query: Query) -> tuple[DataFrame, list[str], dict[str, _Argument]]:
    """Only what is needed: keys under their output names, order columns if asked for, each argument once."""
    texts = list(dict.fromkeys(one.argument for one in query.aggregates if one.argument is not None))
    names = {text: f"__argument{index}" for index, text in enumerate(texts)}
    keys = [F.col(quoted_path(column)).alias(output_name(column)) for column in query.group_by]
    order = [SYSTEM_US, *ARRIVAL_ORDER] if any(one.function in _ORDERED for one in query.aggregates) else []
    rows = members.select(
        *_window_keys(query), *keys, *order, *(F.expr(text).alias(name) for text, name in names.items())
    )
    arguments = {text: _Argument(name, rows.schema[name].dataType) for text, name in names.items()}
    return rows, [*_window_keys(query), *map(output_name, query.group_by)], arguments


def _check(one: Aggregate, argument: _Argument | None) -> None:
    if one.function in _NUMERIC_ONLY and argument and not isinstance(argument.type, T.NumericType):
        raise JobFileError(
            f"'{one.name}': {one.function} takes numbers, and '{one.argument}' is {argument.type.simpleString()}",
            hint="cast it to a number if it holds one",
        )


def _sums_doubles(one: Aggregate, argument: _Argument) -> bool:
    return one.function in _SPREAD or (one.function in ("sum", "avg") and argument.is_fractional)


def _collects_doubles(one: Aggregate) -> bool:
    return one.function in _SPREAD or one.function in _PERCENTILE


def _by_tier(
    rows: DataFrame, keys: Sequence[str], steps: dict[str, _Step], summed: Sequence[str]
) -> tuple[DataFrame, dict[str, _Step]]:
    """Aggregate by tier first: fixed-width sums in a hash map, so that only the few results meet as arrays."""
    tiers = [exact_sum.tier_column(name) for name in summed]
    columns = [step.first.alias(step.name) for step in steps.values()]
    columns += [column.alias(limb) for name in summed for limb, column in exact_sum.limb_sums(name).items()]
    again = {name: replace(step, first=step.again) for name, step in steps.items() if step.again is not None}
    return rows.groupBy(*keys, *tiers).agg(*columns), again


def _steps(one: Aggregate, argument: _Argument | None) -> list[_Step]:
    """The intermediate columns that ``one`` needs beside the exact sums."""
    if argument is None:
        return [_Step("__count", F.count(F.lit(1)), F.sum("__count"))]
    name, value = argument.name, F.col(argument.name)
    count = _Step(f"{name}_count", F.count(value), F.sum(f"{name}_count"))
    match one.function:
        case "count" if one.distinct:
            return [_Step(f"{name}_distinct", F.count_distinct(_plain_zero(argument)), None)]
        case "count":
            return [count]
        case "sum" | "avg" if argument.is_decimal:
            native = F.sum(value) if one.function == "sum" else F.avg(value)
            return [_Step(f"{name}_{one.function}", native, None)]
        case "sum" | "avg" if argument.is_integer:
            return [count, *_integer_sum_steps(argument)]
        case "sum" | "avg":
            return [count]
        case "min" | "max":
            again = F.min if one.function == "min" else F.max
            column = f"{name}_{one.function}"
            return [_Step(column, again(_plain_zero(argument)), again(column))]
        case "first" | "last":
            column = f"{name}_{one.function}"
            return [_Step(column, _outermost(one.function, argument), None)]
        case "collect":
            return [_Step(f"{name}_collect", F.collect_list(_placed(argument, F.col(name).isNotNull())), None)]
        case _:
            return [count, _Step(f"{name}_doubles", F.collect_list(_plain_zero_double(argument)), None)]


def _integer_sum_steps(argument: _Argument) -> list[_Step]:
    """BIGINT is summed in two halves that cannot overflow; narrower integers cannot overflow as they are."""
    value = F.col(argument.name)
    high, low = f"{argument.name}_high", f"{argument.name}_low"
    if isinstance(argument.type, _SMALL_INTEGERS):
        return [_Step(low, F.sum(value), F.sum(low))]
    return [
        _Step(high, F.sum(F.shiftright(value, 32)), F.sum(high)),
        _Step(low, F.sum(value.bitwiseAND(F.lit(2**32 - 1).cast("bigint"))), F.sum(low)),
    ]


def _plain_zero(argument: _Argument) -> Column:
    value = F.col(argument.name)
    if not argument.is_fractional:
        return value
    return F.when(value == 0, F.lit(0.0).cast(argument.type)).otherwise(value)


def _plain_zero_double(argument: _Argument) -> Column:
    value = F.col(argument.double)
    return F.when(value == 0, F.lit(0.0)).otherwise(value)


def _order() -> list[Column]:
    return [F.col(SYSTEM_US), *map(F.col, ARRIVAL_ORDER)]


def _has_map(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, T.StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, T.MapType)


def _outermost(function: str, argument: _Argument) -> Column:
    # rows of a join may share one place: then the value decides, so that it is never chance
    place = F.struct(*_order(), *([F.col(argument.name)] if argument.is_orderable else []))
    pick = F.min_by if function == "first" else F.max_by
    return pick(F.col(argument.name), place)


def _placed(argument: _Argument, wanted: Column) -> Column:
    return F.when(wanted, F.struct(F.struct(*_order()).alias("place"), F.col(argument.name).alias("value")))


def _result(one: Aggregate, argument: _Argument | None) -> Column:
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
        case "collect":
            return F.transform(_sorted(argument), lambda item: item["value"])
        case "percentile_cont":
            return _percentile_cont(F.sort_array(f"{name}_doubles"), one.parameter or 0.0)
        case "percentile_disc":
            return _percentile_disc(F.sort_array(f"{name}_doubles"), one.parameter or 0.0)
        case function if function in _SPREAD:
            mean = F.col(exact_sum.total_column(argument.double)) / count
            return _spread(function, F.col(f"{name}_doubles"), mean, count)
        case function:
            return F.col(f"{name}_{function}")


def _sorted(argument: _Argument) -> Column:
    items = F.col(f"{argument.name}_collect")
    if argument.is_orderable:
        return F.sort_array(items)

    def compare(left: Column, right: Column) -> Column:
        return F.when(left["place"] < right["place"], -1).when(left["place"] > right["place"], 1).otherwise(0)

    return F.array_sort(items, compare)


def _integer_result(one: Aggregate, argument: _Argument) -> Column:
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
