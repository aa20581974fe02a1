"""Values looked up among the rows up to a row: LAG, LAST, ISFIRST, aggregates OVER (Q61 to Q78).

Rows are cut into buckets of time, each with the rows before it that are in reach of its own. So one task sorts a bucket
of a key, however many rows the key has. All functions that share ``partition_by`` share one shuffle and one sort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import SYSTEM_US
from pipelines.batch.grids import end_at_or_after, floor_to
from pipelines.batch.steps.over import with_aggregates
from pipelines.batch.steps.relation import ORDER, Relation
from pipelines.core.expressions import quoted
from pipelines.core.steps import Analytic
from pipelines.core.time import MINUTE, ORIGIN_0001_US

_BUCKET = "__bucket"
_REACHES = 4
"""A bucket is at least so many times as long as the reach, so that few rows are there for other buckets' sake."""


def analysed(rows: Relation, functions: Sequence[Analytic]) -> Relation:
    """Every row with the values of ``functions`` as further columns."""
    groups: dict[tuple[str, ...], dict[str, Analytic]] = {}
    for index, one in enumerate(functions):
        groups.setdefault(one.partition_by, {})[f"__value{index}"] = one
    frame = rows.frame
    for keys, named in groups.items():
        frame = _with_values(replace(rows, frame=frame), keys, named)
    values = (F.col(f"__value{index}").alias(one.name) for index, one in enumerate(functions))
    names = (one.name for one in functions)
    return rows.with_columns(frame.select(*map(quoted, rows.frame.columns), *values), (*rows.columns, *names))


def _with_values(rows: Relation, partition_by: Sequence[str], named: Mapping[str, Analytic]) -> DataFrame:
    """The frame of ``rows`` with one more column for each of ``named``, which share ``partition_by``."""
    kept = rows.frame.columns
    keys = {f"__key{index}": text for index, text in enumerate(partition_by)}
    expressions = keys | {part: text for name, one in named.items() for part, text in _parts(name, one).items()}
    reach_us = max(one.within_us for one in named.values())
    width_us = max(_REACHES * reach_us, MINUTE)
    bucket = floor_to(F.col(SYSTEM_US), width_us)
    # the last rows of a bucket are in reach of the first ones of the next
    serves_next = F.col(SYSTEM_US) + reach_us > bucket + width_us
    buckets = F.when(serves_next, F.array(bucket, bucket + width_us)).otherwise(F.array(bucket))
    given = rows.computed(expressions, *kept).withColumn(_BUCKET, F.explode(buckets))
    together = (*keys, _BUCKET)
    lookups = {name: one for name, one in named.items() if one.function != "aggregate"}
    seen = given.withColumns({f"{name}_seen": _seen(name, one) for name, one in lookups.items()})
    found = seen.withColumns({f"{name}_found": _found(name, one, together) for name, one in lookups.items()})
    valued = found.withColumns({name: _value(name, one, given) for name, one in lookups.items()})
    over = {name: one for name, one in named.items() if one.function == "aggregate"}
    return with_aggregates(valued, over, together).filter(F.col(_BUCKET) == bucket).select(*map(quoted, kept), *named)


def _parts(name: str, one: Analytic) -> dict[str, str]:
    """The expressions of a function, by the columns that contain their values."""
    given = {"argument": one.argument, "when": one.when, "default": one.default}
    if one.aggregate is not None:
        given["argument"] = one.aggregate.argument or "1"
        given |= {f"sort{index}": key.expression for index, key in enumerate(one.aggregate.order_by)}
    return {f"{name}_{part}": text for part, text in given.items() if text is not None}


def _seen(name: str, one: Analytic) -> Column:
    """What a row lets others find: when it counts, and its value; null if it does not fulfil ``when``."""
    value = F.lit(None) if one.argument is None else F.col(f"{name}_argument")
    here = F.struct(F.col(SYSTEM_US).alias("at"), value.alias("value"))
    return here if one.when is None else F.when(F.col(f"{name}_when"), here)


def _found(name: str, one: Analytic, together: Sequence[str]) -> Column:
    """What the newest row that others see lets find: up to the row itself (LAST), or the n-th before it."""
    order = f"(PARTITION BY {', '.join(together)} ORDER BY {SYSTEM_US}, {ORDER}"
    if one.function == "last":
        return F.expr(f"last({name}_seen, true) OVER {order} ROWS UNBOUNDED PRECEDING)")
    return F.expr(f"lag({name}_seen, {one.offset}) IGNORE NULLS OVER {order})")


def _value(name: str, one: Analytic, given: DataFrame) -> Column:
    found, at = F.col(f"{name}_found"), F.col(SYSTEM_US)
    if one.function == "is_first":
        fulfils = F.lit(True) if one.when is None else F.col(f"{name}_when")
        interval, interval_before = (end_at_or_after(us, one.within_us, ORIGIN_0001_US) for us in (at, found["at"]))
        is_first = fulfils & (found.isNull() | (interval_before < interval))
        return F.when(is_first, F.lit(1)).otherwise(F.lit(0)).cast("bigint")
    kind = given.schema[f"{name}_argument"].dataType
    default = F.lit(None) if one.default is None else F.col(f"{name}_default")
    in_reach = found.isNotNull() & (found["at"] > at - one.within_us)
    return F.when(in_reach, found["value"]).otherwise(default.cast(kind))
