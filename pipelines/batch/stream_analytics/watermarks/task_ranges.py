"""Ranges of arrival that one task each reads, and what each timeline had seen before each range.

Ranges are cut by arrival, not by partition or key, so one partition or key with half of all events makes no long task.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_US, PARTITION, TIME_US
from pipelines.batch.stream_analytics.watermarks.statistics import BUCKET_US, LogStatistics
from pipelines.core.time import format_instant
from pipelines.plan.initial_state import greater

TIMELINE_NUMBER = "__timeline_number"

ROWS_PER_TASK = 4_000_000
_LEAST_ROWS_PER_TASK = 250_000
_MOST_RANGES = 64
_MOST_NUMBERED_PARTITIONS = 256
_BEFORE = "__before_range_"
_EVENTS = "__events"


@dataclass(frozen=True)
class TaskRanges:
    """How a log is cut by its ``statistics``. ``timed``: its events; ``timeline``: the columns that name a timeline."""

    statistics: LogStatistics
    timed: DataFrame
    timeline: tuple[str, ...]

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """Arrivals at which a new range begins: ranges have about as many rows and cores about as many ranges."""
        rows, cores = self.statistics.rows, self.timed.sparkSession.sparkContext.defaultParallelism
        wanted = max(-(-rows // ROWS_PER_TASK), min(cores, rows // _LEAST_ROWS_PER_TASK), 1)
        share = rows / min(-(-wanted // cores) * cores if wanted > cores else wanted, _MOST_RANGES)
        found: list[int] = []
        passed = 0
        for (_, count), (following, _) in pairwise(self.statistics.rows_by_bucket.items()):
            passed += count
            if passed >= share * (len(found) + 1):
                found.append(following * BUCKET_US)
        return tuple(found)

    @property
    def bounds_us(self) -> Iterator[tuple[int | None, int | None]]:
        """``[from, to)`` of each range; None: open."""
        return zip([None, *self.cuts], [*self.cuts, None], strict=True)

    @property
    def timelines_are_partitions(self) -> bool:
        """Whether each partition is one timeline, of which the statistics contain enough (S6)."""
        return self.timeline == (PARTITION,)

    @property
    def partitions_are_numbers(self) -> bool:
        """Whether each partition can be its timeline's number: they leave few holes."""
        partitions = self.statistics.partitions
        return partitions[0] >= 0 and partitions[-1] < _MOST_NUMBERED_PARTITIONS

    @cached_property
    def timelines(self) -> tuple[DataFrame, list[Column]]:
        """One pass over the log, when this is first asked for: a row for each timeline, of its columns, TIMELINE_NUMBER
        and, for each range, the greatest time that it had seen before; and these columns, the first of them null."""
        names = [f"{_BEFORE}{index}" for index, _ in enumerate(self.cuts, start=1)]
        before = [F.max(F.when(F.col(ARRIVAL_US) < cut, F.col(TIME_US))) for cut in self.cuts]
        # counted only because one range has nothing before it to ask for
        seen = self.timed.groupBy(*self.timeline).agg(
            F.count(F.lit(1)).alias(_EVENTS), *(one.alias(name) for name, one in zip(names, before, strict=True))
        )
        # one task numbers them without gaps; kept, because another time it might number them otherwise
        numbered = seen.drop(_EVENTS).coalesce(1).withColumn(TIMELINE_NUMBER, F.monotonically_increasing_id())
        return numbered.localCheckpoint(eager=True), [F.lit(None).cast("bigint"), *map(F.col, names)]

    @cached_property
    def greatest_before(self) -> dict[int, list[int | None]]:
        """By partition: the greatest time that it had seen before each range, the first included; None: nothing yet."""
        greatest: dict[int, list[int | None]] = {
            one: [None] * (len(self.cuts) + 1) for one in self.statistics.partitions
        }
        for one in self.statistics.buckets:
            ranges, number = greatest[one.partition], bisect_right(self.cuts, one.arrival_us)
            ranges[number] = greater(ranges[number], one.greatest_time_us)
        return {partition: [None, *accumulate(ranges[:-1], greater)] for partition, ranges in greatest.items()}


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
