"""stream_analytics, live: each timeline's watermark, carried from batch to batch.

A timeline's next event counts at ``max(M - out_of_order, ts, arrival - late_arrival)`` or is dropped, so what a
partition may still bring lies at or after ``max(M - out_of_order, last arrival - late_arrival)``. The least of these
over all partitions is how far windows are final.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pipelines.core.model import StreamAnalyticsOrdering
from pipelines.live.program import Program
from pipelines.live.rows import Decision, Event, Row, decide
from pipelines.live.values import all_same, same


@dataclass(slots=True)
class Line:
    """What one input partition has said: its last arrival, and M for each tuple of ``over`` (all else: one, ``()``)."""

    arrival: int
    latest: dict[Hashable, int] = field(default_factory=dict)


@dataclass(slots=True)
class Analytics:
    """The state of the policy: one line for each input and partition that was heard."""

    lines: dict[tuple[str, int], Line] = field(default_factory=dict)
    known: dict[str, frozenset[int]] = field(default_factory=dict)

    def take(self, program: Program, events: Iterable[Event]) -> tuple[list[Decision], list[tuple[Event, Row]]]:
        """Decide ``events``, each partition's in order; gives their verdicts, and what counts."""
        decisions: list[Decision] = []
        counted: list[tuple[Event, Row]] = []
        for event in events:
            partition = event.partition
            if partition is None:
                continue
            line = self.lines.get((event.input, partition))
            if line is None:
                line = self.lines[event.input, partition] = Line(event.arrival)
            line.arrival = event.arrival
            if event.punctuation is not None:
                continue
            decision = _judge(program, line, event)
            decisions.append(decision)
            if decision.system is not None and program.reads(event.input):
                counted.append((event, program.row(event, decision.system)))
        return decisions, counted

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


def _judge(program: Program, line: Line, event: Event) -> Decision:
    ordering = program.job.ordering(event.input)
    assert isinstance(ordering, StreamAnalyticsOrdering)
    time, arrival = event.time, event.arrival
    if time is None:
        return decide(event, "dropped", ("invalid_time",))
    if None in event.over:
        return decide(event, "dropped", ("invalid_key",))
    key = all_same(event.over)
    latest = line.latest.get(key)
    if program.job.input(event.input).timestamp_by is None:
        line.latest[key] = arrival
        return decide(event, "accepted", system=arrival)
    early_us, late_us, back_us = ordering.early_arrival_us, ordering.late_arrival_us, ordering.out_of_order_us
    floors = [floor for floor in (latest, None if late_us is None else arrival - late_us) if floor is not None]
    watermark = max(floors) - back_us if floors else None
    if early_us is not None and time > arrival + early_us:
        return decide(event, "dropped", ("early",), watermark=watermark)
    reasons: list[str] = []
    system = time
    if late_us is not None and time < arrival - late_us:
        reasons.append("late")
        system = arrival - late_us
    line.latest[key] = system if latest is None else max(latest, system)
    if latest is not None and system < latest - back_us:
        reasons.append("out_of_order")
        system = latest - back_us
    if reasons and ordering.action == "drop":
        return decide(event, "dropped", (reasons[0],), watermark=watermark)
    return decide(event, "adjusted" if reasons else "accepted", tuple(reasons), system=system, watermark=watermark)
