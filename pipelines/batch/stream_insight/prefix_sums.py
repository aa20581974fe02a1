"""Prefix sums and maxima over one timeline, block by block, so that no task ever needs the whole timeline.

A running sum or maximum is associative: what the earlier blocks add up to is one number a block, found by a hash
aggregate, scanned over the few blocks and carried into each. Within a block the scan is a window function. A plain
window over the whole timeline gives the same numbers from a single task that sorts everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.core.time import MINUTE

BLOCK_US = MINUTE
"""Length of a block along the scanned instants; one row per block goes through a single task."""

_BLOCK = "__scan_block"
_CARRY_BLOCK = "__scan_carry_block"
_CARRY = "__scan_carry"
_VALUE = "__scan_value"
_LOCAL = "__scan_local"


def before(
    frame: DataFrame, name: str, value: Column, how: Literal["sum", "max"], *, along: str, order: Sequence[Column]
) -> DataFrame:
    """``frame`` with the sum or maximum of ``value`` over the rows strictly before each, as column ``name``.

    ``along``: a BIGINT column of microseconds, never null, by which ``order`` sorts first; ``order`` must be total.
    Null values count for nothing. Before anything counted a sum is 0 and a maximum is null.
    Cost: ``frame`` is read twice (the second time only what ``value`` needs) and shuffled by blocks of
    :data:`BLOCK_US`, each of which one task sorts.
    """
    block = F.floor(F.col(along) / F.lit(BLOCK_US)).cast("bigint")
    rows = frame.withColumn(_BLOCK, block).withColumn(_VALUE, value)
    fold = F.sum if how == "sum" else F.max
    earlier_blocks = Window.orderBy(_BLOCK).rowsBetween(Window.unboundedPreceding, -1)
    initial_states = (
        rows.groupBy(_BLOCK)
        .agg(fold(_VALUE).alias(_VALUE))
        .select(F.col(_BLOCK).alias(_CARRY_BLOCK), fold(_VALUE).over(earlier_blocks).alias(_CARRY))
    )
    inside = Window.partitionBy(_BLOCK).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    joined = rows.withColumn(_LOCAL, fold(_VALUE).over(inside)).join(
        initial_states, F.col(_BLOCK) == F.col(_CARRY_BLOCK), "left"
    )
    if how == "sum":
        zero = F.lit(0).cast("bigint")
        total = F.coalesce(F.col(_LOCAL), zero) + F.coalesce(F.col(_CARRY), zero)
    else:
        total = F.greatest(F.col(_LOCAL), F.col(_CARRY))
    return joined.withColumn(name, total).drop(_BLOCK, _CARRY_BLOCK, _CARRY, _VALUE, _LOCAL)
