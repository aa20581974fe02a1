"""The ordering policy of Azure Stream Analytics: early guard, late tolerance, out-of-order tolerance.

Per event, with ``a`` its arrival time and ``ts`` its event time; every comparison is strict on the bad side:

1. ``ts`` null: dropped, ``invalid_time`` (G7). A value of ``over`` null: dropped, ``invalid_key`` (S1).
2. ``ts > a + early``: dropped as ``early`` whatever the action; the timeline does not see it (S2).
3. ``ts < a - late``: ``late``; it counts at ``t = a - late``, or is dropped. Else ``t = ts`` (S3).
4. ``t < M - out_of_order``: ``out_of_order``; it counts at that bound, or is dropped (S4).
5. ``M = max(M, t)``, also for events dropped in 3 and 4: such an event is below what any later one may have (S5).

A timeline, which owns one ``M``, is an input partition, and with ``over`` one key tuple inside it (S6). Without
``timestamp_by`` events count when they arrive: no policy applies, and there is no watermark (S8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.core.model import Decision, Grid, Job, Session, Sliding, Snapshot, StreamAnalyticsOrdering, Verdict
from pipelines.core.values import grouping_key
from pipelines.plan.initial_state import InitialStates, TimelineState, timeline_values
from pipelines.reference import sessions, windows
from pipelines.reference.events import Event, Ordered, Profile, Row


@dataclass(slots=True)
class Timeline:
    """What shares one watermark. ``latest_us`` is M, the greatest late-adjusted time so far; None before the first.

    ``ordering`` is None where events count when they arrive.
    """

    ordering: StreamAnalyticsOrdering | None
    latest_us: int | None = None

    def step(self, event: Event) -> Decision:
        """The decision of the timeline's next event, whose time and key are valid; moves M."""
        assert event.event_time_us is not None
        if self.ordering is not None:
            return self._judge(self.ordering, event, event.event_time_us)
        self.see(event.event_time_us)
        return event.decision(verdict="accepted", system_timestamp_us=event.event_time_us)

    def settled_until_us(self) -> int | None:
        """``M - out_of_order``: what ends before it was emitted; None if nothing was seen."""
        tolerance_us = 0 if self.ordering is None else self.ordering.out_of_order_us
        return None if self.latest_us is None else self.latest_us - tolerance_us

    def see(self, time_us: int) -> None:
        """Raises M."""
        self.latest_us = time_us if self.latest_us is None else max(self.latest_us, time_us)

    def _judge(self, ordering: StreamAnalyticsOrdering, event: Event, time_us: int) -> Decision:
        arrival_us, latest_us = event.arrival.arrival_time_us, self.latest_us
        watermark_us = _watermark_us(ordering, arrival_us, latest_us)
        if ordering.early_arrival_us is not None and time_us > arrival_us + ordering.early_arrival_us:
            return event.decision(verdict="dropped", reasons=("early",), watermark_us=watermark_us)
        reasons = []
        if ordering.late_arrival_us is not None and time_us < arrival_us - ordering.late_arrival_us:
            time_us = arrival_us - ordering.late_arrival_us
            reasons.append("late")
        self.see(time_us)
        if latest_us is not None and time_us < latest_us - ordering.out_of_order_us:
            time_us = latest_us - ordering.out_of_order_us
            reasons.append("out_of_order")
        if reasons and ordering.action == "drop":
            return event.decision(verdict="dropped", reasons=(reasons[0],), watermark_us=watermark_us)
        verdict: Verdict = "adjusted" if reasons else "accepted"
        return event.decision(
            verdict=verdict, reasons=tuple(reasons), system_timestamp_us=time_us, watermark_us=watermark_us
        )


def _watermark_us(ordering: StreamAnalyticsOrdering, arrival_us: int, latest_us: int | None) -> int | None:
    """``max(M, arrival - late) - out_of_order``: it does not depend on where reading began (S7)."""
    late_us = ordering.late_arrival_us
    known = [] if latest_us is None else [latest_us]
    known += [] if late_us is None else [arrival_us - late_us]
    return max(known) - ordering.out_of_order_us if known else None


Timelines = dict[tuple[str, int, tuple[object, ...]], Timeline]
"""By input, input partition and key tuple."""


