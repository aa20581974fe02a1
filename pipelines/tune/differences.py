"""How far the results under settings are from the complete truth, in Spark: one row of figures a setting.

Rows are identified by their window and group keys, and compared as a multiset where several share these; rows that
nothing identifies are compared as a multiset. NaN equals NaN, and zero equals negative zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch import exact_sum
from pipelines.batch.stream_analytics.several_policies import SETTING
from pipelines.core.expressions import quoted

_MINE, _TRUTH = "__mine", "__truth"


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns that identify a row (None: nothing does) and the others. ``additive`` ones are zero where there is no
    row. ``is_unique``: two rows of one setting never agree in ``keys``, as sessions of different chains may."""

    keys: tuple[str, ...] | None
    values: tuple[str, ...]
    additive: frozenset[str] = frozenset()
    is_unique: bool = False


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """One column: the windows in which it differs, and the sum and the greatest of the absolute differences.

    ``sum`` and ``max`` are of finite numbers that both sides have, and None of a column that has no numbers. Where one
    side lacks the window, its counts and sums are zero.
    """

    windows: int
    sum: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Differences:
    """``windows`` of either side; of those that ``differ`` some are ``missing`` under the setting, or ``extra``."""

    windows: int = 0
    differ: int = 0
    missing: int = 0
    extra: int = 0
    values: tuple[tuple[str, ValueDifference], ...] = ()


def differences(rows: DataFrame, count: int, shape: Shape) -> list[Differences]:
    """How far each setting's rows are from the truth's. ``rows`` have the columns of ``shape`` and SETTING: from 1 to
    ``count``, and 0 for the truth."""
    compared = _compared(rows, count, shape)
    names = list(shape.values) if shape.keys is not None else []
    numbers = [name for name in names if isinstance(rows.schema[name].dataType, T.NumericType)]
    amounts = {f"__amount{place}": _amount(name, shape) for place, name in enumerate(numbers)}
    changed = {f"__changed{place}": _is_changed(name) for place, name in enumerate(names)}
    amounted = exact_sum.split(compared.withColumns({**amounts, **changed}), list(amounts))
    found = amounted.groupBy(SETTING).agg(
        *(F.sum(column).alias(column) for column in ("windows", "differ", "missing", "extra")),
        *(F.sum(F.col(column).cast("bigint")).alias(column) for column in changed),
        *(F.max(column).alias(f"{column}_max") for column in amounts),
        *(part.alias(name) for column in amounts for name, part in exact_sum.tiered_sums(column).items()),
    )
    totals = exact_sum.with_totals(found, list(amounts)).collect()
    by_setting = {row[SETTING]: _found(row, names, numbers) for row in totals}
    return [by_setting.get(number, Differences()) for number in range(1, count + 1)]


def _found(row: Row, names: Sequence[str], numbers: Sequence[str]) -> Differences:
    values = []
    for place, name in enumerate(names):
        sums: tuple[float | None, float | None] = (None, None)
        if name in numbers:
            amount = f"__amount{numbers.index(name)}"
            sums = row[exact_sum.total_column(amount)], row[f"{amount}_max"]
        values.append((name, ValueDifference(row[f"__changed{place}"], *sums)))
    return Differences(row["windows"], row["differ"], row["missing"], row["extra"], tuple(values))


def together(parts: Sequence[tuple[str, Differences]]) -> Differences:
    """Those of several outputs, by name: the columns of each are named ``output.column``."""
    if len(parts) == 1:
        return parts[0][1]
    each = [found for _, found in parts]
    values = [(f"{output}.{name}", one) for output, found in parts for name, one in found.values]
    return Differences(
        sum(one.windows for one in each),
        sum(one.differ for one in each),
        sum(one.missing for one in each),
        sum(one.extra for one in each),
        tuple(values),
    )


def _compared(rows: DataFrame, count: int, shape: Shape) -> DataFrame:
    """One row a setting and key: ``windows``, ``differ``, ``missing``, ``extra``, and both sides' rows."""
    keys = shape.values if shape.keys is None else shape.keys
    values = () if shape.keys is None else shape.values
    is_true, number = F.col(SETTING) == 0, F.col(SETTING).cast("int")
    settings = F.when(is_true, F.sequence(F.lit(1), F.lit(count))).otherwise(F.array(number))
    sides = {_MINE: ~is_true, _TRUTH: is_true}
    comparable = {name: _comparable(rows, name) for name in (*keys, *values)}
    row = F.struct(*(comparable[name].alias(name) for name in values), F.lit(1).alias("__row"))
    both = rows.select(
        F.explode(settings).alias(SETTING),
        *(comparable[name].alias(name) for name in keys),
        *(F.when(is_this, row).alias(side) for side, is_this in sides.items()),
    )
    of = _only_row if shape.is_unique else _all_rows
    by_side = [of(side, values) for side in sides]
    grouped = both.groupBy(SETTING, *map(quoted, keys)).agg(*(column for columns, _ in by_side for column in columns))
    grouped = grouped.withColumns({side: row for side, (_, row) in zip(sides, by_side, strict=True)})
    ours, theirs = F.size(_MINE), F.size(_TRUTH)
    if shape.keys is None:
        missing, extra = F.greatest(theirs - ours, F.lit(0)), F.greatest(ours - theirs, F.lit(0))
        counts = {"windows": F.greatest(ours, theirs), "differ": missing + extra, "missing": missing, "extra": extra}
    else:
        differ = ~F.col(_MINE).eqNullSafe(F.col(_TRUTH))
        counts = {"windows": F.lit(1), "differ": differ, "missing": ours == 0, "extra": theirs == 0}
    return grouped.withColumns({name: count.cast("bigint") for name, count in counts.items()})


def _all_rows(side: str, _values: Sequence[str]) -> tuple[list[Column], Column]:
    """Aggregates, and the array of a side's rows from them."""
    return [F.collect_list(side).alias(side)], F.sort_array(side)


def _only_row(side: str, values: Sequence[str]) -> tuple[list[Column], Column]:
    """As :func:`_all_rows` where there is one row at most: aggregates of plain numbers need no sort."""
    columns = {name: f"{side}_{place}" for place, name in enumerate((*values, "__row"))}
    row = F.struct(*(F.col(column).alias(name) for name, column in columns.items()))
    found = F.filter(F.array(row), lambda one: one["__row"].isNotNull())
    return [F.max(F.col(side)[name]).alias(column) for name, column in columns.items()], found


def _comparable(frame: DataFrame, name: str) -> Column:
    """The column, as text where it contains a map, which Spark does not compare."""
    column, kind = F.col(quoted(name)), frame.schema[name].dataType
    if isinstance(kind, T.MapType):
        return F.to_json(F.array_sort(F.map_entries(column)))
    return F.to_json(column) if "map<" in kind.simpleString() else column


def _is_changed(name: str) -> Column:
    return ~F.col(_MINE)[name].eqNullSafe(F.col(_TRUTH)[name])


def _amount(name: str, shape: Shape) -> Column:
    """The absolute difference, as DOUBLE; null where there is no finite one."""

    def value(side: str) -> Column:
        found = F.get(side, 0)[name]
        return F.when(F.size(side) == 0, F.lit(0)).otherwise(found) if name in shape.additive else found

    amount = F.abs((value(_MINE) - value(_TRUTH)).cast("double"))
    single = F.greatest(F.size(_MINE), F.size(_TRUTH)) == 1
    return F.when(single & (amount < float("inf")), amount)
