"""The ordering policy of atlas, live (A1 to A5, A7 to A9): documents are decided one by one in arrival order.

Lateness depends on the windows: on those that are closed (A5), or on the sessions that are open (A8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import AtlasOrdering, Decision, Grid, Session, SimpleWindow, Verdict
from pipelines.live.ordering import Decided, OrderingPolicy
from pipelines.live.state.arrivals import EVERY_PARTITION, ArrivalQueue, Event, Partitions
from pipelines.live.state.batches import Batch
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Commit
from pipelines.live.state.output import decide, verdicts_of
from pipelines.live.state.rows import NEVER, CountedRows, Row
from pipelines.live.windows.buffers import WindowBuffer
from pipelines.live.windows.gap_sessions import GapSessions
from pipelines.live.windows.start_aligned import StartAlignedBuffer, starts_of


@dataclass(slots=True)
class InputTime:
    """How far an input has come, in microseconds.

    By partition ``seen`` is ``max(E, P)`` and ``closed`` is ``max(E - L, P)``; ``last_arrival`` is that of the input.
    """

    ordering: AtlasOrdering
    seen: dict[int, int] = field(default_factory=dict)
    closed: dict[int, int] = field(default_factory=dict)
    last_arrival: int = NEVER

    def expect(self, partitions: Iterable[int]) -> None:
        """Wait for partitions: nothing is closed before all of them have been seen (A3)."""
        for partition in partitions:
            self.advance(partition, NEVER, NEVER)

    def advance(self, partition: int, seen: int, closed: int) -> None:
        """Raise the times of a partition; they never fall. An idle timeout is a punctuation that raises them (A10)."""
        self.seen[partition] = max(seen, self.seen.get(partition, NEVER))
        self.closed[partition] = max(closed, self.closed.get(partition, NEVER))

    @property
    def by_clock(self) -> bool:
        """Do documents count at their arrival (A9)?"""
        return self.ordering.boundary == "processing_time"

    @property
    def watermark(self) -> int:
        """The least over the partitions of ``max(E, P)`` (A3)."""
        return min(self.seen.values(), default=NEVER)

    @property
    def closed_until(self) -> int:
        """C: windows that end at it or before are closed (A4, A9)."""
        return self.last_arrival if self.by_clock else min(self.closed.values(), default=NEVER)


@dataclass
class AtlasPolicy(OrderingPolicy):
    """The state of the policy: how far each input has come, and the sessions where the query has such windows."""

    compiled: CompiledJob
    partitions: Partitions
    queue: ArrivalQueue = field(init=False)
    sessions: GapSessions | None = field(init=False)
    times: dict[str, InputTime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        window = self.compiled.job.first_window
        self.queue = ArrivalQueue(self.partitions)
        self.sessions = GapSessions(self.compiled, window) if isinstance(window, Session) else None

    def decide(self, commit: Commit) -> Decided:
        self.queue.put(Batch.of(self.compiled, commit).events())
        return self._decide(self.queue.take_due())

    def decide_rest(self) -> Decided:
        return self._decide(self.queue.take_all())

    def bound(self, name: str) -> int:
        return self._time(name).closed_until + 1

    def buffer(self, window_id: str | None, window: SimpleWindow) -> WindowBuffer:
        if self.sessions is not None:
            return self.sessions
        assert isinstance(window, Grid)
        return StartAlignedBuffer(self.compiled, window_id, window)

    def _time(self, name: str) -> InputTime:
        """How far an input has come, with an entry for each partition that the job waits for."""
        if name not in self.times:
            ordering = self.compiled.job.ordering(name)
            assert isinstance(ordering, AtlasOrdering)
            self.times[name] = InputTime(ordering)
        self.times[name].expect(self.partitions.of(name))
        return self.times[name]

    def _decide(self, events: Sequence[Event]) -> Decided:
        times = {part.name: self._time(part.name) for part in self.compiled.job.inputs}
        decisions: list[Decision] = []
        counted: dict[str, list[Row]] = {}
        for event in events:
            time, reads = times[event.input], self.compiled.reads(event.input)
            if event.punctuation_us is not None:
                decision = None
                for partition in time.seen if event.partition == EVERY_PARTITION else [event.partition]:
                    time.advance(partition, event.punctuation_us, event.punctuation_us)
            else:
                decision = self._document(event, time)
                decisions.append(decision)
            time.last_arrival = event.arrival_us
            if self.sessions is not None and reads:
                self.sessions.end(time.closed_until)
            if decision is None or decision.system_timestamp_us is None or not reads or not event.passes:
                continue
            row = Row.of(self.compiled, event, decision.system_timestamp_us, missed=decision.missed_windows_us)
            if self.sessions is None:
                counted.setdefault(event.input, []).append(row)
            else:
                self.sessions.join(row)
        return Decided(verdicts_of(decisions), {name: CountedRows(rows) for name, rows in counted.items()})

    def _document(self, event: Event, time: InputTime) -> Decision:
        """The verdict on a document, whose time then counts towards the watermark; G7 drops one without a time.

        A replay writes the dead letter of a dropped document (A11).
        """
        if event.time_us is None:
            return decide(event, "dropped", ("invalid_time",))
        counts_at_us, watermark = event.arrival_us if time.by_clock else event.time_us, time.watermark
        verdict, missed = self._lateness(event, counts_at_us, time)
        time.advance(event.partition, event.time_us, event.time_us - time.ordering.allowed_lateness_us)
        return decide(
            event,
            verdict,
            () if verdict == "accepted" else ("late",),
            system_timestamp_us=None if verdict == "dropped" else counts_at_us,
            watermark_us=None if watermark == NEVER else watermark,
            missed_windows_us=missed,
        )

    def _lateness(self, event: Event, time_us: int, time: InputTime) -> tuple[Verdict, tuple[int, ...]]:
        """The verdict by what was closed before the document came, and the starts of the windows it missed."""
        window = self.compiled.job.first_window
        if window is None or not self.compiled.reads(event.input):
            return "accepted", ()
        if self.sessions is not None:
            late = not time.by_clock and time_us < time.watermark and not self.sessions.fitting(event.values, time_us)
            return "dropped" if late else "accepted", ()
        assert isinstance(window, Grid)
        starts, closed = starts_of(window, time_us, time_us + 1), time.closed_until
        missed = tuple([start for start in starts if start + window.size_us <= closed])
        return "accepted" if not missed else "dropped" if len(missed) == len(starts) else "partial", missed
