"""The ordering policy of Azure Stream Analytics: early guard, late tolerance, out-of-order tolerance.

Per event, with ``a`` its arrival time and ``ts`` its event time; every comparison is strict on the bad side:

1. ``ts`` null: dropped, ``invalid_time``. A value of ``over`` null: dropped, ``invalid_key``.
2. ``ts > a + early``: dropped as ``early`` whatever the action; the timeline does not see it.
3. ``ts < a - late``: ``late``; it counts at ``t = a - late``, or is dropped. Else ``t = ts``.
4. ``t < M - out_of_order``: ``out_of_order``; it counts at that bound, or is dropped.
5. ``M = max(M, t)``, also for events dropped in 3 and 4: such an event lies below what any later one may have.

A timeline, which owns one ``M``, is an input partition, and with ``over`` one key tuple inside it. Without
``timestamp_by`` the event time is the arrival time; as arrival never falls within a partition, no test ever fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.core import sessions, windows
from pipelines.core.events import Event, Ordered, Profile, Row
from pipelines.core.model import Fate, Grid, Job, Session, Sliding, Snapshot, StreamAnalyticsOrdering, Verdict
from pipelines.core.values import grouping_key


@dataclass(slots=True)
class Timeline:
    """What shares one watermark. ``latest_us`` is M, the greatest late-adjusted time so far; None before the first."""

    ordering: StreamAnalyticsOrdering
    latest_us: int | None = None

    def watermark_us(self, arrival_us: int) -> int | None:
        """``max(M, arrival - late) - out_of_order``: a bound below which no time can be, wherever reading began."""
        known = [bound for bound in (self.latest_us, self.late_bound_us(arrival_us)) if bound is not None]
        return max(known) - self.ordering.out_of_order_us if known else None

    def late_bound_us(self, arrival_us: int) -> int | None:
        """The earliest time in tolerance for an event that arrives now; None where lateness is unbounded."""
        late_us = self.ordering.late_arrival_us
        return None if late_us is None else arrival_us - late_us

    def step(self, event: Event) -> Fate:
        """The fate of the timeline's next event, whose time and key are valid; moves M."""
        arrival_us, time_us = event.arrival.arrival_time_us, event.event_time_us
        assert time_us is not None
        ordering, watermark_us = self.ordering, self.watermark_us(arrival_us)
        if ordering.early_arrival_us is not None and time_us > arrival_us + ordering.early_arrival_us:
            return event.fate(verdict="dropped", reasons=("early",), watermark_us=watermark_us)
        reasons = []
        late_bound_us = self.late_bound_us(arrival_us)
        if late_bound_us is not None and time_us < late_bound_us:
            time_us = late_bound_us
            reasons.append("late")
        before_us, self.latest_us = self.latest_us, time_us if self.latest_us is None else max(self.latest_us, time_us)
        if before_us is not None and time_us < before_us - ordering.out_of_order_us:
            time_us = before_us - ordering.out_of_order_us
            reasons.append("out_of_order")
        if reasons and ordering.action == "drop":
            return event.fate(verdict="dropped", reasons=(reasons[0],), watermark_us=watermark_us)
        verdict: Verdict = "adjusted" if reasons else "accepted"
        return event.fate(
            verdict=verdict, reasons=tuple(reasons), system_timestamp_us=time_us, watermark_us=watermark_us
        )


def order(job: Job, log: Sequence[Event]) -> Ordered:
    """Every event's fate, each by its own timeline; punctuations say nothing here."""
    timelines: dict[tuple[str, int, tuple[object, ...]], Timeline] = {}
    fates: list[Fate] = []
    rows: list[Row] = []
    for event in log:
        if event.arrival.punctuation_us is not None:
            continue
        fate = _fate(job, event, timelines)
        fates.append(fate)
        if fate.system_timestamp_us is not None:
            rows.append(
                Row(
                    fate.system_timestamp_us,
                    (event.position,),
                    event.arrival.payload,
                    event.read,
                    input=event.arrival.input,
                )
            )
    return Ordered(tuple(fates), tuple(rows), _settled(job, log, timelines))


def _fate(job: Job, event: Event, timelines: dict[tuple[str, int, tuple[object, ...]], Timeline]) -> Fate:
    if event.event_time_us is None:
        return event.fate(verdict="dropped", reasons=("invalid_time",))
    if event.key is None:
        return event.fate(verdict="dropped", reasons=("invalid_key",))
    name, partition = event.arrival.input, event.arrival.input_partition
    assert partition is not None
    ordering = job.ordering(name)
    assert isinstance(ordering, StreamAnalyticsOrdering)
    return timelines.setdefault((name, partition, event.key), Timeline(ordering)).step(event)


class _Held:
    """Which windows the watermarks had passed when the log ended.

    Rule: a window is emitted iff its end is strictly below the least ``M - out_of_order`` of all partitions of all
    inputs that the query reads; a partition known to exist and not heard holds everything. With ``over`` the timelines
    that count are those whose key agrees with the row's group keys: each substream goes ahead alone.
    """

    def __init__(
        self, job: Job, log: Sequence[Event], timelines: Mapping[tuple[str, int, tuple[object, ...]], Timeline]
    ) -> None:
        self.bounds: list[tuple[dict[str, object], int | None]] = []
        join = job.query.join
        for name in (join.left, join.right) if join else job.query.sources:
            part = job.input(name)
            prefix = f"{name}." if join else ""
            heard = {(partition, key): line for (other, partition, key), line in timelines.items() if other == name}
            for (_, key), line in heard.items():
                if line.latest_us is not None:
                    agree = {f"{prefix}{column}": value for column, value in zip(part.over, key, strict=True)}
                    self.bounds.append((agree, line.latest_us - line.ordering.out_of_order_us))
            if not part.over:
                known = {one.arrival.input_partition for one in log if one.arrival.input == name} - {None}
                known |= set(range(part.partitions or 0))
                spoken = {partition for (partition, _), line in heard.items() if line.latest_us is not None}
                self.bounds.extend(({}, None) for _ in known - spoken)

    def __call__(self, end_us: int, keys: Mapping[str, object]) -> bool:
        group = {name.lower(): grouping_key(value) for name, value in keys.items()}
        return all(
            bound_us is not None and end_us < bound_us
            for agree, bound_us in self.bounds
            if all(group.get(name.lower(), value) == value for name, value in agree.items())
        )


def _settled(
    job: Job, log: Sequence[Event], timelines: Mapping[tuple[str, int, tuple[object, ...]], Timeline]
) -> _Held:
    return _Held(job, log, timelines)


PROFILE = Profile(
    order=order,
    spread={
        Grid: windows.spread_ends_on_grid,
        Sliding: windows.spread_sliding,
        Session: sessions.spread_timeout_sessions,
        Snapshot: windows.spread_equal_times,
    },
)
