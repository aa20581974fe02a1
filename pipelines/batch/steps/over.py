"""Aggregates over the rows in reach of each row (Q73), made of the same parts as those of windows.

A sum or count is what there was up to the row, less what had left its reach: a row costs the same however many are in
reach. Least and greatest values, and what needs all values, pass over the rows in reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch import exact_sum
from pipelines.batch.aggregate_parts import (
    ORDERED,
    Argument,
    Part,
    check,
    collects_doubles,
    parts_of,
    result_of,
    sort_key,
    sums_doubles,
)
from pipelines.batch.columns import SYSTEM_US
from pipelines.batch.steps.relation import ORDER
from pipelines.core.model import Aggregate
from pipelines.core.steps import Analytic


@dataclass(frozen=True)
class _Reach:
    """The rows in reach of a row, among those with equal values in ``together``: up to the row in the total order, and
    at a time greater than its own less ``within_us``."""

    together: Sequence[str]
    within_us: int

    def of(self, part: Part) -> Column:
        """The part over the rows in reach."""
        if part.merge == "sum":
            return self.sum(part.first)
        of_instant = Window.partitionBy(*self.together, SYSTEM_US).orderBy(ORDER)
        peers = part.first.over(of_instant.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        if self.within_us == 1:
            return peers
        before = part.first.over(self._by_time.rangeBetween(1 - self.within_us, -1))
        merge = {"min": F.least, "max": F.greatest, None: F.concat}[part.merge]
        return merge(before, peers)

    def sum(self, aggregate: Column) -> Column:
        """A sum or count; 0 where there is nothing."""
        left = aggregate.over(self._by_time.rangeBetween(Window.unboundedPreceding, -self.within_us))
        return F.coalesce(self.so_far(aggregate), F.lit(0)) - F.coalesce(left, F.lit(0))

    def so_far(self, aggregate: Column) -> Column:
        """An aggregate over all rows up to the row."""
        ordered = Window.partitionBy(*self.together).orderBy(SYSTEM_US, ORDER)
        return aggregate.over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow))

    @property
    def _by_time(self) -> WindowSpec:
        return Window.partitionBy(*self.together).orderBy(SYSTEM_US)


def with_aggregates(frame: DataFrame, named: Mapping[str, Analytic], together: Sequence[str]) -> DataFrame:
    """``frame`` with the value of each of ``named``, over rows with equal values in ``together``.

    The columns ``<name>_argument``, ``<name>_when``, ``<name>_sort0``, .. hold the values of its expressions.
    """
    if not named:
        return frame
    rows, pairs = frame, {}
    for name, one in named.items():
        rows, pairs[name] = _with_argument(rows, name, one)
    for aggregate, argument in pairs.values():
        check(aggregate, argument)
        if sums_doubles(aggregate, argument) or collects_doubles(aggregate):
            rows = rows.withColumn(argument.double, F.col(argument.name).cast("double"))
    summed = {argument.double: name for name, (one, argument) in pairs.items() if sums_doubles(one, argument)}
    rows = exact_sum.split(rows, list(summed))
    columns: dict[str, Column] = {}
    for name, (aggregate, argument) in pairs.items():
        reach = _Reach(together, named[name].within_us)
        columns |= {part.name: reach.of(part) for part in parts_of(aggregate, argument)}
    for double, name in summed.items():
        columns |= _exact(double, _Reach(together, named[name].within_us))
    found = rows.select(*frame.columns, *(column.alias(name) for name, column in columns.items()))
    totals = exact_sum.with_totals(found, list(summed))
    values = {name: _value(named[name], *pair).alias(name) for name, pair in pairs.items()}
    return totals.select(*frame.columns, *values.values())


def _with_argument(frame: DataFrame, name: str, one: Analytic) -> tuple[DataFrame, tuple[Aggregate, Argument]]:
    """Null where a row does not fulfil ``when``; ``top_one`` becomes the first of ``collect_top``."""
    assert one.aggregate is not None, "an aggregate OVER says which"
    column, place = f"{name}_argument", f"{name}_place"
    aggregate = replace(one.aggregate, argument=one.aggregate.argument or "1")
    if aggregate.function == "top_one":
        aggregate = replace(aggregate, function="collect_top", limit=1)
    kind = frame.schema[column].dataType
    if isinstance(kind, T.DecimalType) and aggregate.function in ("sum", "avg"):
        kind = T.DoubleType()
    fulfils = F.lit(True) if one.when is None else F.col(f"{name}_when")
    added = {column: F.when(fulfils, F.col(column).cast(kind))}
    if aggregate.function in ORDERED:
        sorts = [(f"{name}_sort{index}", key) for index, key in enumerate(aggregate.order_by)]
        by = (sort_key(F.col(sort), frame.schema[sort].dataType, key) for sort, key in sorts)
        added[place] = F.when(fulfils, F.struct(*by, SYSTEM_US, ORDER))
    return frame.withColumns(added), (aggregate, Argument(column, kind, place))


def _exact(double: str, reach: _Reach) -> dict[str, Column]:
    """What the exact sum of a column is made of."""
    other = exact_sum.other_part(double)
    dated = F.struct(F.col(SYSTEM_US).alias("at"), other.alias("part"))
    # of data as usual there are none, so that to pass over those that have left costs nothing
    so_far = reach.so_far(F.collect_list(F.when(other.isNotNull(), dated)))
    others = F.filter(so_far, lambda one: one["at"] > F.col(SYSTEM_US) - reach.within_us)
    limbs = {limb: reach.sum(column) for limb, column in exact_sum.ordinary_sums(double).items()}
    return {**limbs, exact_sum.others_column(double): F.transform(others, lambda one: one["part"])}


def _value(one: Analytic, aggregate: Aggregate, argument: Argument) -> Column:
    assert one.aggregate is not None, "an aggregate OVER says which"
    value = result_of(aggregate, argument)
    if one.aggregate.function == "top_one":
        return F.get(value, F.lit(0))["value"]
    if aggregate.function in ("sum", "avg"):
        return F.when(F.col(f"{argument.name}_count") > 0, value)
    return value
