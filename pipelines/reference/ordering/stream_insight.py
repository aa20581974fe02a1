"""The ordering policy of StreamInsight: items are judged against the last issued CTI, not against the newest event.

With ``C`` the current CTI of the input, one for the whole input in arrival order:

- An item violates iff its sync time is before ``C`` (strict). Sync time is the start; of an end edge, the end (I3).
- Points, intervals and start edges are counted as they are received, dropped ones too; end edges and items without a
  usable time are not. Every N-th, or each whose start lies T or more after the start that triggered before (the first
  triggers), issues the CTI ``its own start - delay``, after itself (I4, I5, I6).
- Punctuations are CTIs that the source enqueued. CTIs of the input named by ``import_from`` are taken over, those that
  it imports too, where they stand in the arrival order of both; at the very place of an own row the imported CTI acts
  first. Neither kind counts towards N or resets T (I7).
- ``C`` is the greatest of all: a lower CTI does nothing (I8).

Drop removes violating items (I9). Adjust moves intervals and start edges that reach beyond ``C`` to start there; what
ends at or before ``C`` is dropped (I10), so points are, and late end edges too: their start edge then stays open (I11).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipelines.core.model import Count, Decision, Grid, Input, Job, Snapshot, StreamInsightOrdering, Verdict
from pipelines.plan.initial_state import Clock, InitialStates
from pipelines.reference import lifetimes
from pipelines.reference.events import Event, Ordered, Profile, Row

Kind = Literal["point", "interval", "start", "end"]
Issued = tuple[Event, int]
"""The row of the log that issued a CTI, and the CTI's time."""


def kind_of(part: Input, event: Event) -> Kind | None:
    """What the item is (I1); None where its times or its edge kind cannot be used (I2).

    An interval must end after its start; an end edge at or after it, and equal means that the event never was.
    """
    start_us, end_us = event.event_time_us, event.end_us
    if start_us is None:
        return None
    if part.shape == "point":
        return "point"
    if part.shape == "edge" and event.edge == "start":
        return "start"
    if part.shape == "edge" and event.edge == "end":
        return "end" if end_us is not None and end_us >= start_us else None
    return "interval" if part.shape == "interval" and end_us is not None and end_us > start_us else None


@dataclass(slots=True)
class Generator:
    """Issues CTIs from an input's own items: ``received`` counts them, ``baseline_us`` is the last trigger's start."""

    ordering: StreamInsightOrdering
    received: int = 0
    baseline_us: int | None = None

    def receive(self, start_us: int) -> int | None:
        """The CTI that the next counted item issues, or None."""
        self.received += 1
        every_events, every_us = self.ordering.every_events, self.ordering.every_us
        if every_events is not None:
            triggers = self.received % every_events == 0
        elif every_us is not None:
            triggers = self.baseline_us is None or start_us - self.baseline_us >= every_us
        else:
            triggers = False
        if not triggers:
            return None
        self.baseline_us = start_us
        return start_us - self.ordering.delay_us


@dataclass(slots=True)
class Item:
    """What is decided about one item; a start edge's may change when its end edge comes."""

    event: Event
    kind: Kind | None
    watermark_us: int | None
    verdict: Verdict = "accepted"
    reasons: tuple[str, ...] = ()
    start_us: int | None = None
    end_us: int | None = None

    def drop(self, *reasons: str) -> None:
        """Refuses the item; it counts nowhere."""
        self.verdict, self.reasons, self.start_us, self.end_us = "dropped", reasons, None, None

    def decision(self) -> Decision:
        return self.event.decision(
            verdict=self.verdict,
            reasons=self.reasons,
            system_timestamp_us=self.start_us,
            lifetime_end_us=self.end_us,
            watermark_us=self.watermark_us,
        )


@dataclass(slots=True)
class Stream:
    """One input: its current CTI and its open start edges, oldest first for each payload and original start."""

    part: Input
    ordering: StreamInsightOrdering
    current_us: int | None = None
    opened: dict[tuple[object, ...], deque[Item]] = field(default_factory=dict)

    def advance(self, cti_us: int) -> None:
        """Takes a CTI; a lower one than the current does nothing."""
        self.current_us = cti_us if self.current_us is None else max(self.current_us, cti_us)

    def take(self, clock: Clock) -> None:
        """Takes the last CTI of arrivals that are not read."""
        if clock.cti_us is not None:
            self.advance(clock.cti_us)

    def step(self, event: Event) -> Item:
        """What is decided about the next item, against the CTI in force before it."""
        kind = kind_of(self.part, event)
        item = Item(event, kind, self.current_us if kind is not None else None)
        if kind is None:
            item.drop("invalid_time")
        elif kind == "end":
            self._end(item)
        else:
            self._begin(item, kind)
        return item

    def _begin(self, item: Item, kind: Kind) -> None:
        start_us = item.event.event_time_us
        assert start_us is not None
        ends = {"point": start_us + 1, "interval": item.event.end_us, "start": None}
        item.start_us, item.end_us = start_us, ends[kind]
        if self.current_us is not None and start_us < self.current_us:
            ended = item.end_us is not None and item.end_us <= self.current_us
            if self.ordering.action == "drop" or ended:
                item.drop("before_current_time")
                return
            item.verdict, item.reasons, item.start_us = "adjusted", ("before_current_time",), self.current_us
        if kind == "start":
            self.opened.setdefault((start_us, item.event.match), deque()).append(item)

    def _end(self, item: Item) -> None:
        """The item closes the oldest start edge that it matches (I12), or cancels it (I13)."""
        end_us = item.event.end_us
        assert end_us is not None
        waiting = self.opened.get((item.event.event_time_us, item.event.match))
        late = self.current_us is not None and end_us < self.current_us
        if late or not waiting:
            item.drop(*["before_current_time"][: int(late)], *["orphan_end"][: int(not waiting)])
            return
        begun = waiting.popleft()
        if begun.start_us == end_us:
            begun.drop("cancelled")
            item.drop("cancelled")
            return
        begun.end_us = end_us
        item.start_us = end_us


