"""Watermarks without a shuffle, for the few events that need theirs.

Most events are at or above a bound of every watermark: they count at their own time, whatever their timeline has seen.
For the others the log is cut into ranges of arrival, one task each. There a timeline's number and an event's sequence
are packed into one integer to sort by (which Spark does by radix), and the same number and the event's time into
another, of which the running maximum is taken: a timeline with a higher number outweighs all before it, so the maximum
starts again where a timeline begins. What earlier ranges had seen comes from a table that was made on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.batch.columns import (
    ARRIVAL_DAY,
    ARRIVAL_TIME,
    ARRIVAL_US,
    EVENT_US,
    INPUT,
    KEY_VALID,
    MAX_BEFORE_US,
    PARTITION,
    SEQUENCE,
    SYSTEM_US,
    TASK_RANGE,
    TIME_US,
    VERDICT_COLUMNS,
)
from pipelines.batch.spark.local_rows import local_frame
from pipelines.batch.stream_analytics.input_events import InputEvents
from pipelines.batch.stream_analytics.policy import is_exception, is_settled, with_verdict
from pipelines.batch.stream_analytics.watermarks.statistics import LogStatistics
from pipelines.batch.stream_analytics.watermarks.task_ranges import TIMELINE_NUMBER, TaskRanges, arrived
from pipelines.core.expressions import quoted

_PLACE = "__place"
_WEIGHT = "__weight"
_HEAVIEST = "__heaviest"
_ROW = "__row"
_BEFORE_US = "__before_us"

_FOR_A_VERDICT = (PARTITION, SEQUENCE, ARRIVAL_US, EVENT_US, KEY_VALID, TIME_US)

_BITS = 62
"""Of a BIGINT, the sign and one more bit left free."""


@dataclass(frozen=True)
class _Packing:
    """How timelines, places and times fit into one integer: ``number << shift | (value - least)``.

    ``numbers``: rows of a timeline's columns and TIMELINE_NUMBER; None: the partition is its own number. ``before``:
    rows of the timeline's columns, TASK_RANGE and _BEFORE_US, the greatest time that the timeline had before the range.
    """

    shift: int
    least_sequence: int
    least_time_us: int
    numbers: DataFrame | None
    before: DataFrame


def packed(events: InputEvents, ranges: TaskRanges) -> Packed | None:
    """None if the integers are too wide: sequence numbers all over 63 bits, or times centuries apart.

    Where a timeline is a part of a partition this passes over the log once, unless that was done.
    """
    statistics, timeline = ranges.statistics, ranges.timeline
    times_us = statistics.times_us or (0, 0)
    least, greatest = statistics.sequences
    shift = max((greatest - least).bit_length(), (times_us[1] - times_us[0]).bit_length())
    if ranges.timelines_are_partitions:
        numbers, count = _numbered_partitions(ranges)
        before = _before_by_partition(ranges)
    else:
        timelines, columns = ranges.timelines
        numbers, count = timelines.select(*timeline, TIMELINE_NUMBER), timelines.count()
        before = timelines.select(*timeline, F.posexplode(F.array(*columns)).alias(TASK_RANGE, _BEFORE_US))
    if shift + max(1, count - 1).bit_length() > _BITS:
        return None
    return Packed(events, ranges, _Packing(shift, least, times_us[0], numbers, before))


@dataclass(frozen=True)
class Packed:
    """Events of which only those below a bound of the watermark are judged.

    An :class:`~pipelines.batch.stream_analytics.watermarks.judged.ExactlyJudged`.
    """

    events: InputEvents
    ranges: TaskRanges
    packing: _Packing

    @property
    def counting(self) -> DataFrame:
        """Those judged that count, and those that simply count at their own time."""
        judged = self._judged.filter(F.col(SYSTEM_US).isNotNull())
        if self.events.keep_all:
            return judged
        settled = self.events.timed.filter(self._is_settled)
        settled = settled.select(*map(quoted, self._columns), F.col(TIME_US).alias(SYSTEM_US))
        return settled.unionByName(judged.select(*map(quoted, settled.columns)))

    @property
    def verdicts(self) -> DataFrame:
        """Of those judged."""
        return self._judged.select(*VERDICT_COLUMNS)

    @property
    def kept_verdicts(self) -> DataFrame:
        """Made of the columns of a verdict alone: no payload is read."""
        scanned = self._scanned([*_FOR_A_VERDICT, *self.events.log.source.over])
        if not self.events.keep_all:
            scanned = scanned.filter(is_exception(self.events.policy))
        named = scanned.withColumn(INPUT, F.lit(self.events.log.source.name))
        return with_verdict(named, self.events.policy).select(*VERDICT_COLUMNS)

    @property
    def events_in_range(self) -> int | None:
        """Counted by the statistics, unless every event is judged."""
        return None if self.events.keep_all else self._statistics.rows_in_range

    @cached_property
    def shared(self) -> DataFrame | None:
        """Those judged, before they are."""
        return self._scanned(self._columns)

    @cached_property
    def _judged(self) -> DataFrame:
        assert self.shared is not None
        return with_verdict(self.shared, self.events.policy)

    @property
    def _statistics(self) -> LogStatistics:
        return self.ranges.statistics

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.events.timed.columns if name not in (ARRIVAL_TIME, ARRIVAL_DAY)]

    @property
    def _is_settled(self) -> Column:
        """Whether an event counts at its own time whatever its timeline has seen."""
        if self.events.keep_all:
            return F.lit(False)
        bound_us = self._statistics.greatest_time_at(F.col(ARRIVAL_US), self.events.greatest_before_us)
        return is_settled(bound_us, self.events.policy)

    def _scanned(self, columns: Sequence[str]) -> DataFrame:
        """``columns`` and MAX_BEFORE_US of the events that are not settled."""
        events, packing, timeline = self.events.timed, self.packing, self.ranges.timeline
        numbered, number = _numbered(events, timeline, packing.numbers)
        shifted = F.shiftleft(number, packing.shift)
        narrow = numbered.select(
            *(name for name in (ARRIVAL_TIME, ARRIVAL_DAY) if name in events.columns),
            (shifted + (F.col(SEQUENCE) - F.lit(packing.least_sequence))).alias(_PLACE),
            (shifted + (F.col(TIME_US) - F.lit(packing.least_time_us))).alias(_WEIGHT),
            F.when(~self._is_settled, F.struct(*map(quoted, columns))).alias(_ROW),
        )
        each = [
            _range(arrived(narrow, *bounds, ARRIVAL_TIME, ARRIVAL_DAY).select(_PLACE, _WEIGHT, _ROW), index, packing)
            for index, bounds in enumerate(self.ranges.bounds_us)
        ]
        rows = reduce(DataFrame.unionByName, each)
        if len(each) == 1:
            return self.events.after_initial_state(rows.drop(TASK_RANGE))
        # greatest passes over nulls
        greatest = F.greatest(F.col(MAX_BEFORE_US), F.col(_BEFORE_US))
        joined = rows.join(F.broadcast(packing.before), [*timeline, TASK_RANGE], "left")
        found = joined.withColumn(MAX_BEFORE_US, greatest).drop(TASK_RANGE, _BEFORE_US)
        return self.events.after_initial_state(found)


def _range(narrow: DataFrame, index: int, packing: _Packing) -> DataFrame:
    """The rows of one range of arrival, sorted and scanned by one task."""
    before = Window.orderBy(_PLACE).rowsBetween(Window.unboundedPreceding, -1)
    scanned = narrow.coalesce(1).withColumn(_HEAVIEST, F.max(_WEIGHT).over(before)).filter(F.col(_ROW).isNotNull())
    own = F.shiftright(F.col(_HEAVIEST), packing.shift) == F.shiftright(F.col(_PLACE), packing.shift)
    time_us = F.col(_HEAVIEST).bitwiseAND(F.lit((1 << packing.shift) - 1)) + F.lit(packing.least_time_us)
    return scanned.select(F.col(f"{_ROW}.*"), F.when(own, time_us).alias(MAX_BEFORE_US), F.lit(index).alias(TASK_RANGE))


def _numbered(events: DataFrame, timeline: Sequence[str], numbers: DataFrame | None) -> tuple[DataFrame, Column]:
    """``events`` and the number of each one's timeline; 0 without a key: such an event moves none and asks nothing."""
    if numbers is None:
        return events, F.col(PARTITION).cast("bigint")
    numbered = events.join(F.broadcast(numbers), list(timeline), "left")
    return numbered, F.coalesce(F.col(TIMELINE_NUMBER), F.lit(0).cast("bigint"))


def _numbered_partitions(ranges: TaskRanges) -> tuple[DataFrame | None, int]:
    """Rows of PARTITION and TIMELINE_NUMBER, None where each partition is its own number; and how many numbers."""
    partitions = ranges.statistics.partitions
    if ranges.partitions_are_numbers:
        return None, partitions[-1] + 1
    rows = [(one, number) for number, one in enumerate(partitions)]
    columns = [(PARTITION, "int"), (TIMELINE_NUMBER, "bigint")]
    return local_frame(ranges.timed.sparkSession, columns, rows), len(partitions)


def _before_by_partition(ranges: TaskRanges) -> DataFrame:
    rows = [
        (partition, index, time_us)
        for partition, before in ranges.greatest_before.items()
        for index, time_us in enumerate(before)
        if time_us is not None
    ]
    columns = [(PARTITION, "int"), (TASK_RANGE, "int"), (_BEFORE_US, "bigint")]
    return local_frame(ranges.timed.sparkSession, columns, rows)
