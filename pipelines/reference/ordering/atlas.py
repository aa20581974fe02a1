"""The ordering policy of Atlas Stream Processing: nothing is moved; a document misses the windows that have closed.

With ``E`` the greatest event time a partition has seen and ``P`` its greatest punctuation (a null partition's
punctuation is every partition's):

- The partition's watermark is ``max(E, P)``; the input's is the least over all its partitions, and there is none until
  each has been heard. Lateness is not part of it (A3). Idle closes are punctuations of the log (A10).
- The partition lets windows close up to ``max(E - lateness, P)``; a window is closed once ``end`` is at or before the
  least of these over all partitions, as it was before the document came (A4).
- Grid windows: a document misses those of its windows that are closed. All missed: dropped; some: ``partial`` (A5).
- Sessions: a document is late iff it is before the watermark and fits no open session, whatever the lateness (A8).

With boundary ``processing_time`` a document counts at its arrival time, windows close as the clock, the latest arrival
of any row, reaches their end, and nothing can be late; the watermark is kept all the same (A9).
A document that ``where`` removes is judged like any other, and never joins a session (G2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.core.model import AtlasOrdering, Decision, Grid, Job, Session, Verdict
from pipelines.plan.initial_state import InitialState, InitialStates, TimelineState
from pipelines.reference import sessions, windows
from pipelines.reference.events import Event, Ordered, Profile, Row
from pipelines.reference.sessions import GapSessions

LATE_REASON = "Input document arrived late."
"""``errInfo.reason`` of a late document, as the product writes it."""
LATE_OPERATOR = "GroupOperator"
"""The stage inside the window that finds a document late."""
TIME_REASON = "Failed to process input document with error: the timeField expression gives no date"
TIME_OPERATOR = "KafkaConsumerOperator"


@dataclass(slots=True)
class Watermarks:
    """What the partitions of one input have seen: ``seen_us`` their watermarks, ``closed_us`` what they let close."""

    lateness_us: int
    partitions: frozenset[int]
    seen_us: dict[int, int] = field(default_factory=dict)
    closed_us: dict[int, int] = field(default_factory=dict)

    def hear(self, partition: int, time_us: int) -> None:
        """A document at ``time_us``; a partition outside those declared says nothing."""
        self._raise(partition, time_us, time_us - self.lateness_us)

    def punctuate(self, partition: int | None, time_us: int) -> None:
        """A recorded advance to ``time_us``, of one partition or of all."""
        for one in self.partitions if partition is None else (partition,):
            self._raise(one, time_us, time_us)

    def _raise(self, partition: int, seen_us: int, closed_us: int) -> None:
        if partition not in self.partitions:
            return
        self.seen_us[partition] = max(seen_us, self.seen_us.get(partition, seen_us))
        self.closed_us[partition] = max(closed_us, self.closed_us.get(partition, closed_us))

    def watermark_us(self) -> int | None:
        """The least over all partitions; None while one is unheard."""
        return min(self.seen_us.values()) if self._all_heard() else None

    def closed_until_us(self) -> int | None:
        """Windows that end here or before are closed; None while a partition is unheard."""
        return min(self.closed_us.values()) if self._all_heard() else None

    def _all_heard(self) -> bool:
        return bool(self.partitions) and self.seen_us.keys() >= self.partitions


@dataclass(slots=True)
class Processor:
    """One input's way through the policy, one row of the log at a time."""

    job: Job
    ordering: AtlasOrdering
    watermarks: Watermarks
    sessions: GapSessions | None
    clock_us: int | None = None
    counted: list[tuple[Event, Decision, int | None]] = field(default_factory=list)

    def punctuation(self, event: Event) -> None:
        """Moves the watermark as recorded."""
        assert event.arrival.punctuation_us is not None
        self.watermarks.punctuate(event.arrival.input_partition, event.arrival.punctuation_us)
        self._pass_time(event)

    def step(self, event: Event) -> Decision:
        """The decision of the next document, which no policy moves (A1, A2); raises the watermark after judging."""
        if event.event_time_us is None:
            decision = event.decision(verdict="dropped", reasons=("invalid_time",))
            self._pass_time(event)
            return decision
        time_us = event.arrival.arrival_time_us if self.by_clock else event.event_time_us
        decision = self._judge(event, time_us)
        assert event.arrival.input_partition is not None
        self.watermarks.hear(event.arrival.input_partition, event.event_time_us)
        self._pass_time(event)
        if decision.verdict != "dropped":
            self.counted.append((event, decision, self._join_session(event, time_us)))
        return decision

    @property
    def by_clock(self) -> bool:
        """Do documents count at their arrival time?"""
        return self.ordering.boundary == "processing_time"

    def closed_until_us(self) -> int | None:
        """Windows that end here or before are closed; None while none is."""
        return self.clock_us if self.by_clock else self.watermarks.closed_until_us()

    def rows(self) -> list[Row]:
        """What counts, with sessions named as they are at the end of the log."""
        return [
            Row(
                decision.system_timestamp_us,
                (event.position,),
                event.arrival.payload,
                event.read,
                missed_us=decision.missed_windows_us,
                session=None if number is None or self.sessions is None else self.sessions.final(number),
                input=event.arrival.input,
            )
            for event, decision, number in self.counted
            if decision.system_timestamp_us is not None
        ]

    def _judge(self, event: Event, time_us: int) -> Decision:
        watermark_us = self.watermarks.watermark_us()
        bound_us = self.clock_us if self.by_clock else watermark_us
        missed: tuple[int, ...] = ()
        verdict: Verdict = "accepted"
        if self.sessions is not None:
            if bound_us is not None and time_us < bound_us and not self._fitting(event, time_us):
                verdict = "dropped"
        elif self._windowed(event):
            window, closed_us = self.job.first_window, self.closed_until_us()
            assert isinstance(window, Grid)
            spans = windows.starts_on_grid(window, time_us, time_us + 1)
            missed = tuple(start for start, end in spans if closed_us is not None and end <= closed_us)
            verdict = "accepted" if not missed else "dropped" if len(missed) == len(spans) else "partial"
        return event.decision(
            verdict=verdict,
            reasons=() if verdict == "accepted" else ("late",),
            system_timestamp_us=None if verdict == "dropped" else time_us,
            watermark_us=watermark_us,
            missed_windows_us=missed,
        )

    def _windowed(self, event: Event) -> bool:
        return self.job.first_window is not None and event.arrival.input in self.job.sources

    def _fitting(self, event: Event, time_us: int) -> bool:
        return self.sessions is not None and bool(self.sessions.fits(event.chain, time_us))

    def _join_session(self, event: Event, time_us: int) -> int | None:
        if self.sessions is None or not event.passes:
            return None
        return self.sessions.put(event.chain, time_us)

    def _pass_time(self, event: Event) -> None:
        """The row has been taken: the clock stands at its arrival, and sessions whose end was reached are closed."""
        self.clock_us = event.arrival.arrival_time_us
        closed_us = self.closed_until_us()
        if self.sessions is not None and closed_us is not None:
            self.sessions.close(closed_us)


