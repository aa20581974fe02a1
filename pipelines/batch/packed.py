"""A running maximum without a shuffle, for the few rows that ask for it.

The log is cut into *lanes* of arrival, each read by one task. There a timeline's number and an event's place in it
are packed into one integer to sort by (which Spark does by radix), and the same number and the event's time into
another to take the running maximum of: a timeline with a higher number outweighs all before it, so the maximum starts
anew where a timeline begins. What earlier lanes saw comes from a table that was made on the way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pipelines.batch.bounds import Facts
from pipelines.batch.columns import (
    ARRIVAL_DAY,
    ARRIVAL_TIME,
    ARRIVAL_US,
    MAX_BEFORE_US,
    PARTITION,
    SEQUENCE,
    TIME_US,
)
from pipelines.batch.local_rows import local_frame
from pipelines.core.carry import greater
from pipelines.core.facts import WIDTH_US

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
    """How timelines, places and times fit into one integer: ``rank << shift | (value - least)``; and the lanes.

    ``ranks`` numbers the timelines; None: the partition is its own number. A lane begins at each of ``cuts``;
    ``carried`` says the greatest time (_CARRIED_US) that each timeline had before each lane but the first, in rows of
    the timeline's columns and _LANE.
    """

    shift: int
    least_sequence: int
    least_time_us: int
    ranks: DataFrame | None
    cuts: tuple[int, ...]
    carried: DataFrame


def packing(facts: Facts, timed: DataFrame, timeline: Sequence[str]) -> Packing | None:
    """None if the integers are too wide: sequence numbers all over 63 bits, or times far apart.

    Where a timeline is a part of a partition this passes over ``timed`` once.
    """
    times_us = facts.times_us or (0, 0)
    least, greatest = facts.sequences
    shift = max((greatest - least).bit_length(), (times_us[1] - times_us[0]).bit_length())
    cuts = _cuts(facts, timed.sparkSession.sparkContext.defaultParallelism)
    if tuple(timeline) == (PARTITION,):
        count, ranks = _ranks_of_partitions(timed.sparkSession, facts)
        carried = _carried_by_partitions(timed.sparkSession, facts, cuts)
    else:
        lane = sum((F.when(F.col(ARRIVAL_US) >= cut, 1).otherwise(0) for cut in cuts), F.lit(0))
        by_lane = timed.groupBy(*timeline, lane.alias(_LANE)).agg(F.max(TIME_US).alias(_CARRIED_US))
        seen = by_lane.localCheckpoint(eager=True)
        # one task numbers them without gaps; kept, because another time it might number them otherwise
        numbered = seen.select(*timeline).distinct().coalesce(1).withColumn(_RANK, F.monotonically_increasing_id())
        ranks = numbered.localCheckpoint(eager=True)
        count = ranks.count()
        carried = _carried(seen, timeline, len(cuts))
    if shift + max(1, count - 1).bit_length() > _BITS:
        return None
    return Packing(shift, least, times_us[0], ranks, cuts, carried)


def _ranks_of_partitions(spark: SparkSession, facts: Facts) -> tuple[int, DataFrame | None]:
    partitions = facts.partitions
    if partitions[0] >= 0 and partitions[-1] < _PLAIN_PARTITIONS:
        return partitions[-1] + 1, None
    ranked = local_frame(spark, [(PARTITION, "int"), (_RANK, "bigint")], [(one, n) for n, one in enumerate(partitions)])
    return len(partitions), ranked


def _carried_by_partitions(spark: SparkSession, facts: Facts, cuts: Sequence[int]) -> DataFrame:
    seen: dict[int, dict[int, int]] = defaultdict(dict)
    for fact in facts.each:
        if fact.greatest_time_us is not None:
            lanes, lane = seen[fact.partition], bisect_right(cuts, fact.arrival_us)
            lanes[lane] = max(fact.greatest_time_us, lanes.get(lane, fact.greatest_time_us))
    before: list[tuple[int, int, int]] = []
    for partition, lanes in seen.items():
        highest_us: int | None = None
        for lane in range(len(cuts)):
            highest_us = greater(highest_us, lanes.get(lane))
            if highest_us is not None:
                before.append((partition, lane + 1, highest_us))
    columns = [(PARTITION, "int"), (_LANE, "int"), (_CARRIED_US, "bigint")]
    return local_frame(spark, columns, before)


def with_max_before(
    events: DataFrame, columns: Sequence[str], timeline: Sequence[str], pack: Packing, asking: Column
) -> DataFrame:
    """The rows of ``events``, the whole log, for which ``asking`` holds: ``columns``, and MAX_BEFORE_US."""
    ranked, rank = _ranked(events, timeline, pack.ranks)
    shifted = F.shiftleft(rank, pack.shift)
    narrow = ranked.select(
        *(name for name in (ARRIVAL_TIME, ARRIVAL_DAY) if name in events.columns),
        (shifted + (F.col(SEQUENCE) - F.lit(pack.least_sequence))).alias(_PLACE),
        (shifted + (F.col(TIME_US) - F.lit(pack.least_time_us))).alias(_WEIGHT),
        F.when(asking, F.struct(*map(_quoted, columns))).alias(_ROW),
    )
    ends = zip([None, *pack.cuts], [*pack.cuts, None], strict=True)
    lanes = [_lane(_arrived(narrow, *end), index, pack) for index, end in enumerate(ends)]
    rows = reduce(DataFrame.unionByName, lanes)
    if len(lanes) == 1:
        return rows.drop(_LANE)
    # greatest passes over nulls
    highest = F.greatest(F.col(MAX_BEFORE_US), F.col(_CARRIED_US))
    joined = rows.join(F.broadcast(pack.carried), [*timeline, _LANE], "left")
    return joined.withColumn(MAX_BEFORE_US, highest).drop(_LANE, _CARRIED_US)


def _cuts(facts: Facts, cores: int) -> tuple[int, ...]:
    """Arrivals at which a new lane begins, so that lanes have about as many rows and cores about as many lanes."""
    wanted = max(-(-facts.rows // _ROWS_A_LANE), min(cores, facts.rows // _LEAST_ROWS_A_LANE), 1)
    share = facts.rows / min(-(-wanted // cores) * cores if wanted > cores else wanted, _MOST_LANES)
    cuts: list[int] = []
    rows = 0
    for (_, count), (following, _) in pairwise(facts.rows_by_bucket.items()):
        rows += count
        if rows >= share * (len(cuts) + 1):
            cuts.append(following * WIDTH_US)
    return tuple(cuts)


def _arrived(rows: DataFrame, from_us: int | None, to_us: int | None) -> DataFrame:
    """What arrived in ``[from, to)``; files and row groups of other times are not read."""
    has_day = ARRIVAL_DAY in rows.columns
    if from_us is not None:
        at = F.timestamp_micros(F.lit(from_us))
        rows = rows.filter(
            (F.col(ARRIVAL_TIME) >= at) & (F.col(ARRIVAL_DAY) >= F.to_date(at) if has_day else F.lit(True))
        )
    if to_us is not None:
        at = F.timestamp_micros(F.lit(to_us))
        rows = rows.filter(
            (F.col(ARRIVAL_TIME) < at) & (F.col(ARRIVAL_DAY) <= F.to_date(at) if has_day else F.lit(True))
        )
    return rows.select(_PLACE, _WEIGHT, _ROW)


def _lane(narrow: DataFrame, index: int, pack: Packing) -> DataFrame:
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


def _carried(seen: DataFrame, timeline: Sequence[str], last: int) -> DataFrame:
    """What each timeline had seen before each lane but the first, up to the ``last``, from what it saw in each."""
    later = F.explode(F.sequence(F.col(_LANE) + 1, F.lit(last)))
    spread = seen.filter(F.col(_LANE) < last).select(*timeline, later.alias(_LANE), _CARRIED_US)
    return spread.groupBy(*timeline, _LANE).agg(F.max(_CARRIED_US).alias(_CARRIED_US))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
