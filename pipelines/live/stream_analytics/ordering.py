"""stream_analytics, live: each timeline's watermark, carried from batch to batch.

A timeline's next event counts at ``max(M - out_of_order, ts, arrival - late_arrival)`` or is dropped, so what a
partition may still bring lies at or after ``max(M - out_of_order, last arrival - late_arrival)``. The least of these
over all partitions is how far windows are final.

A batch is decided as a whole: M before each event is a running maximum along its timeline
(:mod:`~pipelines.live.stream_analytics.timelines`), the rest is arithmetic on columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.model import StreamAnalyticsOrdering
from pipelines.live.state.batches import EVERY_PARTITION, Batch, Counted
from pipelines.live.state.columns import Column, Mask, Numbers
from pipelines.live.state.program import Program
from pipelines.live.state.rows import VERDICTS
from pipelines.live.stream_analytics.timelines import Latest, Timelines
from pipelines.live.values import same
from pipelines.live.windows.assign import NEVER

_REASONS: tuple[tuple[str, ...], ...] = (
    (),
    ("invalid_time",),
    ("invalid_key",),
    ("early",),
    ("late",),
    ("out_of_order",),
    ("late", "out_of_order"),
)
_INVALID_TIME, _INVALID_KEY, _EARLY, _LATE, _BEHIND, _LATE_AND_BEHIND = range(1, 7)
_VERDICTS = ("accepted", "adjusted", "dropped")
_ACCEPTED, _ADJUSTED, _DROPPED = range(3)
_LONGEST_US = 1 << 61
"""Longer than all of history; int64 still holds sums with it."""


@dataclass(slots=True)
class Line:
    """What one input partition has said: its last arrival, and M for each tuple of ``over`` (all else: one, ``()``)."""

    arrival: int
    latest: Latest = field(default_factory=dict)


@dataclass(slots=True)
class Analytics:
    """The state of the policy: one line for each input and partition that was heard."""

    lines: dict[tuple[str, int], Line] = field(default_factory=dict)
    known: dict[str, frozenset[int]] = field(default_factory=dict)

    def take(self, program: Program, batch: Batch) -> tuple[pa.Table, Counted]:
        """Decide a batch; gives the events' verdicts, and what counts."""
        spoken = batch.take(batch.partition != EVERY_PARTITION)
        for partition, _, last in spoken.ends():
            self.lines.setdefault((batch.input, partition), Line(last[0])).arrival = last[0]
        events = spoken.take(~spoken.columns["punctuation"].present)
        judged = self._judge(program, events)
        return judged.table(events), Counted(events.take(judged.counts), judged.system[judged.counts])

    def _judge(self, program: Program, events: Batch) -> Judged:
        part, ordering = program.job.input(events.input), program.job.ordering(events.input)
        assert isinstance(ordering, StreamAnalyticsOrdering)
        time = Column.full(events.arrival) if part.timestamp_by is None else events.columns["time"]
        over = events.listed("o", len(part.over))
        keyed = np.logical_and.reduce([time.present, *(column.present for column in over)])
        reason = np.where(time.present, np.where(keyed, 0, _INVALID_KEY), _INVALID_TIME)
        judged = Judged(time, reason, np.full(len(events), NEVER), np.full(len(events), NEVER))
        valid = events.take(keyed)
        latest = {partition: self.lines[events.input, partition].latest for partition, _, _ in valid.ends()}
        timelines = Timelines.of(valid.partition, [column.take(keyed) for column in over], latest)
        times = time.take(keyed).whole(NEVER)
        if part.timestamp_by is None:
            timelines.pass_by(times, np.ones(len(valid), np.bool_))
            judged.system[keyed] = times
        else:
            found = _placed(ordering, valid.arrival, times, timelines)
            judged.reason[keyed], judged.system[keyed], judged.watermark[keyed] = found
        return judged

    def expected(self, program: Program, name: str) -> frozenset[int]:
        """The partitions of an input that may speak: those of the log, and those the job declares."""
        heard = frozenset(partition for source, partition in self.lines if source == name)
        return heard | self.known.get(name, frozenset()) | frozenset(range(program.job.input(name).partitions or 0))

    def bound(self, program: Program, name: str) -> int | None:
        """No row of this input that is still to come counts before this instant; None: nothing is known yet."""
        bounds = [self._bound(program, name, partition) for partition in self.expected(program, name)]
        if not bounds and not program.job.input(name).partitions:
            return None
        return None if None in bounds else min(bound for bound in bounds if bound is not None)

    def _bound(self, program: Program, name: str, partition: int) -> int | None:
        line = self.lines.get((name, partition))
        if line is None:
            return None
        part, ordering = program.job.input(name), program.job.ordering(name)
        assert isinstance(ordering, StreamAnalyticsOrdering)
        if part.timestamp_by is None:
            return line.arrival
        bounds = []
        if ordering.late_arrival_us is not None:
            bounds.append(line.arrival - ordering.late_arrival_us)
        if not part.over and () in line.latest:
            bounds.append(line.latest[()] - ordering.out_of_order_us)
        return max(bounds, default=None)

    # -- end_of_log: hold ---------------------------------------------------------------------------------------------

    def released(self, program: Program, end: int, group: dict[str, Any]) -> bool:
        """Whether ``hold`` emits a window of that end: ``end < M - out_of_order`` of each timeline that feeds it."""
        meant = {program.meaning(*column.rpartition(".")[::2]): value for column, value in group.items()}
        for name in program.sources:
            part, ordering = program.job.input(name), program.job.ordering(name)
            assert isinstance(ordering, StreamAnalyticsOrdering)
            back_us = 0 if part.timestamp_by is None else ordering.out_of_order_us
            columns = [program.meaning(name, column) for column in part.over]
            wanted = [(index, same(meant[column])) for index, column in enumerate(columns) if column in meant]
            for partition in self.expected(program, name):
                line = self.lines.get((name, partition))
                latest = {} if line is None else line.latest
                if not part.over and () not in latest:
                    return False
                for key, time in latest.items():
                    assert isinstance(key, tuple)
                    if all(key[index] == value for index, value in wanted) and not end < time - back_us:
                        return False
        return True

    def surely_released(self, program: Program, end: int) -> bool:
        """Whether no timeline that is still to begin can take :meth:`released` back."""
        for name in program.sources:
            part, ordering = program.job.input(name), program.job.ordering(name)
            assert isinstance(ordering, StreamAnalyticsOrdering)
            if not part.over:
                continue
            late_us = 0 if part.timestamp_by is None else ordering.late_arrival_us
            lines = [self.lines.get((name, partition)) for partition in self.expected(program, name)]
            if late_us is None or None in lines:
                return False
            floor = min((line.arrival - late_us for line in lines if line is not None), default=None)
            if floor is None or not end < floor - ordering.out_of_order_us:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of events, by the column: ``reason`` is a place in ``_REASONS``; NEVER stands for null, and what
    was dropped counts at no time."""

    time: Column
    reason: Numbers
    system: Numbers
    watermark: Numbers

    @property
    def counts(self) -> Mask:
        """Which were not dropped."""
        return np.not_equal(self.system, NEVER)

    def table(self, events: Batch) -> pa.Table:
        """As rows of :data:`~pipelines.live.state.rows.VERDICTS`."""
        count = len(events)
        verdict = np.where(self.counts, np.where(self.reason == 0, _ACCEPTED, _ADJUSTED), _DROPPED)
        columns = {
            "input": pa.repeat(events.input, count),
            "partition": events.partition.astype(np.int32),
            "sequence": events.sequence,
            "arrival": events.arrival,
            "time": pa.array(self.time.whole(NEVER), mask=~self.time.present),
            "verdict": pa.array(_VERDICTS).take(verdict),
            "reasons": pa.array(_REASONS, VERDICTS.field("reasons").type).take(self.reason),
            "system": _or_null(self.system),
            "lifetime_end": pa.nulls(count, pa.int64()),
            "watermark": _or_null(self.watermark),
            "missed": pa.array([()], VERDICTS.field("missed").type).take(np.zeros(count, np.int64)),
        }
        return pa.table(columns, schema=VERDICTS)


def _or_null(instants: Numbers) -> pa.Array:
    return pa.array(instants, mask=instants == NEVER)


def _placed(
    ordering: StreamAnalyticsOrdering, arrival: Numbers, time: Numbers, timelines: Timelines
) -> tuple[Numbers, Numbers, Numbers]:
    """Of valid events in arrival order: the reason, the system timestamp and the watermark that each met."""
    early_us, late_us = _bounded(ordering.early_arrival_us), _bounded(ordering.late_arrival_us)
    back_us = min(ordering.out_of_order_us, _LONGEST_US)
    floor = np.full(len(time), NEVER) if late_us is None else arrival - late_us
    early = np.zeros(len(time), np.bool_) if early_us is None else time > arrival + early_us
    late = time < floor
    system = np.maximum(time, floor)
    latest = timelines.pass_by(system, ~early)
    known = np.maximum(latest, floor)
    watermark = np.where(known == NEVER, NEVER, known - back_us)
    behind = (latest != NEVER) & (system < latest - back_us)
    reason = np.select([early, late & behind, late, behind], [_EARLY, _LATE_AND_BEHIND, _LATE, _BEHIND], 0)
    system = np.where(behind, latest - back_us, system)
    if ordering.action == "drop":
        # a refusal names the first test that refused
        reason = np.where(reason == _LATE_AND_BEHIND, _LATE, reason)
    dropped = reason != 0 if ordering.action == "drop" else early
    return reason, np.where(dropped, NEVER, system), watermark


def _bounded(tolerance_us: int | None) -> int | None:
    return None if tolerance_us is None else min(tolerance_us, _LONGEST_US)
