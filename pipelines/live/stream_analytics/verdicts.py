"""Verdicts of stream_analytics, live (S1 to S8): a batch is judged as a whole, by arithmetic on columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.core.model import Job, StreamAnalyticsOrdering
from pipelines.live.state.batches import Batch
from pipelines.live.state.columns import Column, Mask, Numbers
from pipelines.live.state.output import VERDICTS
from pipelines.live.state.rows import NEVER
from pipelines.live.stream_analytics.timelines import LatestTimes, Timelines

_REASONS: tuple[tuple[str, ...], ...] = (
    (),
    ("invalid_time",),
    ("invalid_key",),
    ("early",),
    ("late",),
    ("out_of_order",),
    ("late", "out_of_order"),
)
_INVALID_TIME, _INVALID_KEY, _EARLY, _LATE, _OUT_OF_ORDER, _LATE_AND_OUT_OF_ORDER = range(1, 7)
_VERDICTS = ("accepted", "adjusted", "dropped")
_ACCEPTED, _ADJUSTED, _DROPPED = range(3)
_LONGEST_US = 1 << 61
"""Longer than all of history; int64 still holds sums with it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdicts by the column: ``reason`` is an index of ``_REASONS``; ``system`` and ``watermark`` are microseconds,
    NEVER for null. What was dropped has no system timestamp."""

    time: Column
    reason: Numbers
    system: Numbers
    watermark: Numbers

    @property
    def counts(self) -> Mask:
        """Which events were not dropped."""
        return np.not_equal(self.system, NEVER)

    def table(self, events: Batch) -> pa.Table:
        """As rows of :data:`~pipelines.live.state.output.VERDICTS`."""
        count = len(events)
        verdict = np.where(self.counts, np.where(self.reason == 0, _ACCEPTED, _ADJUSTED), _DROPPED)
        columns = {
            "input": pa.repeat(events.input, count),
            "input_partition": events.partition.astype(np.int32),
            "sequence": events.sequence,
            "arrival_time_us": events.arrival,
            "event_time_us": pa.array(self.time.whole(NEVER), mask=~self.time.present),
            "verdict": pa.array(_VERDICTS).take(verdict),
            "reasons": pa.array(_REASONS, VERDICTS.field("reasons").type).take(self.reason),
            "system_timestamp_us": _or_null(self.system),
            "lifetime_end_us": pa.nulls(count, pa.int64()),
            "watermark_us": _or_null(self.watermark),
            "missed_windows_us": pa.array([()], VERDICTS.field("missed_windows_us").type).take(np.zeros(count, int)),
        }
        return pa.table(columns, schema=VERDICTS)


def judge(job: Job, events: Batch, latest: LatestTimes) -> Judged:
    """The verdicts of events in arrival order; their times raise M in ``latest``."""
    part, ordering = job.input(events.input), job.ordering(events.input)
    assert isinstance(ordering, StreamAnalyticsOrdering)
    time = Column.full(events.arrival) if part.timestamp_by is None else events.columns["time"]
    over = events.listed("o", len(part.over))
    valid = np.logical_and.reduce([time.present, *(column.present for column in over)])
    reason = np.where(time.present, np.where(valid, 0, _INVALID_KEY), _INVALID_TIME)
    judged = Judged(time, reason, np.full(len(events), NEVER), np.full(len(events), NEVER))
    times, partition = time.take(valid).whole(NEVER), events.partition[valid]
    timelines = Timelines.of(events.input, partition, [column.take(valid) for column in over], latest)
    if part.timestamp_by is None:
        timelines.advance(times, np.ones(len(times), np.bool_))
        judged.system[valid] = times
    else:
        found = _ordered(ordering, events.arrival[valid], times, timelines)
        judged.reason[valid], judged.system[valid], judged.watermark[valid] = found
    return judged


def _ordered(
    ordering: StreamAnalyticsOrdering, arrival: Numbers, time: Numbers, timelines: Timelines
) -> tuple[Numbers, Numbers, Numbers]:
    """Of valid events: the reason, the system timestamp and the watermark before the event (S2 to S5, S7)."""
    early_us, late_us = _bounded(ordering.early_arrival_us), _bounded(ordering.late_arrival_us)
    back_us = min(ordering.out_of_order_us, _LONGEST_US)
    floor = np.full(len(time), NEVER) if late_us is None else arrival - late_us
    early = np.zeros(len(time), np.bool_) if early_us is None else time > arrival + early_us
    late = time < floor
    system = np.maximum(time, floor)
    latest = timelines.advance(system, ~early)
    known = np.maximum(latest, floor)
    watermark = np.where(known == NEVER, NEVER, known - back_us)
    behind = (latest != NEVER) & (system < latest - back_us)
    conditions = [early, late & behind, late, behind]
    reason = np.select(conditions, [_EARLY, _LATE_AND_OUT_OF_ORDER, _LATE, _OUT_OF_ORDER], 0)
    system = np.where(behind, latest - back_us, system)
    if ordering.action == "drop":
        # a refusal names the first test that refused
        reason = np.where(reason == _LATE_AND_OUT_OF_ORDER, _LATE, reason)
    dropped = reason != 0 if ordering.action == "drop" else early
    return reason, np.where(dropped, NEVER, system), watermark


def _bounded(tolerance_us: int | None) -> int | None:
    return None if tolerance_us is None else min(tolerance_us, _LONGEST_US)


def _or_null(instants: Numbers) -> pa.Array:
    return pa.array(instants, mask=instants == NEVER)
