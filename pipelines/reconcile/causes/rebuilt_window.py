"""One differing row and its window: recomputed from the log as it is, and from the log altered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipelines.core.errors import TailraceError
from pipelines.core.expressions import Evaluate
from pipelines.core.model import Arrival, Job, OutputRange
from pipelines.plan.bounded_reads import BoundedReads
from pipelines.recompute.logs import Logs
from pipelines.recompute.naming import ArrivalId, id_of
from pipelines.recompute.reads import AROUND, reads_around
from pipelines.recompute.windows import RecomputedWindow, Values, instant_in, recompute, same_values
from pipelines.reconcile.causes.budget import ARRIVALS_OF_A_ROW, READ_AS_A_WHOLE, Budget


@dataclass(frozen=True)
class Difference:
    """One differing key: ``replay`` is what the replay has, ``copies`` the live run's values (none: missing)."""

    key: Values
    replay: Values | None
    copies: tuple[Values, ...]
    emitted_us: int | None = None

    @property
    def end_us(self) -> int:
        """The window's end."""
        return instant_in(self.key, "window_end")


@dataclass
class Rebuilder:
    """Recomputes windows of ``job``; ``keys`` identify rows, ``names`` are the compared aggregates."""

    job: Job
    logs: Logs
    evaluate: Evaluate
    keys: Sequence[str]
    names: Sequence[str]
    budgets: list[Budget] = field(default_factory=list)
    _last: _WindowEnd | None = None

    @property
    def recomputed(self) -> int:
        """Arrivals recomputed for all rows so far."""
        return sum(budget.recomputed for budget in self.budgets)

    def rebuild(self, one: Difference) -> RebuiltWindow:
        """The row's window, recomputed from the log as it is; of several rows of one end it is recomputed once."""
        self.budgets.append(Budget(ARRIVALS_OF_A_ROW))
        if self._last is None or self._last.end_us != one.end_us:
            self._last = self._recompute(one.end_us, READ_AS_A_WHOLE)
            found = self.window_of(one, self._last.windows)
            agrees = one.replay is None or (found and same_values(found.row, one.replay, self.names))
            if self._last.reads.range.rule == AROUND and not agrees:
                self._last = self._recompute(one.end_us, 10 * READ_AS_A_WHOLE)
        return RebuiltWindow(self, one, self._last, self.window_of(one, self._last.windows), self.budgets[-1])

    def window_of(self, one: Difference, windows: Sequence[RecomputedWindow]) -> RecomputedWindow | None:
        """The window of the row's key."""
        return next((window for window in windows if same_values(window.row, one.key, self.keys)), None)

    def _recompute(self, end_us: int, most: int) -> _WindowEnd:
        output = OutputRange(end_us, end_us + 1)
        reads = reads_around(self.job, output, self.logs, most)
        arrivals = self.logs.arrivals(self.job, reads.range)
        self.budgets[-1].recompute(len(arrivals))
        found = recompute(self.job, arrivals, output, self.evaluate, reads.initial_states)
        return _WindowEnd(end_us, reads, arrivals, found.windows)


@dataclass(frozen=True)
class _WindowEnd:
    end_us: int
    reads: BoundedReads
    arrivals: Sequence[Arrival]
    windows: Sequence[RecomputedWindow]


@dataclass(frozen=True)
class RebuiltWindow:
    """What the job gives for the key of ``difference``, if anything: ``found``."""

    by: Rebuilder
    difference: Difference
    end: _WindowEnd
    found: RecomputedWindow | None
    budget: Budget

    @property
    def job(self) -> Job:
        """The job that was recomputed."""
        return self.by.job

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """What it was recomputed from."""
        return self.end.arrivals

    @property
    def members(self) -> Sequence[Arrival]:
        """The events that counted in it, in the order in which the aggregates saw them."""
        return () if self.found is None else self.found.members

    @cached_property
    def live(self) -> Values | None:
        """The live values to explain: of several copies the first that is not what the job gives."""
        row = self.difference.replay if self.found is None else self.found.row
        copies = self.difference.copies
        others = [copy for copy in copies if row is None or not same_values(copy, row, self.by.names)]
        return others[0] if others else copies[0] if copies else None

    def is_live(self, found: RecomputedWindow | None) -> bool:
        """Is that the live row, or nothing where the live run has no row?"""
        if found is None or self.live is None:
            return found is None and self.live is None
        return same_values(found.row, self.live, self.by.names)

    def gives_live(self, arrivals: Sequence[Arrival]) -> bool:
        """Does the job, over these arrivals, give what :meth:`is_live`? No once the row's budget is spent."""
        if self.budget.is_spent:
            return False
        self.budget.recompute(len(arrivals))
        output = OutputRange(self.end.end_us, self.end.end_us + 1)
        try:
            found = recompute(self.job, arrivals, output, self.by.evaluate, self.end.reads.initial_states)
        except TailraceError:
            return False
        return self.is_live(self.by.window_of(self.difference, found.windows))

    def gives_live_without(self, gone: Collection[ArrivalId]) -> bool:
        """As :meth:`gives_live`, over all arrivals but these."""
        return self.gives_live([one for one in self.arrivals if id_of(one) not in gone])