def order(job: Job, log: Sequence[Event], initial_states: InitialStates | None = None) -> Ordered:
    """Every item's decision, input by input, and the lifetimes that count."""
    issued = {part.name: list(_issued(job, part, log, initial_states)) for part in job.inputs}
    items: list[Item] = []
    last_us: dict[str, int | None] = {}
    for part in job.inputs:
        stream = Stream(part, _ordering(job, part.name))
        states = [initial_states[name] for name in (part.name, *_imports(job, part.name))] if initial_states else []
        for initial_state in states:
            stream.take(initial_state.clock)
        for event, cti_us in _rows_and_ctis(job, part, log, issued):
            if event is not None:
                items.append(stream.step(event))
            if cti_us is not None:
                stream.advance(cti_us)
        for initial_state in states:
            stream.take(initial_state.clock_at_end)
        last_us[part.name] = stream.current_us
    items.sort(key=lambda item: item.event.position)
    counted = [item for item in items if item.kind != "end" and item.verdict != "dropped"]
    sources = job.sources
    reaching = [_row(item) for item in counted if item.event.passes and item.event.arrival.input in sources]
    ctis_us = [last_us[name] for name in sources]
    return Ordered(
        tuple(item.decision() for item in items),
        tuple(map(_row, counted)),
        settled=lambda end_us, _: all(one is not None and end_us <= one for one in ctis_us),
        horizon_us=_horizon_us(reaching, ctis_us),
    )


def _ordering(job: Job, name: str) -> StreamInsightOrdering:
    ordering = job.ordering(name)
    assert isinstance(ordering, StreamInsightOrdering)
    return ordering


def _row(item: Item) -> Row:
    assert item.start_us is not None
    one = item.event
    return Row(
        item.start_us, (one.position,), one.arrival.payload, one.read, end_us=item.end_us, input=one.arrival.input
    )


def _issued(job: Job, part: Input, log: Sequence[Event], initial_states: InitialStates | None) -> Iterator[Issued]:
    """The CTIs that an input issues itself: those its items generate, and those its source enqueued."""
    clock = initial_states[part.name].clock if initial_states else Clock()
    generator = Generator(_ordering(job, part.name), clock.received, clock.baseline_us)
    for event in log:
        if event.arrival.input != part.name:
            continue
        cti_us = event.arrival.punctuation_us
        if cti_us is None and kind_of(part, event) in ("point", "interval", "start"):
            assert event.event_time_us is not None
            cti_us = generator.receive(event.event_time_us)
        if cti_us is not None:
            yield event, cti_us


def _imports(job: Job, name: str) -> list[str]:
    """The inputs whose CTIs reach input ``name``, directly or through another."""
    found: list[str] = []
    source = _ordering(job, name).import_from
    while source is not None and source != name and source not in found:
        found.append(source)
        source = _ordering(job, source).import_from
    return found


def _rows_and_ctis(
    job: Job, part: Input, log: Sequence[Event], issued: dict[str, list[Issued]]
) -> Iterator[tuple[Event | None, int | None]]:
    """An input's items and all CTIs that reach it, in the order in which they act: (item or None, CTI or None).

    An item's own CTI acts after it; an imported one before an own row of the same place in the arrival order.
    """
    own = {event.position: cti_us for event, cti_us in issued[part.name]}
    steps: list[tuple[tuple[object, ...], Event | None, int | None]] = [
        ((event.place, 0, event.position), None, cti_us)
        for source in _imports(job, part.name)
        for event, cti_us in issued[source]
    ]
    for event in log:
        if event.arrival.input == part.name:
            item = event if event.arrival.punctuation_us is None else None
            steps.append(((event.place, 1, event.position), item, own.get(event.position)))
    for _, item, cti_us in sorted(steps, key=lambda step: step[0]):
        yield item, cti_us


def _horizon_us(rows: Sequence[Row], ctis_us: Sequence[int | None]) -> int | None:
    """The greatest finite endpoint or CTI of what the windows take: where lifetimes that never end stop to count."""
    known = [one for one in ctis_us if one is not None]
    for row in rows:
        known += [row.start_us] if row.end_us is None else [row.start_us, row.end_us]
    return max(known, default=None)


PROFILE = Profile(
    order=order,
    assign={
        Grid: lifetimes.assign_starts_on_grid,
        Snapshot: lifetimes.assign_snapshots,
        Count: lifetimes.assign_counts,
    },
)
