"""atlas, live: watermarks of an input's partitions, and windows closed document by document in arrival order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from pipelines.core.model import AtlasOrdering, Grid, Session
from pipelines.live.state.program import Program
from pipelines.live.state.rows import Decision, Event, Row, decide
from pipelines.live.values import all_same
from pipelines.live.windows.assign import starts_of


@dataclass(slots=True)
class Partition:
    """What one partition has said: the greatest time seen, and up to where it lets windows close."""

    seen: int | None = None
    closed: int | None = None

    def hear(self, seen: int, closed: int) -> None:
        """Raise both; neither ever falls."""
        self.seen = seen if self.seen is None else max(self.seen, seen)
        self.closed = closed if self.closed is None else max(self.closed, closed)


@dataclass(slots=True)
class OpenSession:
    """A session that still takes documents."""

    first: int
    last: int
    rows: list[Row]


@dataclass(slots=True)
class Atlas:
    """The state of the policy. ``clock`` is the last arrival of an input; ``sessions`` are open ones by chain."""

    known: dict[str, frozenset[int]] = field(default_factory=dict)
    partitions: dict[str, dict[int, Partition]] = field(default_factory=dict)
    clock: dict[str, int] = field(default_factory=dict)
    sessions: dict[Hashable, list[OpenSession]] = field(default_factory=dict)
    ended: list[tuple[int, int, list[Row]]] = field(default_factory=list)

    def take(self, program: Program, events: Iterable[Event]) -> tuple[list[Decision], list[tuple[Event, Row]]]:
        """Decide ``events``, which stand in arrival order over all inputs."""
        decisions: list[Decision] = []
        counted: list[tuple[Event, Row]] = []
        for event in events:
            if event.punctuation is not None:
                self._punctuation(program, event, event.punctuation)
                continue
            decision = self._document(program, event)
            decisions.append(decision)
            if decision.system is not None and program.reads(event.input):
                row = program.row(event, decision.system, None, decision.missed)
                if self._chained(program) is None:
                    counted.append((event, row))
                elif event.passes:
                    self._join(program, row)
        return decisions, counted

    def bound(self, program: Program, name: str) -> int | None:
        """Windows of this input that end before this instant are closed."""
        closed = self._closed(program, name)
        return None if closed is None else closed + 1

    def end_sessions(self, program: Program) -> None:
        """End every open session, as the end of the log does under ``flush``."""
        window = self._chained(program)
        if window is not None:
            open_still = [one for sessions in self.sessions.values() for one in sessions]
            self.ended += [(one.first, one.last + window.timeout_us, one.rows) for one in open_still]
            self.sessions = {}

    # -- time ---------------------------------------------------------------------------------------------------------

    def _speakers(self, program: Program, name: str) -> dict[int, Partition]:
        declared = program.job.input(name).partitions
        expected = self.known.get(name, frozenset()) if declared is None else range(declared)
        held = self.partitions.setdefault(name, {})
        for partition in expected:
            held.setdefault(partition, Partition())
        return held

    def _watermark(self, program: Program, name: str) -> int | None:
        seen = [one.seen for one in self._speakers(program, name).values()]
        return None if None in seen or not seen else min(one for one in seen if one is not None)

    def _closed(self, program: Program, name: str) -> int | None:
        if _ordering(program, name).boundary == "processing_time":
            return self.clock.get(name)
        closed = [one.closed for one in self._speakers(program, name).values()]
        return None if None in closed or not closed else min(one for one in closed if one is not None)

    def _punctuation(self, program: Program, event: Event, time: int) -> None:
        speakers = self._speakers(program, event.input)
        spoken = (
            speakers.values() if event.partition is None else [speakers[p] for p in [event.partition] if p in speakers]
        )
        for one in spoken:
            one.hear(time, time)
        self._pass(program, event)

    def _pass(self, program: Program, event: Event) -> None:
        """The row is taken: the clock stands at its arrival, and sessions that have ended are closed."""
        self.clock[event.input] = event.arrival
        window, closed = self._chained(program), self._closed(program, event.input)
        if window is None or closed is None or not program.reads(event.input):
            return
        for chain, sessions in list(self.sessions.items()):
            open_still = [one for one in sessions if one.last + window.timeout_us > closed]
            if len(open_still) == len(sessions):
                continue
            for one in sessions:
                if one.last + window.timeout_us <= closed:
                    self.ended.append((one.first, one.last + window.timeout_us, one.rows))
            if open_still:
                self.sessions[chain] = open_still
            else:
                del self.sessions[chain]

    # -- one document -------------------------------------------------------------------------------------------------

    def _document(self, program: Program, event: Event) -> Decision:
        ordering = _ordering(program, event.input)
        if event.time is None:
            self._pass(program, event)
            return decide(event, "dropped", ("invalid_time",))
        by_clock = ordering.boundary == "processing_time"
        time = event.arrival if by_clock else event.time
        watermark = self._watermark(program, event.input)
        verdict = "accepted"
        missed: tuple[int, ...] = ()
        if program.reads(event.input):
            window = self._chained(program)
            if window is None:
                verdict, missed = self._missed(program, event.input, time)
            else:
                bound = self.clock.get(event.input) if by_clock else watermark
                if bound is not None and time < bound and not self._fitting(program, window, event.values, time):
                    verdict = "dropped"
        assert event.partition is not None
        speaker = self._speakers(program, event.input).get(event.partition)
        if speaker is not None:
            speaker.hear(event.time, event.time - ordering.allowed_lateness_us)
        self._pass(program, event)
        reasons = () if verdict == "accepted" else ("late",)
        system = None if verdict == "dropped" else time
        return decide(event, verdict, reasons, system=system, watermark=watermark, missed=missed)

    def _missed(self, program: Program, name: str, time: int) -> tuple[str, tuple[int, ...]]:
        window, closed = program.job.window_query.window, self._closed(program, name)
        assert isinstance(window, Grid)
        starts = starts_of(window, time, time + 1)
        missed = tuple(start for start in starts if closed is not None and start + window.size_us <= closed)
        return "accepted" if not missed else "dropped" if len(missed) == len(starts) else "partial", missed

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _chained(self, program: Program) -> Session | None:
        window = program.job.window_query.window
        return window if isinstance(window, Session) else None

    def _fitting(self, program: Program, window: Session, values: tuple[object, ...], time: int) -> list[OpenSession]:
        chain = _chain(program, window, values)
        gap = window.timeout_us
        return [one for one in self.sessions.get(chain, []) if one.first - gap < time < one.last + gap]

    def _join(self, program: Program, row: Row) -> None:
        window = self._chained(program)
        assert window is not None
        fitting = self._fitting(program, window, row.values, row.start)
        chain = _chain(program, window, row.values)
        rest = [one for one in self.sessions.get(chain, []) if not any(one is other for other in fitting)]
        first = min([row.start, *(one.first for one in fitting)])
        last = max([row.start, *(one.last for one in fitting)])
        rows = [member for one in fitting for member in one.rows]
        rows.append(row)
        self.sessions[chain] = [*rest, OpenSession(first, last, rows)]


def _chain(program: Program, window: Session, values: tuple[object, ...]) -> Hashable:
    return all_same([values[program.places[column]] for column in window.partition_by])


def _ordering(program: Program, name: str) -> AtlasOrdering:
    ordering = program.job.ordering(name)
    assert isinstance(ordering, AtlasOrdering)
    return ordering