def order(job: Job, log: Sequence[Event], initial_states: InitialStates | None = None) -> Ordered:
    """Every document's decision, input by input and in arrival order, and its dead letters (A11)."""
    processors = {part.name: _processor(job, part.name, log, initial_states) for part in job.inputs}
    decisions: list[Decision] = []
    letters: list[tuple[Event, Decision, str, str]] = []
    for event in log:
        processor = processors[event.arrival.input]
        if event.arrival.punctuation_us is not None:
            processor.punctuation(event)
            continue
        decision = processor.step(event)
        decisions.append(decision)
        if "invalid_time" in decision.reasons:
            letters.append((event, decision, TIME_OPERATOR, TIME_REASON))
        elif "late" in decision.reasons:
            letters.append((event, decision, LATE_OPERATOR, LATE_REASON))
    rows = sorted((row for one in processors.values() for row in one.rows()), key=lambda row: row.arrived)
    closed_us = [
        _closed_at_end_us(processors[name], None if initial_states is None else initial_states[name])
        for name in job.sources
    ]
    return Ordered(
        tuple(decisions),
        tuple(rows),
        settled=lambda end_us, _: all(one is not None and end_us <= one for one in closed_us),
        dead_letters=tuple(letters),
    )


def _closed_at_end_us(processor: Processor, initial_state: InitialState | None) -> int | None:
    """Windows that end here or before are closed when the log ends (A12), whether its end was read or not."""
    if initial_state is None:
        return processor.closed_until_us()
    if processor.by_clock:
        return initial_state.last_arrival_us
    watermarks = Watermarks(processor.ordering.allowed_lateness_us, processor.watermarks.partitions)
    _recall(watermarks, initial_state.at_end)
    return watermarks.closed_until_us()


def _recall(watermarks: Watermarks, seen: Sequence[TimelineState]) -> None:
    for one in seen:
        if one.punctuation_us is not None:
            watermarks.punctuate(one.partition, one.punctuation_us)
        if one.time_us is not None:
            assert one.partition is not None
            watermarks.hear(one.partition, one.time_us)


def _processor(job: Job, name: str, log: Sequence[Event], initial_states: InitialStates | None) -> Processor:
    ordering, window = job.ordering(name), job.first_window
    assert isinstance(ordering, AtlasOrdering)
    heard = {one.arrival.input_partition for one in log if one.arrival.input == name}
    if initial_states is not None:
        heard |= initial_states[name].partitions
    declared = job.input(name).partitions
    partitions = frozenset(one for one in (heard if declared is None else range(declared)) if one is not None)
    watermarks = Watermarks(ordering.allowed_lateness_us, partitions)
    if initial_states is not None:
        _recall(watermarks, initial_states[name].before)
    by_gap = isinstance(window, Session) and name in job.sources
    return Processor(
        job, ordering, watermarks, GapSessions(window.timeout_us) if by_gap and isinstance(window, Session) else None
    )


PROFILE = Profile(
    order=order,
    assign={Grid: windows.assign_starts_on_grid, Session: sessions.assign_gap_sessions},
)
