"""Stream joins of stream_analytics: pairs of rows whose system timestamps are near each other by DATEDIFF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_ORDER, HOLD_US, INPUT_RANK, SYSTEM_US
from pipelines.batch.grids import floor_to
from pipelines.core.model import Input, Join
from pipelines.core.time import UNIT_US

_LEFT_BUCKET = "__left_bucket"
_RIGHT_BUCKET = "__right_bucket"
_ORDER = "order"
_PAYLOAD = "payload"


@dataclass(frozen=True, slots=True)
class Bounds:
    """``from_units <= DATEDIFF(unit, left, right) <= to_units``, where DATEDIFF counts the unit's boundaries (S14)."""

    unit_us: int
    from_units: int
    to_units: int

    def near(self, left_us: Column, right_us: Column) -> Column:
        """Whether the two times are within the bounds: 12:00:59 and 12:01:00 are one minute apart."""
        apart = floor_to(right_us, self.unit_us) - floor_to(left_us, self.unit_us)
        return apart.between(self.from_units * self.unit_us, self.to_units * self.unit_us)

    def counts_at(self, left_us: Column, right_us: Column) -> Column:
        """The time of a pair, the later one; a left row alone counts when the last partner could still have come."""
        alone = left_us + max(self.to_units, 0) * self.unit_us
        return F.when(right_us.isNull(), alone).otherwise(F.greatest(left_us, right_us))


def near_pairs(
    left: DataFrame,
    right: DataFrame,
    times: tuple[str, str],
    keys: Sequence[tuple[str, str]],
    bounds: Bounds,
    kind: str,
    condition: Column | None = None,
) -> DataFrame:
    """The columns of both, a row for each pair that is within ``bounds``, has equal keys and fulfils ``condition``.

    ``times`` and ``keys`` name columns of the left and of the right; null equals nothing. ``kind`` ``left`` keeps left
    rows without a partner, once. Both sides meet by equality on the keys and on a bucket of time as long as the range,
    of which the partners of one row touch at most two.
    """
    left_us, right_us = map(F.col, times)
    width_us = (bounds.to_units - bounds.from_units + 1) * bounds.unit_us
    at = floor_to(right_us, bounds.unit_us)
    reach = (floor_to(at - units * bounds.unit_us, width_us) for units in (bounds.to_units, bounds.from_units))
    a = left.withColumn(_LEFT_BUCKET, floor_to(floor_to(left_us, bounds.unit_us), width_us))
    b = right.withColumn(_RIGHT_BUCKET, F.explode(F.array_distinct(F.array(*reach))))
    same = F.col(_LEFT_BUCKET) == F.col(_RIGHT_BUCKET)
    for left_key, right_key in keys:
        same = same & (F.col(left_key) == F.col(right_key))
    same = same & bounds.near(left_us, right_us)
    if condition is not None:
        same = same & condition
    return a.join(b, same, kind).drop(_LEFT_BUCKET, _RIGHT_BUCKET)


def joined(left: DataFrame, right: DataFrame, join: Join, sides: tuple[Input, Input]) -> DataFrame:
    """One row per pair, and for a LEFT join per left event without a partner (S14).

    Columns: SYSTEM_US, HOLD_US, ARRIVAL_ORDER and one struct per side with its payload, named like the input.
    A pair arrives when the later of its events does; pairs that the same event completes come in the order of the
    other.
    """
    bounds = Bounds(UNIT_US[join.unit], join.from_units, join.to_units)
    keys = [(f"a_key_{index}", f"b_key_{index}") for index in range(len(join.on))]
    a, b = _side(left, sides[0], join, "a"), _side(right, sides[1], join, "b")
    times = (f"a.{SYSTEM_US}", f"b.{SYSTEM_US}")
    return near_pairs(a, b, times, keys, bounds, join.kind).select(
        bounds.counts_at(*map(F.col, times)).alias(SYSTEM_US),
        # least passes over the null of a missing partner
        F.least(F.col(f"a.{HOLD_US}"), F.col(f"b.{HOLD_US}")).alias(HOLD_US),
        *_arrival_order(),
        F.col(f"a.{_PAYLOAD}").alias(join.left),
        F.col(f"b.{_PAYLOAD}").alias(join.right),
    )


def _side(frame: DataFrame, source: Input, join: Join, name: str) -> DataFrame:
    """One side as a struct column ``name`` of times, arrival order and payload, and its keys."""
    whole = F.struct(
        SYSTEM_US,
        HOLD_US,
        F.struct(*ARRIVAL_ORDER).alias(_ORDER),
        F.struct(*(column.name for column in source.columns)).alias(_PAYLOAD),
    )
    keys = [F.col(column).alias(f"{name}_key_{index}") for index, column in enumerate(join.on)]
    return frame.select(whole.alias(name), *keys)


def _arrival_order() -> list[Column]:
    """The ARRIVAL_ORDER columns of the later event; the last also contains the earlier event's, to break ties."""
    later = F.greatest(F.col(f"a.{_ORDER}"), F.col(f"b.{_ORDER}"))
    earlier = F.when(F.col("b").isNotNull(), F.least(F.col(f"a.{_ORDER}"), F.col(f"b.{_ORDER}")))
    plain = [later[column].alias(column) for column in ARRIVAL_ORDER if column != INPUT_RANK]
    return [*plain, F.struct(later[INPUT_RANK].alias("rank"), earlier.alias("other")).alias(INPUT_RANK)]
