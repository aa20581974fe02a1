"""stream_insight, live: current time per input, items judged against it in arrival order, open edges carried along."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from pipelines.core.model import Input, StreamInsightOrdering
from pipelines.live.state.program import Program
from pipelines.live.state.rows import Decision, Event, Row, decide
from pipelines.live.values import all_same

LATE = "before_current_time"


@dataclass(slots=True)
class Clock:
    """The time of one input: the greatest CTI; what counts towards the next one; what has begun and not ended."""

    current: int | None = None
    received: int = 0
    fired_at: int | None = None
    begun: dict[Hashable, list[Begun]] = field(default_factory=dict)


@dataclass(slots=True)
class Begun:
    """A start edge without its end yet: its verdict so far, and its row where the query counts it."""

    decision: Decision
    start: int
    row: Row | None


@dataclass(slots=True)
class Insight:
    """The state of the policy, by input."""

    known: dict[str, frozenset[int]] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=dict)

    def take(self, program: Program, events: Iterable[Event]) -> tuple[list[Decision], list[tuple[Event, Row]]]:
        """Decide ``events``, which stand in arrival order over all inputs.

        A start edge has its verdict once its end is known; until then :meth:`open_decisions` has it.
        """
        decisions: list[Decision] = []
        counted: list[tuple[Event, Row]] = []
        for event in events:
            clock = self.clocks.setdefault(event.input, Clock())
            if event.punctuation is not None:
                self._issue(program, event.input, event.punctuation)
                continue
            part = program.job.input(event.input)
            kind = _kind(part, event)
            if kind is None:
                decisions.append(decide(event, "dropped", ("invalid_time",)))
                continue
            assert event.time is not None
            if kind == "end":
                decisions.extend(self._end(clock, event))
                continue
            row = self._begin(program, clock, event, kind, decisions)
            if row is not None:
                counted.append((event, row))
            issued = _generated(program, clock, event.input, event.time)
            if issued is not None:
                self._issue(program, event.input, issued)
        return decisions, counted

    def bound(self, _: Program, name: str) -> int | None:
        """Windows of this input that end before this instant are final."""
        clock = self.clocks.get(name)
        return None if clock is None or clock.current is None else clock.current + 1

    def open_decisions(self) -> list[Decision]:
        """Verdicts of start edges that have not ended."""
        begun = [one for clock in self.clocks.values() for queue in clock.begun.values() for one in queue]
        return [one.decision for one in begun]

    # -- time ---------------------------------------------------------------------------------------------------------

    def _issue(self, program: Program, name: str, cti: int) -> None:
        """A CTI of an input, and of those that import its time, at once."""
        clock = self.clocks.setdefault(name, Clock())
        clock.current = cti if clock.current is None else max(clock.current, cti)
        for importer, ordering in program.job.orderings:
            if isinstance(ordering, StreamInsightOrdering) and ordering.import_from == name:
                self._issue(program, importer, cti)

    # -- items --------------------------------------------------------------------------------------------------------

    def _begin(self, program: Program, clock: Clock, event: Event, kind: str, decisions: list[Decision]) -> Row | None:
        """A point, interval or start edge; the row that it is for the query."""
        ordering = _ordering(program, event.input)
        assert event.time is not None
        start, current = event.time, clock.current
        end = {"point": start + 1, "interval": event.end, "start": None}[kind]
        verdict = "accepted"
        reasons: tuple[str, ...] = ()
        if current is not None and start < current:
            survives = ordering.action == "adjust" and (end is None or (kind == "interval" and end > current))
            if not survives:
                decisions.append(decide(event, "dropped", (LATE,), watermark=current))
                return None
            start, verdict, reasons = current, "adjusted", (LATE,)
        decision = decide(event, verdict, reasons, system=start, lifetime_end=end, watermark=current)
        row = program.row(event, start, end) if program.reads(event.input) and event.passes else None
        if kind == "start":
            key = (event.time, all_same(event.match))
            clock.begun.setdefault(key, []).append(Begun(decision, start, row))
        else:
            decisions.append(decision)
        return row

    def _end(self, clock: Clock, event: Event) -> list[Decision]:
        """An end edge: its own verdict, and that of the start edge it ends."""
        assert event.time is not None
        assert event.end is not None
        current, key = clock.current, (event.time, all_same(event.match))
        queue = clock.begun.get(key, [])
        if current is not None and event.end < current:
            reasons = (LATE,) if queue else (LATE, "orphan_end")
            return [decide(event, "dropped", reasons, watermark=current)]
        if not queue:
            return [decide(event, "dropped", ("orphan_end",), watermark=current)]
        begun = queue.pop(0)
        if not queue:
            del clock.begun[key]
        if event.end <= begun.start:
            gone = begun.decision._replace(verdict="dropped", reasons=("cancelled",), system=None, lifetime_end=None)
            if begun.row is not None:
                begun.row.end = begun.row.start  # an empty lifetime is in no window
            return [gone, decide(event, "dropped", ("cancelled",), watermark=current)]
        if begun.row is not None:
            begun.row.end = event.end
        return [
            begun.decision._replace(lifetime_end=event.end),
            decide(event, "accepted", system=event.end, watermark=current),
        ]


def _kind(part: Input, event: Event) -> str | None:
    start, end = event.time, event.end
    if start is None:
        return None
    if part.shape == "point":
        return "point"
    if part.shape == "interval":
        return "interval" if end is not None and end > start else None
    if event.edge == "start":
        return "start"
    return "end" if event.edge == "end" and end is not None and end >= start else None


def _generated(program: Program, clock: Clock, name: str, start: int) -> int | None:
    """The CTI that follows an item received, if it is one's turn."""
    ordering = _ordering(program, name)
    clock.received += 1
    if ordering.every_events is not None:
        fires = clock.received % ordering.every_events == 0
    elif ordering.every_us is not None:
        fires = clock.fired_at is None or start - clock.fired_at >= ordering.every_us
    else:
        fires = False
    if not fires:
        return None
    clock.fired_at = start
    return start - ordering.delay_us


def _ordering(program: Program, name: str) -> StreamInsightOrdering:
    ordering = program.job.ordering(name)
    assert isinstance(ordering, StreamInsightOrdering)
    return ordering
