"""Watermarks without a sort: where each partition's events are in order in the files, one pass over each is enough.

The log is cut into ranges of arrival. One task reads each range, file after file, and keeps the greatest time of every
timeline (:mod:`pipelines.batch.spark.task_state`), beginning with what earlier ranges had seen. It keeps the last
sequence number of every partition as well: an event that comes after a later one ends the query with
:data:`NOT_IN_ORDER`. So a log that is not in order costs time and never gives a wrong number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import LAST_SEQUENCE, MAX_BEFORE_US, PARTITION, SEQUENCE, TASK_RANGE, TIME_US
from pipelines.batch.logs import LogSlice
from pipelines.batch.spark.task_state import TaskState
from pipelines.batch.stream_analytics.input_events import InputEvents
from pipelines.batch.stream_analytics.watermarks.judged import EveryEvent
from pipelines.batch.stream_analytics.watermarks.task_ranges import TIMELINE_NUMBER, TaskRanges, arrived

NOT_IN_ORDER = "TAILRACE_NOT_IN_ORDER"
"""Part of the message of a query that met an event out of its partition's order."""

MOST_STATES = 200_000
"""Numbers, one for each timeline and range: all of them are part of the query, and of its text."""

_NO_TIME_US = -(2**62)
"""Below every time that is."""
_BEFORE_ALL = -(2**63)
_SEEN_US = "__seen_us"


@dataclass(frozen=True)
class _Timelines:
    """``numbers``: rows of a timeline's columns and TIMELINE_NUMBER; None: its partition is its number.
    ``greatest_us``: for each range, by number, the greatest time that came before it."""

    numbers: DataFrame | None
    greatest_us: list[list[int]]


def in_file_order(events: InputEvents, ranges: TaskRanges) -> EveryEvent | None:
    """Every event of the log, judged in the order of its files.

    Where a timeline is a part of a partition this passes over the log once, now. None where files are not known to be
    in order, the log is one range, or partitions or timelines are too many to be kept by number.
    """
    slices = events.log.slices
    # one range is joined to itself without a shuffle, by one task, whose copies of a frame share their state
    if slices is None or not ranges.partitions_are_numbers or not ranges.cuts:
        return None
    with ThreadPoolExecutor(1) as other:
        # frames are made on the driver while the log is passed over
        asked = other.submit(_timelines, ranges)
        timed = events.timed_of(_in_order(slices(), ranges))
        known = asked.result()
    if known is None:
        return None
    return EveryEvent(events, events.after_initial_state(_with_max_before(timed, ranges.timeline, known)))


def message_of_disorder(error: PySparkException) -> str | None:
    """What a query that ended with :data:`NOT_IN_ORDER` met; None for any other error."""
    parameters = error.getMessageParameters() or {}
    if error.getCondition() != "USER_RAISED_EXCEPTION":
        return None
    name, _, message = parameters.get("errorMessage", "").partition(": ")
    return message if name == NOT_IN_ORDER else None


def _in_order(slices: Sequence[LogSlice], ranges: TaskRanges) -> DataFrame:
    """The log's events in the order of its files, range for range, with TASK_RANGE and LAST_SEQUENCE."""
    each = [
        arrived(_all(mine), from_us, to_us).withColumn(TASK_RANGE, F.lit(index)).coalesce(1)
        for index, (from_us, to_us) in enumerate(ranges.bounds_us)
        if (mine := [one.arrivals for one in slices if one.may_contain(from_us, to_us)])
    ]
    events = _all(each).filter("punctuation_time IS NULL")
    # first of all: what is not deterministic keeps the optimiser from computing anything once more for each range
    partitions = ranges.statistics.partitions[-1] + 1
    last_before = TaskState(events.sparkSession, [_BEFORE_ALL] * (len(ranges.cuts) + 1) * partitions)
    place = F.col(TASK_RANGE) * partitions + F.col("input_partition")
    return events.withColumn(LAST_SEQUENCE, last_before.replace(place, F.col("sequence")))


def _with_max_before(timed: DataFrame, timeline: Sequence[str], known: _Timelines) -> DataFrame:
    """``timed`` (rows with TASK_RANGE and LAST_SEQUENCE, each range one task's and in order) with MAX_BEFORE_US."""
    if known.numbers is None:
        rows = timed.withColumn(TIMELINE_NUMBER, F.col(PARTITION))
    else:
        # a broadcast join passes rows on in their order
        rows = timed.join(F.broadcast(known.numbers), list(timeline), "left")
        rows = rows.withColumn(TIMELINE_NUMBER, F.col(TIMELINE_NUMBER).cast("int"))
    nothing = F.lit(_NO_TIME_US)
    greatest = TaskState(timed.sparkSession, [time_us for before in known.greatest_us for time_us in before])
    place = F.col(TASK_RANGE) * len(known.greatest_us[0]) + F.col(TIMELINE_NUMBER)
    # an event without a key has no number: it moves no watermark and meets none
    seen = greatest.raise_to(place, F.coalesce(F.col(TIME_US), nothing))
    rows = rows.withColumn(_SEEN_US, F.when(F.col(LAST_SEQUENCE) < F.col(SEQUENCE), seen).otherwise(_out_of_order()))
    found = F.when(F.col(_SEEN_US) > nothing, F.col(_SEEN_US))
    return rows.withColumn(MAX_BEFORE_US, found).drop(_SEEN_US, LAST_SEQUENCE, TIMELINE_NUMBER, TASK_RANGE)


def _out_of_order() -> Column:
    message = F.concat(
        F.lit(f"{NOT_IN_ORDER}: sequence "), SEQUENCE, F.lit(" of partition "), PARTITION, F.lit(" follows a later one")
    )
    return F.raise_error(message).cast("bigint")


def _timelines(ranges: TaskRanges) -> _Timelines | None:
    if ranges.timelines_are_partitions:
        count = ranges.statistics.partitions[-1] + 1
        return _Timelines(None, _by_range(ranges, count, ranges.greatest_before.items()))
    timelines, before = ranges.timelines
    most = MOST_STATES // len(before)
    found = timelines.select(TIMELINE_NUMBER, F.array(*before)).limit(most + 1).collect()
    if len(found) > most:
        return None
    numbers = timelines.select(*ranges.timeline, TIMELINE_NUMBER)
    return _Timelines(numbers, _by_range(ranges, len(found), ((row[0], row[1]) for row in found)))


def _by_range(
    ranges: TaskRanges, count: int, greatest_before: Iterable[tuple[int, Sequence[int | None]]]
) -> list[list[int]]:
    """For each range, by the number of a timeline, the greatest time before it."""
    found = [[_NO_TIME_US] * count for _ in range(len(ranges.cuts) + 1)]
    for number, greatest in greatest_before:
        for index, time_us in enumerate(greatest):
            if time_us is not None:
                found[index][number] = time_us
    return found


def _all(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, frames)
