"""A running maximum without any sort: where files hold each partition's events in order, one look at each is enough.

The log is cut into lanes of arrival, each read by one task, file after file. A task remembers the greatest time of
every timeline (:mod:`pipelines.batch.spark.task_state`), beginning with what earlier lanes saw. It remembers the last
sequence number as well: an event that comes after a later one ends the query with :data:`NOT_IN_ORDER`, so that a log
that is not what it was taken for costs time, and never a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import LAST_SEQUENCE, MAX_BEFORE_US, PARTITION, SEQUENCE, TASK_RANGE, TIME_US
from pipelines.batch.logs import Log, LogSlice
from pipelines.batch.spark.task_state import TaskState
from pipelines.batch.stream_analytics.watermarks.task_ranges import RANK, TaskRanges, are_plain, arrived, ends

NOT_IN_ORDER = "TAILRACE_NOT_IN_ORDER"
"""Part of the message of a query that met an event out of its partition's order."""

MOST_REMEMBERED = 200_000
"""Numbers, one for each timeline and lane: all of them are part of the query, and of its text."""

_NOTHING_US = -(2**62)
"""Below every time that is."""
_BEFORE_ALL = -(2**63)
_RAISED = "__raised"


@dataclass(frozen=True)
class _Timelines:
    """``ranks``: rows of a timeline's columns and RANK; None: its partition is its number. ``before``: for each lane,
    by number, the greatest time that came before it."""

    ranks: DataFrame | None
    before: list[list[int]]


def with_max_before(log: Log, timed_of: Callable[[DataFrame], DataFrame], task_ranges: TaskRanges) -> DataFrame | None:
    """Every event of ``log``, as ``timed_of`` makes it from arrivals, and MAX_BEFORE_US.

    Where a timeline is a part of a partition this passes over the log once, now. None where the log has no pieces or is
    one lane, or partitions or timelines are too many to be remembered by number.
    """
    # one partition is joined to itself without a shuffle, by one task, whose copies of a frame share what it holds
    if log.slices is None or not are_plain(task_ranges.facts) or not task_ranges.cuts:
        return None
    with ThreadPoolExecutor(1) as beside:
        # frames are made on the driver while the log is passed over
        asked = beside.submit(_known, task_ranges)
        looked = timed_of(_looked(log.slices(), task_ranges))
        known = asked.result()
    return None if known is None else _raised(looked, task_ranges.timeline, known)


def _looked(slices: Sequence[LogSlice], task_ranges: TaskRanges) -> DataFrame:
    """The log's events as they lie, lane for lane, with LANE and LAST_SEQUENCE."""
    each = [
        arrived(_all(mine), from_us, to_us).withColumn(TASK_RANGE, F.lit(index)).coalesce(1)
        for index, (from_us, to_us) in enumerate(ends(task_ranges.cuts))
        if (mine := [log_slice.arrivals for log_slice in slices if log_slice.may_hold(from_us, to_us)])
    ]
    events = _all(each).filter("punctuation_time IS NULL")
    # first of all: what is not deterministic keeps the optimiser from computing anything once more for each lane
    partitions = task_ranges.facts.partitions[-1] + 1
    last_before = TaskState(events.sparkSession, [_BEFORE_ALL] * (len(task_ranges.cuts) + 1) * partitions)
    place = F.col(TASK_RANGE) * partitions + F.col("input_partition")
    return events.withColumn(LAST_SEQUENCE, last_before.replace(place, F.col("sequence")))


def _raised(timed: DataFrame, timeline: Sequence[str], known: _Timelines) -> DataFrame:
    """``timed`` (rows with LANE and LAST_SEQUENCE, each lane one task's and in order) with MAX_BEFORE_US."""
    if known.ranks is None:
        rows = timed.withColumn(RANK, F.col(PARTITION))
    else:
        # what is passed on is in the order of what is looked up for, which a broadcast leaves as it is
        rows = timed.join(F.broadcast(known.ranks), list(timeline), "left").withColumn(RANK, F.col(RANK).cast("int"))
    nothing = F.lit(_NOTHING_US)
    greatest = TaskState(timed.sparkSession, [time_us for task_range in known.before for time_us in task_range])
    place = F.col(TASK_RANGE) * len(known.before[0]) + F.col(RANK)
    # an event without a key has no number: it moves none and is told nothing
    raised = greatest.raise_to(place, F.coalesce(F.col(TIME_US), nothing))
    rows = rows.withColumn(_RAISED, F.when(F.col(LAST_SEQUENCE) < F.col(SEQUENCE), raised).otherwise(_out_of_order()))
    found = F.when(F.col(_RAISED) > nothing, F.col(_RAISED))
    return rows.withColumn(MAX_BEFORE_US, found).drop(_RAISED, LAST_SEQUENCE, RANK, TASK_RANGE)


def _out_of_order() -> Column:
    told = F.concat(
        F.lit(f"{NOT_IN_ORDER}: sequence "), SEQUENCE, F.lit(" of partition "), PARTITION, F.lit(" lies after a later")
    )
    return F.raise_error(told).cast("bigint")


def _known(task_ranges: TaskRanges) -> _Timelines | None:
    return (
        _Timelines(None, _before_by_partition(task_ranges))
        if task_ranges.are_of_partitions
        else _of_timelines(task_ranges)
    )


def _before_by_partition(task_ranges: TaskRanges) -> list[list[int]]:
    before = [[_NOTHING_US] * (task_ranges.facts.partitions[-1] + 1) for _ in range(len(task_ranges.cuts) + 1)]
    for partition, highest in task_ranges.highest_before.items():
        for task_range, time_us in enumerate(highest):
            if time_us is not None:
                before[task_range][partition] = time_us
    return before


def _of_timelines(task_ranges: TaskRanges) -> _Timelines | None:
    known, before_lanes = task_ranges.numbered
    most = MOST_REMEMBERED // len(before_lanes)
    found = known.select(RANK, F.array(*before_lanes)).limit(most + 1).collect()
    if len(found) > most:
        return None
    before = [[_NOTHING_US] * len(found) for _ in before_lanes]
    for rank, highest in found:
        for task_range, time_us in enumerate(highest):
            if time_us is not None:
                before[task_range][rank] = time_us
    return _Timelines(known.select(*task_ranges.timeline, RANK), before)


def _all(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, frames)
