"""A running maximum without a shuffle, for the few rows that ask for it.

The log is cut into *lanes* of arrival, each read by one task. There a timeline's number and an event's place in it
are packed into one integer to sort by (which Spark does by radix), and the same number and the event's time into
another to take the running maximum of: a timeline with a higher number outweighs all before it, so the maximum starts
anew where a timeline begins. What earlier lanes saw comes from a table that was made on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.batch.bounds import BUCKET, GREATEST_TIME_US, Facts
from pipelines.batch.columns import MAX_BEFORE_US, PARTITION, SEQUENCE, TIME_US

Between = Callable[[int | None, int | None], DataFrame]
"""The events that arrived in ``[from, to)``, with PARTITION, SEQUENCE, TIME_US and what else is wanted of them."""

_PLACE = "__place"
_WEIGHT = "__weight"
_HEAVIEST = "__heaviest"
_ROW = "__row"
_LANE = "__lane"
_RANK = "__rank"
_CARRIED_US = "__carried_us"

_BITS = 62
"""Of a BIGINT, the sign and one more bit left free."""
_ROWS_A_LANE = 4_000_000
_LEAST_ROWS_A_LANE = 250_000
_MOST_LANES = 64
_PLAIN_PARTITIONS = 1 << 12


@dataclass(frozen=True)
class Packing:
    """How timelines, places and times fit into one integer: ``rank << shift | (value - least)``.

    ``ranks`` numbers the timelines; None: the partition is its own number.
    """

    shift: int
    least_sequence: int
    least_time_us: int
    ranks: DataFrame | None


def packing(facts: Facts, timeline: Sequence[str]) -> Packing | None:
    """None if the integers are too wide: sequence numbers all over 63 bits, or times far apart."""
    times_us = facts.times_us or (0, 0)
    least, greatest = facts.sequences
    shift = max((greatest - least).bit_length(), (times_us[1] - times_us[0]).bit_length())
    ranks, count = _ranks(facts, timeline)
    if shift + max(1, count - 1).bit_length() > _BITS:
        return None
    return Packing(shift, least, times_us[0], ranks)


def _ranks(facts: Facts, timeline: Sequence[str]) -> tuple[DataFrame | None, int]:
    if tuple(timeline) == (PARTITION,):
        ends = facts.table.agg(F.min(PARTITION), F.max(PARTITION)).first()
        assert ends is not None, "an aggregate has one row"
        if ends[0] >= 0 and ends[1] < _PLAIN_PARTITIONS:
            return None, ends[1] + 1
    known = facts.table.select(*timeline).distinct()
    # one task numbers them without gaps; kept, because another time it might number them otherwise
    ranks = known.coalesce(1).withColumn(_RANK, F.monotonically_increasing_id()).localCheckpoint(eager=True)
    return ranks, ranks.count()


def with_max_before(
    between: Between, facts: Facts, timeline: Sequence[str], pack: Packing, asking: Column, cores: int
) -> DataFrame:
    """The rows of the whole log for which ``asking`` holds, and MAX_BEFORE_US."""
    cuts = _cuts(facts, cores)
    ends = list(zip([None, *cuts], [*cuts, None], strict=True))
    lanes = [_lane(between(*end), index, timeline, pack, asking) for index, end in enumerate(ends)]
    rows = reduce(DataFrame.unionByName, lanes)
    if len(lanes) == 1:
        return rows.drop(_LANE)
    carried = F.broadcast(_carried(facts, timeline, cuts))
    # greatest passes over nulls
    highest = F.greatest(F.col(MAX_BEFORE_US), F.col(_CARRIED_US))
    joined = rows.join(carried, [*timeline, _LANE], "left")
    return joined.withColumn(MAX_BEFORE_US, highest).drop(_LANE, _CARRIED_US)


def _cuts(facts: Facts, cores: int) -> list[int]:
    """Arrivals at which a new lane begins, so that lanes have about as many rows."""
    wanted = max(-(-facts.rows // _ROWS_A_LANE), min(cores, facts.rows // _LEAST_ROWS_A_LANE), 1)
    share = facts.rows / min(wanted, _MOST_LANES)
    cuts: list[int] = []
    rows = 0
    buckets = sorted(facts.buckets, key=lambda bucket: bucket.index)
    for bucket, following in pairwise(buckets):
        rows += bucket.rows
        if rows >= share * (len(cuts) + 1):
            cuts.append(following.index * facts.width_us)
    return cuts


def _lane(events: DataFrame, index: int, timeline: Sequence[str], pack: Packing, asking: Column) -> DataFrame:
    ranked, rank = _ranked(events, timeline, pack.ranks)
    names = events.columns
    shifted = F.shiftleft(rank, pack.shift)
    narrow = ranked.select(
        (shifted + (F.col(SEQUENCE) - F.lit(pack.least_sequence))).alias(_PLACE),
        (shifted + (F.col(TIME_US) - F.lit(pack.least_time_us))).alias(_WEIGHT),
        F.when(asking, F.struct(*map(_quoted, names))).alias(_ROW),
    )
    before = Window.orderBy(_PLACE).rowsBetween(Window.unboundedPreceding, -1)
    scanned = narrow.coalesce(1).withColumn(_HEAVIEST, F.max(_WEIGHT).over(before)).filter(F.col(_ROW).isNotNull())
    own = F.shiftright(F.col(_HEAVIEST), pack.shift) == F.shiftright(F.col(_PLACE), pack.shift)
    time_us = F.col(_HEAVIEST).bitwiseAND(F.lit((1 << pack.shift) - 1)) + F.lit(pack.least_time_us)
    return scanned.select(F.col(f"{_ROW}.*"), F.when(own, time_us).alias(MAX_BEFORE_US), F.lit(index).alias(_LANE))


def _ranked(events: DataFrame, timeline: Sequence[str], ranks: DataFrame | None) -> tuple[DataFrame, Column]:
    """``events`` and the number of each one's timeline; 0 for one whose key is null: it moves none and asks nothing."""
    if ranks is None:
        return events, F.col(PARTITION).cast("bigint")
    ranked = events.join(F.broadcast(ranks), list(timeline), "left")
    return ranked, F.coalesce(F.col(_RANK), F.lit(0).cast("bigint"))


def _carried(facts: Facts, timeline: Sequence[str], cuts: Sequence[int]) -> DataFrame:
    """What each timeline had seen before each lane but the first."""
    at_us = F.col(BUCKET) * F.lit(facts.width_us)
    lane = sum((F.when(at_us >= cut, 1).otherwise(0) for cut in cuts), F.lit(0))
    seen = facts.table.groupBy(*timeline, lane.alias(_LANE)).agg(F.max(GREATEST_TIME_US).alias(_CARRIED_US))
    later = F.explode(F.sequence(F.col(_LANE) + 1, F.lit(len(cuts))))
    spread = seen.filter(F.col(_LANE) < len(cuts)).select(*timeline, later.alias(_LANE), _CARRIED_US)
    return spread.groupBy(*timeline, _LANE).agg(F.max(_CARRIED_US).alias(_CARRIED_US))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
