"""The ordering policy of stream_insight, live (I1 to I13): items are decided one by one in arrival order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pipelines.core.model import Decision, Input, SimpleWindow, StreamInsightOrdering, Verdict
from pipelines.core.values import grouping_key
from pipelines.live.ordering import Decided, OrderingPolicy
from pipelines.live.state.arrivals import ArrivalQueue, Event, Partitions
from pipelines.live.state.batches import Batch
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Commit
from pipelines.live.state.output import decide, verdicts_of
from pipelines.live.state.rows import NEVER, CountedRows, Row
from pipelines.live.windows.buffers import WindowBuffer
from pipelines.live.windows.lifetimes import LifetimeBuffer

Kind = Literal["point", "interval", "start", "end"]
LATE = ("before_current_time",)


@dataclass(slots=True)
class StartEdge:
    """A start edge without its end yet: its verdict so far, its start after the policy in microseconds, and its row
    where the query counts it."""

    decision: Decision
    start: int
    row: Row | None


@dataclass(slots=True)
class InputState:
    """One input: what counts towards its next CTI (I4, I5), and its start edges without end by start and match."""

    part: Input
    ordering: StreamInsightOrdering
    received: int = 0
    issued_at: int | None = None
    open_edges: dict[Hashable, list[StartEdge]] = field(default_factory=dict)

    def next_cti(self, start: int) -> int | None:
        """The CTI that follows an item received, in microseconds, if it issues one (I4 to I6)."""
        ordering = self.ordering
        self.received += 1
        if ordering.every_events is not None:
            issues = self.received % ordering.every_events == 0
        elif ordering.every_us is not None:
            issues = self.issued_at is None or start - self.issued_at >= ordering.every_us
        else:
            issues = False
        if not issues:
            return None
        self.issued_at = start
        return start - ordering.delay_us

    def kind(self, event: Event) -> Kind | None:
        """What an item is; None for one that is not valid (I2)."""
        start, end = event.time_us, event.end_us
        if start is None:
            return None
        if self.part.shape == "point":
            return "point"
        if self.part.shape == "interval":
            return "interval" if end is not None and end > start else None
        if event.edge == "start":
            return "start"
        return "end" if event.edge == "end" and end is not None and end >= start else None


@dataclass
class StreamInsightPolicy(OrderingPolicy):
    """The state of the policy. ``current`` is C of each input in microseconds, once there is a CTI (I8)."""

    compiled: CompiledJob
    partitions: Partitions
    queue: ArrivalQueue = field(init=False)
    inputs: dict[str, InputState] = field(init=False)
    current: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queue = ArrivalQueue(self.partitions)
        self.inputs = {}
        for part in self.compiled.job.inputs:
            ordering = self.compiled.job.ordering(part.name)
            assert isinstance(ordering, StreamInsightOrdering)
            self.inputs[part.name] = InputState(part, ordering)

    def decide(self, commit: Commit) -> Decided:
        self.queue.put(Batch.of(self.compiled, commit).events())
        return self._decide(self.queue.take_due(), at_end=False)

    def decide_rest(self) -> Decided:
        return self._decide(self.queue.take_all(), at_end=True)

    def bound(self, name: str) -> int:
        return self.current.get(name, NEVER) + 1

    def buffer(self, window_id: str | None, window: SimpleWindow) -> WindowBuffer:
        return LifetimeBuffer(self.compiled, window_id, window, current_us=self.current)

    def _decide(self, events: Sequence[Event], *, at_end: bool) -> Decided:
        decisions: list[Decision] = []
        counted: dict[str, list[Row]] = {}
        for event in events:
            state = self.inputs[event.input]
            if event.punctuation_us is not None:
                self._issue(event.input, event.punctuation_us)
                continue
            kind = state.kind(event)
            if kind is None or event.time_us is None:
                decisions.append(decide(event, "dropped", ("invalid_time",)))
                continue
            if kind == "end":
                decisions += self._end(state, event)
                continue
            decision, row = self._begin(state, event, kind, event.time_us)
            if decision is not None:
                decisions.append(decision)
            if row is not None:
                counted.setdefault(event.input, []).append(row)
            cti = state.next_cti(event.time_us)
            if cti is not None:
                self._issue(event.input, cti)
        if at_end:
            edges = [edge for state in self.inputs.values() for queue in state.open_edges.values() for edge in queue]
            decisions += [edge.decision for edge in edges]
        return Decided(verdicts_of(decisions), {name: CountedRows(rows) for name, rows in counted.items()})

    def _issue(self, name: str, cti: int) -> None:
        """A CTI of an input, and at once of those that import its time (I7)."""
        self.current[name] = max(cti, self.current.get(name, NEVER))
        for importer, state in self.inputs.items():
            if state.ordering.import_from == name:
                self._issue(importer, cti)

    def _begin(self, state: InputState, event: Event, kind: Kind, start: int) -> tuple[Decision | None, Row | None]:
        """A point, interval or start edge: its verdict, unless its end is still to come, and the row that it is for
        the query (I3, I9 to I11)."""
        current = self.current.get(event.input)
        end = start + 1 if kind == "point" else event.end_us if kind == "interval" else None
        verdict: Verdict = "accepted"
        if current is not None and start < current:
            survives = kind == "start" or (kind == "interval" and end is not None and end > current)
            if state.ordering.action == "drop" or not survives:
                return decide(event, "dropped", LATE, watermark_us=current), None
            start, verdict = current, "adjusted"
        reasons = () if verdict == "accepted" else LATE
        decision = decide(event, verdict, reasons, system_timestamp_us=start, lifetime_end_us=end, watermark_us=current)
        counts = self.compiled.reads(event.input) and event.passes
        row = Row.of(self.compiled, event, start, end) if counts else None
        if kind != "start":
            return decision, row
        edges = state.open_edges.setdefault((event.time_us, grouping_key(event.match)), [])
        edges.append(StartEdge(decision, start, row))
        return None, row

    def _end(self, state: InputState, event: Event) -> list[Decision]:
        """An end edge: its own verdict, and that of the start edge that it ends (I12, I13)."""
        assert event.end_us is not None
        current, key = self.current.get(event.input), (event.time_us, grouping_key(event.match))
        edges = state.open_edges.get(key, [])
        late = current is not None and event.end_us < current
        if late or not edges:
            reasons = (LATE if late else ()) + (() if edges else ("orphan_end",))
            return [decide(event, "dropped", reasons, watermark_us=current)]
        edge = edges.pop(0)
        if not edges:
            del state.open_edges[key]
        cancelled = event.end_us <= edge.start
        if edge.row is not None:
            # a row without length is in no window
            edge.row.end = edge.row.start if cancelled else event.end_us
        if cancelled:
            gone = ("cancelled",)
            decision = replace(
                edge.decision, verdict="dropped", reasons=gone, system_timestamp_us=None, lifetime_end_us=None
            )
            return [decision, decide(event, "dropped", gone, watermark_us=current)]
        own = decide(event, "accepted", system_timestamp_us=event.end_us, watermark_us=current)
        return [replace(edge.decision, lifetime_end_us=event.end_us), own]