def order(job: Job, log: Sequence[Event], initial_states: InitialStates | None = None) -> Ordered:
    """Every event's decision, each by its own timeline; punctuations say nothing here."""
    timelines: Timelines = {}
    for name, initial_state in (initial_states or {}).items():
        _recall(job, name, initial_state.before, timelines)
    decisions: list[Decision] = []
    rows: list[Row] = []
    for event in log:
        if event.arrival.punctuation_us is not None:
            continue
        decision = _decision(job, event, timelines)
        decisions.append(decision)
        if decision.system_timestamp_us is not None:
            rows.append(
                Row(
                    decision.system_timestamp_us,
                    (event.position,),
                    event.arrival.payload,
                    event.read,
                    input=event.arrival.input,
                )
            )
    known = {name: initial_state.partitions for name, initial_state in (initial_states or {}).items()}
    for name, initial_state in (initial_states or {}).items():
        _recall(job, name, initial_state.at_end, timelines)
    return Ordered(tuple(decisions), tuple(rows), SettledWindows(job, log, timelines, known))


def _recall(job: Job, name: str, seen: Sequence[TimelineState], timelines: Timelines) -> None:
    part = job.input(name)
    for one in seen:
        if one.time_us is not None:
            assert one.partition is not None
            key = tuple(grouping_key(value) for value in timeline_values(part, one.timeline))
            timelines.setdefault((name, one.partition, key), Timeline(_applies(job, name))).see(one.time_us)


def _applies(job: Job, name: str) -> StreamAnalyticsOrdering | None:
    ordering = job.ordering(name)
    assert isinstance(ordering, StreamAnalyticsOrdering)
    return ordering if job.input(name).timestamp_by is not None else None


def _decision(job: Job, event: Event, timelines: Timelines) -> Decision:
    if event.event_time_us is None:
        return event.decision(verdict="dropped", reasons=("invalid_time",))
    if event.key is None:
        return event.decision(verdict="dropped", reasons=("invalid_key",))
    name, partition = event.arrival.input, event.arrival.input_partition
    assert partition is not None
    return timelines.setdefault((name, partition, event.key), Timeline(_applies(job, name))).step(event)


class SettledWindows:
    """Which windows the watermarks had passed when the log ended (S15).

    Rule: a window is emitted iff its end is strictly below the least ``M - out_of_order`` of all partitions of all
    inputs that the query reads; a partition known to exist and not heard holds everything. With ``over`` the timelines
    that count are those whose key agrees with the row's group keys: each substream goes ahead alone.
    """

    def __init__(
        self, job: Job, log: Sequence[Event], timelines: Timelines, known: Mapping[str, frozenset[int]]
    ) -> None:
        self.join = None if job.steps is not None else job.window_query.join
        self.bounds: list[tuple[dict[str, object], int | None]] = []
        for name in job.sources:
            part = job.input(name)
            heard: set[int | None] = set()
            for (other, partition, key), line in timelines.items():
                if other == name and line.latest_us is not None:
                    heard.add(partition)
                    agree = {self._name(name, column): value for column, value in zip(part.over, key, strict=True)}
                    self.bounds.append((agree, line.settled_until_us()))
            if not part.over:
                partitions = {one.arrival.input_partition for one in log if one.arrival.input == name} - {None}
                partitions |= known.get(name, frozenset())
                self.bounds.extend(({}, None) for _ in partitions.union(range(part.partitions or 0)) - heard)

    def __call__(self, end_us: int, keys: Mapping[str, object]) -> bool:
        group = {self._name(*name.rpartition(".")[::2]): grouping_key(value) for name, value in keys.items()}
        return all(
            bound_us is not None and end_us < bound_us
            for agree, bound_us in self.bounds
            if all(group.get(name, value) == value for name, value in agree.items())
        )

    def _name(self, input_name: str, column: str) -> str:
        """One name for a column on which a join's sides agree, ``input.column`` for any other of a join."""
        if self.join is None or column.lower() in (name.lower() for name in self.join.on):
            return column.lower()
        return f"{input_name}.{column}".lower()


PROFILE = Profile(
    order=order,
    assign={
        Grid: windows.assign_ends_on_grid,
        Sliding: windows.assign_sliding,
        Session: sessions.assign_timeout_sessions,
        Snapshot: windows.assign_equal_times,
    },
)
