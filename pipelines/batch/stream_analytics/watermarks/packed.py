"""A running maximum without a shuffle, for the few rows that ask for it.

The log is cut into *lanes* of arrival, each read by one task. There a timeline's number and an event's place in it
are packed into one integer to sort by (which Spark does by radix), and the same number and the event's time into
another to take the running maximum of: a timeline with a higher number outweighs all before it, so the maximum starts
anew where a timeline begins. What earlier lanes saw comes from a table that was made on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pipelines.batch.columns import (
    ARRIVAL_DAY,
    ARRIVAL_TIME,
    MAX_BEFORE_US,
    PARTITION,
    SEQUENCE,
    TASK_RANGE,
    TIME_US,
)
from pipelines.batch.spark.local_rows import local_frame
from pipelines.batch.stream_analytics.watermarks.task_ranges import RANK, TaskRanges, arrived, ends, ranks_of_partitions

_PLACE = "__place"
_WEIGHT = "__weight"
_HEAVIEST = "__heaviest"
_ROW = "__row"
_CARRIED_US = "__carried_us"

_BITS = 62
"""Of a BIGINT, the sign and one more bit left free."""


@dataclass(frozen=True)
class Packing:
    """How timelines, places and times fit into one integer: ``rank << shift | (value - least)``; and the lanes.

    ``ranks`` numbers the timelines; None: the partition is its own number. A task_range begins at each of ``cuts``;
    ``carried`` says the greatest time (_CARRIED_US) that each timeline had before each lane but the first, in rows of
    the timeline's columns and LANE.
    """

    shift: int
    least_sequence: int
    least_time_us: int
    ranks: DataFrame | None
    cuts: tuple[int, ...]
    carried: DataFrame


def packing(task_ranges: TaskRanges) -> Packing | None:
    """None if the integers are too wide: sequence numbers all over 63 bits, or times far apart.

    Where a timeline is a part of a partition this passes over the log once, unless that was done.
    """
    facts, timeline, spark = task_ranges.facts, task_ranges.timeline, task_ranges.timed.sparkSession
    times_us = facts.times_us or (0, 0)
    least, greatest = facts.sequences
    shift = max((greatest - least).bit_length(), (times_us[1] - times_us[0]).bit_length())
    if task_ranges.are_of_partitions:
        numbers, ranks = ranks_of_partitions(spark, facts)
        count = max(numbers.values()) + 1
        carried = _carried_by_partitions(spark, task_ranges)
    else:
        known, before = task_ranges.numbered
        ranks, count = known.select(*timeline, RANK), known.count()
        carried = known.select(*timeline, F.posexplode(F.array(*before)).alias(TASK_RANGE, _CARRIED_US))
    if shift + max(1, count - 1).bit_length() > _BITS:
        return None
    return Packing(shift, least, times_us[0], ranks, task_ranges.cuts, carried)


def _carried_by_partitions(spark: SparkSession, task_ranges: TaskRanges) -> DataFrame:
    rows = [
        (partition, task_range, time_us)
        for partition, before in task_ranges.highest_before.items()
        for task_range, time_us in enumerate(before)
        if time_us is not None
    ]
    return local_frame(spark, [(PARTITION, "int"), (TASK_RANGE, "int"), (_CARRIED_US, "bigint")], rows)


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
    task_ranges = [
        _task_range(arrived(narrow, *end, ARRIVAL_TIME, ARRIVAL_DAY).select(_PLACE, _WEIGHT, _ROW), index, pack)
        for index, end in enumerate(ends(pack.cuts))
    ]
    rows = reduce(DataFrame.unionByName, task_ranges)
    if len(task_ranges) == 1:
        return rows.drop(TASK_RANGE)
    # greatest passes over nulls
    highest = F.greatest(F.col(MAX_BEFORE_US), F.col(_CARRIED_US))
    joined = rows.join(F.broadcast(pack.carried), [*timeline, TASK_RANGE], "left")
    return joined.withColumn(MAX_BEFORE_US, highest).drop(TASK_RANGE, _CARRIED_US)


def _task_range(narrow: DataFrame, index: int, pack: Packing) -> DataFrame:
    before = Window.orderBy(_PLACE).rowsBetween(Window.unboundedPreceding, -1)
    scanned = narrow.coalesce(1).withColumn(_HEAVIEST, F.max(_WEIGHT).over(before)).filter(F.col(_ROW).isNotNull())
    own = F.shiftright(F.col(_HEAVIEST), pack.shift) == F.shiftright(F.col(_PLACE), pack.shift)
    time_us = F.col(_HEAVIEST).bitwiseAND(F.lit((1 << pack.shift) - 1)) + F.lit(pack.least_time_us)
    return scanned.select(F.col(f"{_ROW}.*"), F.when(own, time_us).alias(MAX_BEFORE_US), F.lit(index).alias(TASK_RANGE))


def _ranked(events: DataFrame, timeline: Sequence[str], ranks: DataFrame | None) -> tuple[DataFrame, Column]:
    """``events`` and the number of each one's timeline; 0 for one whose key is null: it moves none and asks nothing."""
    if ranks is None:
        return events, F.col(PARTITION).cast("bigint")
    ranked = events.join(F.broadcast(ranks), list(timeline), "left")
    return ranked, F.coalesce(F.col(RANK), F.lit(0).cast("bigint"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
