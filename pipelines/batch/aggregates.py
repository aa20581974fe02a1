"""All aggregates of a query, the same bits whatever the file layout, the partitioning or the number of cores.

What depends on order is taken in the order of the rows, of events (system timestamp, arrival order) (G6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch import exact_sum
from pipelines.batch.aggregate_parts import (
    ORDERED,
    Argument,
    check,
    collects_doubles,
    parts_of,
    result_of,
    sort_key,
    sums_doubles,
)
from pipelines.batch.columns import ARRIVAL_ORDER, SYSTEM_US, WINDOW, WINDOW_END_US, WINDOW_ID, WINDOW_START_US
from pipelines.core.expressions import quoted_path
from pipelines.core.query import Grid, Query, SortKey, output_name


def aggregate(
    members: DataFrame,
    query: Query,
    order: Sequence[str] = (SYSTEM_US, *ARRIVAL_ORDER),
    regroup: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """One row per window and group that has rows (G4): the WINDOW columns, group keys, aggregates by name.

    ``members`` contains one row per (event, window): the WINDOW columns, the columns of ``order`` and the payload (in a
    join one struct a side, so that ``a.plate`` means in SQL what it means in the job file). Groups without a row do
    not appear. ``regroup`` puts rows into other groups by changing a group key, also into several each; where all
    aggregates can be merged, it gets the rows of the first groups instead of members. Raises :class:`JobFileError`
    where an aggregate of numbers is given something else.
    The resulting query fails where an integer sum passes BIGINT.
    """
    rows, keys, arguments = _arranged(members, query, order)
    pairs = [(one, arguments.get((one.argument or "", one.order_by))) for one in query.aggregates]
    for one, argument in pairs:
        check(one, argument)
    summed = sorted({argument.double for one, argument in pairs if argument and sums_doubles(one, argument)})
    as_double = {argument.double: F.col(argument.name).cast("double") for argument in arguments.values()}
    wanted = {*summed, *(argument.double for one, argument in pairs if argument and collects_doubles(one))}
    rows = exact_sum.split(rows.withColumns({name: as_double[name] for name in sorted(wanted)}), summed)

    parts = {part.name: part for one, argument in pairs for part in parts_of(one, argument)}
    columns = [part.first.alias(name) for name, part in parts.items()]
    again = [column.alias(name) for name, part in parts.items() if (column := part.again) is not None]
    if (summed or regroup) and len(again) == len(columns):
        rows, columns = _by_tier(rows, keys, columns, summed), again
    if regroup is not None:
        rows = regroup(rows)
    columns += [column.alias(name) for one in summed for name, column in exact_sum.tiered_sums(one).items()]
    grouped = rows.groupBy(*keys).agg(*(columns or [F.count(F.lit(1)).alias("__rows")]))
    grouped = exact_sum.with_totals(grouped, summed)
    results = [result_of(one, argument).alias(one.name) for one, argument in pairs]
    return grouped.select(
        *_window_columns(query), *map(F.col, map(quoted_path, map(output_name, query.group_by))), *results
    )


def _window_keys(query: Query) -> tuple[str, ...]:
    """The columns that distinguish the query's windows: of one grid the end alone, as narrow keys group faster."""
    return (WINDOW_END_US,) if isinstance(query.window, Grid) else WINDOW


def _window_columns(query: Query) -> list[Column]:
    if not isinstance(query.window, Grid):
        return [F.col(name) for name in WINDOW]
    start = F.col(WINDOW_END_US) - query.window.size_us
    return [start.alias(WINDOW_START_US), F.col(WINDOW_END_US), F.lit(None).cast("string").alias(WINDOW_ID)]


def _arranged(
    members: DataFrame, query: Query, order: Sequence[str]
) -> tuple[DataFrame, list[str], dict[tuple[str, tuple[SortKey, ...]], Argument]]:
    """Only what is needed: keys under their output names, order if asked for, each expression once."""
    texts = [one.argument for one in query.aggregates if one.argument is not None]
    sorts = list(dict.fromkeys(one.order_by for one in query.aggregates if one.function in ORDERED))
    texts += [key.expression for by in sorts for key in by]
    names = {text: f"__argument{index}" for index, text in enumerate(dict.fromkeys(texts))}
    keys = [F.col(quoted_path(column)).alias(output_name(column)) for column in query.group_by]
    rows = members.select(
        *_window_keys(query),
        *keys,
        *(order if sorts else ()),
        *(F.expr(text).alias(name) for text, name in names.items()),
    )
    types = {text: rows.schema[name].dataType for text, name in names.items()}
    places = {by: f"__place{index}" for index, by in enumerate(sorts)}
    for by, place in places.items():
        by_keys = (sort_key(F.col(names[key.expression]), types[key.expression], key) for key in by)
        rows = rows.withColumn(place, F.struct(*by_keys, *order))
    arguments = {
        (one.argument, one.order_by): Argument(names[one.argument], types[one.argument], places.get(one.order_by, ""))
        for one in query.aggregates
        if one.argument is not None
    }
    return rows, [*_window_keys(query), *map(output_name, query.group_by)], arguments


def _by_tier(rows: DataFrame, keys: Sequence[str], columns: Sequence[Column], summed: Sequence[str]) -> DataFrame:
    """Aggregate by tier first: fixed-width sums in a hash map, so that only the few results meet as arrays."""
    tiers = [exact_sum.tier_column(name) for name in summed]
    limbs = [column.alias(limb) for name in summed for limb, column in exact_sum.limb_sums(name).items()]
    return rows.groupBy(*keys, *tiers).agg(*columns, *limbs)
