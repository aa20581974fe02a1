"""Verdicts of stream_analytics, live (S1 to S8): a batch is judged as a whole, by arithmetic on columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.model import Job, StreamAnalyticsOrdering
from pipelines.core.values import grouping_key
from pipelines.live.state.batches import Batch
from pipelines.live.state.columns import Mask, Numbers, numbered, present, starts_of_runs, whole
from pipelines.live.state.output import VERDICTS
from pipelines.live.state.rows import NEVER

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
LatestTimes = dict[tuple[str, int], dict[Any, int]]
"""M of each timeline in microseconds (S5), by input and partition, then by the values of ``over``."""
_LONGEST_US = 1 << 61
"""Longer than all of history; sums with it still fit int64."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdicts by the column: ``reason`` is an index of ``_REASONS``; ``system`` and ``watermark`` are microseconds,
    NEVER for null. What was dropped has no system timestamp."""

    time: pa.ChunkedArray
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
            "input": pa.repeat(events.part.name, count),
            "input_partition": whole(events.rows["partition"], 0).astype(np.int32),
            "sequence": events.rows["sequence"],
            "arrival_time_us": events.rows["arrival"],
            "event_time_us": self.time,
            "verdict": pa.array(_VERDICTS).take(verdict),
            "reasons": pa.array(_REASONS, VERDICTS.field("reasons").type).take(self.reason),
            "system_timestamp_us": _or_null(self.system),
            "lifetime_end_us": pa.nulls(count, pa.int64()),
            "watermark_us": _or_null(self.watermark),
            "missed_windows_us": pa.array([()], VERDICTS.field("missed_windows_us").type).take(np.zeros(count, int)),
        }
        return pa.table(columns, schema=VERDICTS)


def judge(job: Job, events: Batch, latest: LatestTimes) -> Judged:
    """The verdicts of events in arrival order; their times raise M in ``latest`` (S5, S6)."""
    part, ordering = events.part, job.ordering(events.part.name)
    assert isinstance(ordering, StreamAnalyticsOrdering)
    time = events.rows["arrival" if part.timestamp_by is None else "time"].cast(pa.int64())
    over = events.listed("o")
    valid = np.logical_and.reduce([present(column) for column in (time, *over)])
    reason = np.where(present(time), np.where(valid, 0, _INVALID_KEY), _INVALID_TIME)
    judged = Judged(time, reason, np.full(len(events), NEVER), np.full(len(events), NEVER))
    valid_events, times = events.filter(valid), whole(time, NEVER)[valid]
    if part.timestamp_by is None:
        _latest_before(valid_events, times, np.ones(len(times), np.bool_), latest)
        judged.system[valid] = times
    else:
        found = _ordered(ordering, valid_events, times, latest)
        judged.reason[valid], judged.system[valid], judged.watermark[valid] = found
    return judged


def _latest_before(events: Batch, times: Numbers, seen: Mask, latest: LatestTimes) -> Numbers:
    """M before each event, NEVER where there is none yet. After an event that is ``seen``, M is the greater of M and
    its time; ``latest`` has M before and after all."""
    number, keys = numbered([events.rows["partition"], *events.listed("o")], len(events))
    timelines = [(latest.setdefault((events.part.name, key[0]), {}), grouping_key(key[1:])) for key in keys]
    order = np.argsort(number, kind="stable")
    starts = starts_of_runs(number[order])
    own = np.where(seen, times, NEVER)[order]
    before = np.empty_like(own)
    before[1:] = own[:-1]
    before[starts] = [known.get(key, NEVER) for known, key in timelines]
    for (known, key), (begin, end) in zip(timelines, pairwise([*starts.tolist(), len(own)]), strict=True):
        before[begin:end] = np.maximum.accumulate(before[begin:end])
        after = int(max(before[end - 1], own[end - 1]))
        if after != NEVER:
            known[key] = after
    result = np.empty_like(before)
    result[order] = before
    return result


def _ordered(
    ordering: StreamAnalyticsOrdering, events: Batch, time: Numbers, latest: LatestTimes
) -> tuple[Numbers, Numbers, Numbers]:
    """Of valid events: the reason, the system timestamp and the watermark before the event (S2 to S5, S7)."""
    arrival = whole(events.rows["arrival"], 0)
    early_us, late_us = _bounded(ordering.early_arrival_us), _bounded(ordering.late_arrival_us)
    back_us = min(ordering.out_of_order_us, _LONGEST_US)
    floor = np.full(len(time), NEVER) if late_us is None else arrival - late_us
    early = np.zeros(len(time), np.bool_) if early_us is None else time > arrival + early_us
    late = time < floor
    system = np.maximum(time, floor)
    before = _latest_before(events, system, ~early, latest)
    known = np.maximum(before, floor)
    watermark = np.where(known == NEVER, NEVER, known - back_us)
    behind = (before != NEVER) & (system < before - back_us)
    conditions = [early, late & behind, late, behind]
    reason = np.select(conditions, [_EARLY, _LATE_AND_OUT_OF_ORDER, _LATE, _OUT_OF_ORDER], 0)
    system = np.where(behind, before - back_us, system)
    if ordering.action == "drop":
        # a refusal names the first test that refused
        reason = np.where(reason == _LATE_AND_OUT_OF_ORDER, _LATE, reason)
    dropped = reason != 0 if ordering.action == "drop" else early
    return reason, np.where(dropped, NEVER, system), watermark


def _bounded(tolerance_us: int | None) -> int | None:
    return None if tolerance_us is None else min(tolerance_us, _LONGEST_US)


def _or_null(instants: Numbers) -> pa.Array:
    return pa.array(instants, mask=instants == NEVER)
