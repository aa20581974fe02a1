"""Stream joins of stream_analytics: pairs of events whose system timestamps are near each other by DATEDIFF."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_ORDER, HOLD_US, INPUT_RANK, SYSTEM_US
from pipelines.batch.grids import floor_to
from pipelines.core.model import Input, Join
from pipelines.core.time import UNIT_US

_BUCKET = "__bucket"
_ORDER = "order"
_PAYLOAD = "payload"
_KEY = "key"


def joined(left: DataFrame, right: DataFrame, join: Join, sides: tuple[Input, Input]) -> DataFrame:
    """One row per pair, and for a LEFT join per left event without a partner (S14).

    Events pair when their ``on`` columns are equal (null equals nothing) and ``DATEDIFF(unit, left, right)`` lies in
    ``from .. to``, both ends included; DATEDIFF counts the unit's boundaries between the system timestamps, so
    12:00:59 and 12:01:00 are one minute apart. A pair counts at the later of its system timestamps; a left event
    alone counts when the last partner could still have come, its time plus ``to`` units, and never before itself.

    Columns: SYSTEM_US, HOLD_US, ARRIVAL_ORDER and one struct per side with its payload, named like the input.
    A pair arrives when the later of its events does; pairs that the same event completes come in the order of the
    other.

    Both sides meet by equality on the keys and on a bucket of time as long as the range, of which the partners of
    one event touch at most two.
    """
    unit_us = UNIT_US[join.unit]
    bucket_us = (join.to_units - join.from_units + 1) * unit_us
    at = floor_to(F.col(SYSTEM_US), unit_us)
    reach = F.array(
        floor_to(at - join.to_units * unit_us, bucket_us), floor_to(at - join.from_units * unit_us, bucket_us)
    )
    a = _side(left, sides[0], join, "a", floor_to(at, bucket_us))
    b = _side(right, sides[1], join, "b", F.explode(F.array_distinct(reach)))
    apart = floor_to(F.col(f"b.{SYSTEM_US}"), unit_us) - floor_to(F.col(f"a.{SYSTEM_US}"), unit_us)
    near = apart.between(join.from_units * unit_us, join.to_units * unit_us)
    same = F.col("a_bucket") == F.col("b_bucket")
    for index in range(len(join.on)):
        same = same & (F.col(f"a_key_{index}") == F.col(f"b_key_{index}"))
    pairs = a.join(b, same & near, join.kind)
    alone_us = F.col(f"a.{SYSTEM_US}") + max(join.to_units, 0) * unit_us
    paired_us = F.greatest(F.col(f"a.{SYSTEM_US}"), F.col(f"b.{SYSTEM_US}"))
    return pairs.select(
        F.when(F.col("b").isNull(), alone_us).otherwise(paired_us).alias(SYSTEM_US),
        # least passes over the null of a missing partner
        F.least(F.col(f"a.{HOLD_US}"), F.col(f"b.{HOLD_US}")).alias(HOLD_US),
        *_arrival_order(),
        F.col(f"a.{_PAYLOAD}").alias(join.left),
        F.col(f"b.{_PAYLOAD}").alias(join.right),
    )


def _side(frame: DataFrame, source: Input, join: Join, name: str, bucket: Column) -> DataFrame:
    """One side as a struct column ``name`` of times, arrival order and payload, its keys and its bucket."""
    whole = F.struct(
        SYSTEM_US,
        HOLD_US,
        F.struct(*ARRIVAL_ORDER).alias(_ORDER),
        F.struct(*(column.name for column in source.columns)).alias(_PAYLOAD),
    )
    keys = [F.col(column).alias(f"{name}_key_{index}") for index, column in enumerate(join.on)]
    return frame.select(whole.alias(name), *keys, bucket.alias(f"{name}_bucket"))


def _arrival_order() -> list[Column]:
    """The ARRIVAL_ORDER columns of the later event; the last also holds the earlier event's, to break ties."""
    later = F.greatest(F.col(f"a.{_ORDER}"), F.col(f"b.{_ORDER}"))
    earlier = F.when(F.col("b").isNotNull(), F.least(F.col(f"a.{_ORDER}"), F.col(f"b.{_ORDER}")))
    plain = [later[column].alias(column) for column in ARRIVAL_ORDER if column != INPUT_RANK]
    return [*plain, F.struct(later[INPUT_RANK].alias("rank"), earlier.alias("other")).alias(INPUT_RANK)]
