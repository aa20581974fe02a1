"""Lanes: ranges of arrival that one task each reads, and where they begin."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_US, PARTITION, TIME_US
from pipelines.batch.spark.local_rows import local_frame
from pipelines.batch.stream_analytics.watermarks.statistics import Facts
from pipelines.core.time import format_instant
from pipelines.plan.initial_state import greater
from pipelines.plan.watermark_stats import WIDTH_US

RANK = "__rank"
"""The number of a timeline."""

ROWS_PER_TASK = 4_000_000
_LEAST_ROWS_PER_TASK = 250_000
_MOST_TASK_RANGES = 64
_PLAIN_PARTITIONS = 256
_BEFORE = "__before_lane_"
_EVENTS = "__events"


@dataclass(frozen=True)
class TaskRanges:
    """How a log is cut for its ``facts``, and what its timelines had seen before each lane.

    ``timed``: its events; ``timeline``: the columns that tell timelines apart.
    """

    facts: Facts
    timed: DataFrame
    timeline: tuple[str, ...]

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """Arrivals at which a new lane begins."""
        return _cuts(self.facts, self.timed.sparkSession.sparkContext.defaultParallelism)

    @property
    def are_of_partitions(self) -> bool:
        """Whether each partition is one timeline, of which facts tell enough."""
        return self.timeline == (PARTITION,)

    @cached_property
    def numbered(self) -> tuple[DataFrame, list[Column]]:
        """One pass over the log, when this is first asked for: a row for each timeline, of its columns, RANK and, for
        each lane, the greatest time that it had seen before; and the columns of these, the first of them null."""
        return _numbered(self.timed, self.timeline, self.cuts)

    @cached_property
    def highest_before(self) -> dict[int, list[int | None]]:
        """By partition: the greatest time that it had seen before each lane, the first included; None: nothing yet."""
        greatest: dict[int, list[int | None]] = {one: [None] * (len(self.cuts) + 1) for one in self.facts.partitions}
        for fact in self.facts.each:
            task_ranges, task_range = greatest[fact.partition], bisect_right(self.cuts, fact.arrival_us)
            task_ranges[task_range] = greater(task_ranges[task_range], fact.greatest_time_us)
        return {
            partition: [None, *accumulate(task_ranges[:-1], greater)] for partition, task_ranges in greatest.items()
        }


def _cuts(facts: Facts, cores: int) -> tuple[int, ...]:
    """So that lanes have about as many rows and cores about as many lanes."""
    wanted = max(-(-facts.rows // ROWS_PER_TASK), min(cores, facts.rows // _LEAST_ROWS_PER_TASK), 1)
    share = facts.rows / min(-(-wanted // cores) * cores if wanted > cores else wanted, _MOST_TASK_RANGES)
    found: list[int] = []
    rows = 0
    for (_, count), (following, _) in pairwise(facts.rows_by_bucket.items()):
        rows += count
        if rows >= share * (len(found) + 1):
            found.append(following * WIDTH_US)
    return tuple(found)


def ends(cuts: Sequence[int]) -> Iterator[tuple[int | None, int | None]]:
    """``[from, to)`` of each lane; None: open."""
    return zip([None, *cuts], [*cuts, None], strict=True)


def arrived(
    rows: DataFrame, from_us: int | None, to_us: int | None, time: str = "arrival_time", day: str = "arrival_date"
) -> DataFrame:
    """What arrived in ``[from, to)``; files and row groups of other times are not read. ``day`` may be missing."""
    bounds = []
    for sign, end_us in ((">=", from_us), ("<", to_us)):
        if end_us is not None:
            instant = format_instant(end_us)
            bounds.append(f"{time} {sign} TIMESTAMP '{instant}'")
            if day in rows.columns:
                bounds.append(f"{day} {sign.rstrip('=')}= DATE '{instant[:10]}'")
    return rows.filter(" AND ".join(bounds)) if bounds else rows


def are_plain(facts: Facts) -> bool:
    """Whether each partition can be its own number: there are no holes worth speaking of."""
    return facts.partitions[0] >= 0 and facts.partitions[-1] < _PLAIN_PARTITIONS


def ranks_of_partitions(spark: SparkSession, facts: Facts) -> tuple[dict[int, int], DataFrame | None]:
    """Numbers of the partitions; and as rows of PARTITION and RANK, unless each partition is its own number."""
    if are_plain(facts):
        return {one: one for one in facts.partitions}, None
    ranks = {one: number for number, one in enumerate(facts.partitions)}
    return ranks, local_frame(spark, [(PARTITION, "int"), (RANK, "bigint")], list(ranks.items()))


def _numbered(timed: DataFrame, timeline: Sequence[str], cuts: Sequence[int]) -> tuple[DataFrame, list[Column]]:
    names = [f"{_BEFORE}{index}" for index, _ in enumerate(cuts, start=1)]
    before = [F.max(F.when(F.col(ARRIVAL_US) < cut, F.col(TIME_US))) for cut in cuts]
    # counted only because one lane has nothing before it to ask for
    seen = timed.groupBy(*timeline).agg(
        F.count(F.lit(1)).alias(_EVENTS), *(one.alias(name) for name, one in zip(names, before, strict=True))
    )
    # one task numbers them without gaps; kept, because another time it might number them otherwise
    ranked = seen.drop(_EVENTS).coalesce(1).withColumn(RANK, F.monotonically_increasing_id())
    return ranked.localCheckpoint(eager=True), [F.lit(None).cast("bigint"), *map(F.col, names)]
