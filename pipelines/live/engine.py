"""The live run without Spark: all that is remembered of a job between two batches, and what a batch does to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from pipelines.core.errors import TailraceError
from pipelines.core.model import Aggregate, Grid, Job, Session, SimpleWindow, Snapshot
from pipelines.live.aggregates import aggregate
from pipelines.live.atlas import Atlas
from pipelines.live.state.batches import Batch, Counted, out_of_order
from pipelines.live.state.intake import Intake, Message, batch, events
from pipelines.live.state.output import Output
from pipelines.live.state.program import Program
from pipelines.live.state.rows import Decision, Event, LogOutOfOrder, Place, Result, Row, verdicts_of
from pipelines.live.stream_analytics.joins import JoinState
from pipelines.live.stream_analytics.ordering import Analytics
from pipelines.live.stream_insight import Insight
from pipelines.live.values import shown
from pipelines.live.windows.assign import FOREVER, NEVER, Formed, end_aligned, overlapping, start_aligned
from pipelines.live.windows.by_column import ColumnBuffer, Rows
from pipelines.live.windows.by_row import RowBuffer

Policy = Analytics | Atlas | Insight
Span = tuple[int, int, Hashable]
"""A window's start and end, and a group."""


@dataclass(slots=True)
class Machine:
    """All that is remembered of one job."""

    policy: Policy
    members: list[RowBuffer | ColumnBuffer]
    intake: Intake = field(default_factory=Intake)
    join: JoinState = field(default_factory=JoinState)
    queued: list[Event] = field(default_factory=list)
    """Rows whose turn has not come: a partition that is behind may still bring earlier ones."""
    last: dict[tuple[str, int], Place] = field(default_factory=dict)
    passed: Place | None = None
    parked: list[tuple[Result, dict[str, object]]] = field(default_factory=list)
    """Windows that cannot change any more, but that ``end_of_log: hold`` does not emit yet."""
    told: bool = False
    failed: TailraceError | LogOutOfOrder | None = None

    @classmethod
    def new(cls, job: Job) -> Machine:
        """Nothing seen yet."""
        policies: dict[str, Callable[[], Policy]] = {
            "stream_analytics": Analytics,
            "atlas": Atlas,
            "stream_insight": Insight,
        }
        members = [_holder(job, window) for _, window in Program(job).windows]
        return cls(policies[job.profile](), members)

    # -- a batch ------------------------------------------------------------------------------------------------------

    def step(self, program: Program, messages: Sequence[Message]) -> Output:
        """Take a batch's messages in; what can be decided is. After an error there is nothing but that error."""
        output = Output(error=self.failed)
        if self.failed is not None:
            return output
        try:
            self.intake.take(messages)
            self.policy.known = self.intake.partitions
            verdicts = [self._take(program, name, portion) for name, portion in self.intake.complete()]
            if verdicts:
                output.moved = True
                output.decide(pa.concat_tables(verdicts))
                output.results += self._advance(program)
                self.told = False
        except (TailraceError, LogOutOfOrder) as error:
            output.error = self.failed = error
        return output

    @property
    def wants_end(self) -> bool:
        """Is it time to say what the end of the log gives?"""
        return self.intake.tell and not self.told and self.intake.caught_up

    def finish(self, program: Program, output: Output) -> None:
        """What the log's end gives, as provisional rows. The machine is used up by it: save it before."""
        output.told = output.moved = True
        decisions: list[Decision] = []
        try:
            self._sort_queue(program)
            decisions = self._decide(program, self.queued)
            self.queued = []
            output.provisional_results = self._advance(program)
            output.provisional_results += self._end(program)
        except (TailraceError, LogOutOfOrder) as error:
            output.error = error
        if isinstance(self.policy, Insight):
            decisions += self.policy.open_decisions()
        output.provisional_verdicts = verdicts_of(decisions)

    def _take(self, program: Program, name: str, portion: Sequence[Message]) -> pa.Table:
        """Decide what has come of an input as far as that can be done, and hold what counts; gives the verdicts."""
        if isinstance(self.policy, Analytics):
            # orders inside a partition alone, so every row is due
            taken = batch(program, name, portion)
            self._follow(taken)
            verdicts, counted = self.policy.take(program, taken)
            if program.reads(name):
                self._count(program, counted)
            return verdicts
        self._arrive(events(program, name, portion))
        return verdicts_of(self._decide(program, self._due(program)))

    # -- whose turn it is ---------------------------------------------------------------------------------------------

    def _follow(self, taken: Batch) -> None:
        taken.check()
        for partition, first, last in taken.ends():
            before = self.last.get((taken.input, partition))
            if before is not None and first <= before:
                raise out_of_order(taken.input, partition)
            self.last[taken.input, partition] = last

    def _arrive(self, arrived: list[Event]) -> None:
        self.queued += arrived
        for event in arrived:
            key = (event.input, event.place[1])
            before = self.last.get(key)
            if before is not None and event.place <= before:
                raise out_of_order(*key)
            self.last[key] = event.place

    def _due(self, program: Program) -> list[Event]:
        """The rows that nothing still to come can precede, in arrival order."""
        self._sort_queue(program)
        until = self._turn(program)
        if until is None:
            return []
        count = len(self.queued)
        while count and not _turn_of(program, self.queued[count - 1]) < until:
            count -= 1
        due, self.queued = self.queued[:count], self.queued[count:]
        if due:
            if self.passed is not None and _turn_of(program, due[0]) < self.passed:
                raise LogOutOfOrder(f"input '{due[0].input}' brought a row that precedes rows already decided")
            self.passed = _turn_of(program, due[-1])
        return due

    def _sort_queue(self, program: Program) -> None:
        self.queued.sort(key=lambda event: _turn_of(program, event))

    def _turn(self, program: Program) -> Place | None:
        """The earliest place at which a partition may still bring a row; None while one has said nothing."""
        turns: list[Place] = []
        for part in program.job.inputs:
            for partition in self.intake.partitions.get(part.name, frozenset()) | frozenset(
                range(part.partitions or 0)
            ):
                last = self.last.get((part.name, partition))
                if last is None:
                    return None
                turns.append((last[0], last[1], last[2] + 1, program.turns[part.name]))
        # what speaks for all partitions is taken to come no earlier than the latest arrival there is
        latest: dict[str, int] = {}
        for (name, _), last in self.last.items():
            latest[name] = max(last[0], latest.get(name, last[0]))
        turns += [(arrival, -1, 0, 0) for arrival in latest.values()]
        return min(turns, default=None)

    # -- deciding and windowing ---------------------------------------------------------------------------------------

    def _decide(self, program: Program, due: list[Event]) -> list[Decision]:
        if not due:
            return []
        assert not isinstance(self.policy, Analytics)
        decisions, counted = self.policy.take(program, due)
        self._hold(program, [row for event, row in counted if event.passes])
        return decisions

    def _count(self, program: Program, counted: Counted) -> None:
        if program.job.window_query.join is not None:
            self._hold(program, _where(program, self.join.take(program, counted)))
            return
        passes = counted.batch.columns.get("passes")
        if passes is not None:
            counted = counted.take(passes.data.astype(bool))
        columns, rows = None, None
        for held in self.members:
            if isinstance(held, ColumnBuffer):
                columns = Rows.counted(program, counted) if columns is None else columns
                held.add(columns)
            else:
                rows = rows or counted.rows(program)
                held.add(program, rows)

    def _hold(self, program: Program, rows: Sequence[Row]) -> None:
        if not rows:
            return
        for held in self.members:
            if isinstance(held, ColumnBuffer):
                held.add(Rows.joined(program, rows))
            else:
                held.add(program, rows)

    def _advance(self, program: Program) -> list[Result]:
        """The windows that have become final."""
        bound = self._bound(program)
        self._forget_cancelled()
        found = list(self._session_results(program))
        for held, (window_id, window) in zip(self.members, program.windows, strict=True):
            high = _high(program, window, bound)
            if high <= held.low:
                continue
            found += self._formed(program, held, window_id, window, high)
            held.forget(high)
        return self._unpark(program, found)

    def _forget_cancelled(self) -> None:
        """Rows whose end edge took them back: of no length, in no window."""
        if isinstance(self.policy, Insight):
            for held in self._by_row():
                held.groups = {key: [row for row in rows if row.end != row.start] for key, rows in held.groups.items()}

    def _bound(self, program: Program) -> int:
        bounds = [self.policy.bound(program, name) for name in program.sources]
        low = [NEVER if one is None else one for one in bounds]
        if program.job.window_query.join is None:
            return min(low)
        left, right = low
        self._hold(program, _where(program, self.join.expire(program, left, right)))
        return self.join.bound(program, left, right)

    def _by_row(self) -> list[RowBuffer]:
        return [held for held in self.members if isinstance(held, RowBuffer)]

    def _formed(
        self, program: Program, held: RowBuffer | ColumnBuffer, window_id: str | None, window: SimpleWindow, high: int
    ) -> list[Result]:
        if isinstance(held, ColumnBuffer):
            return held.formed(program, window_id, high)
        found: dict[Span, list[Row]] = {}
        for key, rows in held.groups.items():
            for start, end, inside in self._windows(program, window, rows, held.low, high):
                if isinstance(window, Session):
                    _gather(found, start, end, inside)
                else:
                    found[start, end, key] = inside
        return [_result(program, window_id, start, end, rows) for (start, end, _), rows in found.items()]

    def _windows(self, program: Program, window: SimpleWindow, rows: list[Row], low: int, high: int) -> Formed:
        if program.job.profile == "stream_analytics":
            return end_aligned(window, rows, low, high)
        if isinstance(self.policy, Insight):
            return overlapping(window, rows, low, high, self._horizon(program))
        return start_aligned(window, rows, low, high)

    def _horizon(self, program: Program) -> int:
        """The greatest finite endpoint or CTI of what the query reads; what was forgotten lies before a CTI."""
        assert isinstance(self.policy, Insight)
        rows = chain.from_iterable(rows for held in self._by_row() for rows in held.groups.values())
        ends = [row.start if row.end is None else row.end for row in rows]
        ctis = [clock.current for name, clock in self.policy.clocks.items() if program.reads(name)]
        return max([*ends, *(cti for cti in ctis if cti is not None)], default=NEVER)

    def _session_results(self, program: Program) -> list[Result]:
        """Sessions that the atlas policy has closed."""
        if not isinstance(self.policy, Atlas):
            return []
        ended, self.policy.ended = self.policy.ended, []
        found: dict[Span, list[Row]] = {}
        for start, end, rows in ended:
            _gather(found, start, end, rows)
        return [_result(program, None, start, end, rows) for (start, end, _), rows in found.items()]

    # -- the end of the log -------------------------------------------------------------------------------------------

    def _unpark(self, program: Program, found: list[Result]) -> list[Result]:
        """Of final windows those that may be emitted: under ``hold`` some wait for their timelines."""
        if not (isinstance(self.policy, Analytics) and program.job.end_of_log == "hold"):
            return found
        self.parked += [(one, _group_values(program, one)) for one in found]
        ready: list[tuple[Result, dict[str, object]]] = []
        waiting: list[tuple[Result, dict[str, object]]] = []
        for one, group in self.parked:
            sure = self.policy.released(program, one.end, group) and self.policy.surely_released(program, one.end)
            (ready if sure else waiting).append((one, group))
        self.parked = waiting
        return [one for one, _ in ready]

    def _end(self, program: Program) -> list[Result]:
        """The windows that ``end_of_log`` adds to the final ones."""
        policy, flush = self.policy, program.job.end_of_log == "flush"
        if isinstance(policy, Analytics):
            if program.job.window_query.join is not None:
                self._hold(program, _where(program, self.join.finish(program)))
            found = [*self._rest(program, FOREVER), *(one for one, _ in self.parked)]
            return found if flush else [o for o in found if policy.released(program, o.end, _group_values(program, o))]
        if flush:
            if isinstance(policy, Atlas):
                policy.end_sessions(program)
            return [*self._session_results(program), *self._rest(program, FOREVER)]
        if isinstance(policy, Insight):
            return self._rest(program, self._bound(program))
        return []

    def _rest(self, program: Program, high: int) -> list[Result]:
        found = []
        for held, (window_id, window) in zip(self.members, program.windows, strict=True):
            found += self._formed(program, held, window_id, window, high)
        return found


def _holder(job: Job, window: SimpleWindow) -> RowBuffer | ColumnBuffer:
    """Where rows wait for that window: by the column if it is one of the stream_analytics grids, else one by one."""
    if job.profile == "stream_analytics" and isinstance(window, Grid):
        return ColumnBuffer(window)
    return RowBuffer(job.profile, window)


def _turn_of(program: Program, event: Event) -> Place:
    return (*event.place[:3], program.turns[event.input])


def _high(program: Program, window: SimpleWindow, bound: int) -> int:
    """How far windows are final. A snapshot that ends at the current time may yet come about by a row that begins
    there, so it waits."""
    if program.job.profile == "stream_insight" and isinstance(window, Snapshot) and bound != NEVER:
        return bound - 1
    return bound


def _where(program: Program, rows: list[Row]) -> list[Row]:
    where = program.job.window_query.where
    if where is None:
        return rows
    place = program.places[where]
    return [row for row in rows if row.values[place] is True]


def _gather(found: dict[Span, list[Row]], start: int, end: int, rows: Sequence[Row]) -> None:
    """Put a session's rows to their groups; sessions of several chains that begin and end as one share a result."""
    for row in rows:
        found.setdefault((start, end, row.group), []).append(row)


def _result(program: Program, window_id: str | None, start: int, end: int, rows: Sequence[Row]) -> Result:
    ordered = sorted(rows, key=lambda row: (row.start, row.arrived))
    keys = [shown(ordered[0].values[place]) for place in program.group_places]
    return Result(start, end, window_id, (*keys, *(_aggregated(program, one, ordered) for one in program.aggregates)))


def _aggregated(program: Program, one: Aggregate, rows: list[Row]) -> object:
    if one.argument is None:
        return len(rows)
    place = program.places[one.argument]
    return aggregate(one, [row.values[place] for row in rows])


def _group_values(program: Program, one: Result) -> dict[str, object]:
    return dict(zip(program.job.window_query.group_by, one.values, strict=False))
