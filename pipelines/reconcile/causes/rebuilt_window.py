"""One differing row and its window: recomputed from the log as it is, and from the log altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.core.errors import TailraceError
from pipelines.core.expressions import Evaluate
from pipelines.core.model import Arrival, Job, OutputRange
from pipelines.plan.read_range import read_range
from pipelines.recompute.reads import near
from pipelines.recompute.windows import Logs, Made, recompute, same_values, window_rows
from pipelines.reconcile.causes.budget import Budget

Values = Mapping[str, object]
ARRIVALS_OF_A_ROW = 2_000_000
"""Arrivals recomputed at most for one row."""


@dataclass(frozen=True)
class Difference:
    """One differing key: ``replay`` is what the job gives, ``copies`` the live run's values (none: missing)."""

    key: Values
    replay: Values | None
    copies: tuple[Values, ...]
    emitted_us: int | None = None

    @property
    def end_us(self) -> int:
        """The window's end."""
        value = self.key["window_end"]
        assert isinstance(value, int)
        return value


@dataclass
class Bench:
    """The arrivals of one window end, what the job makes of them there, and the row in question with its events."""

    arrivals: list[Arrival]
    made: Sequence[Made]
    mine: Made | None

    @property
    def members(self) -> list[Arrival]:
        """The events that counted in the row, in the order in which the aggregates saw them."""
        return [] if self.mine is None else [self.arrivals[place] for place in self.mine.members]


@dataclass
class Workbench:
    """Recomputes windows of ``job``; ``keys`` tell rows apart, ``names`` are the compared aggregates."""

    job: Job
    logs: Logs
    evaluate: Evaluate
    keys: Sequence[str]
    names: Sequence[str]
    budget: Budget = field(default_factory=lambda: Budget(ARRIVALS_OF_A_ROW))
    _earlier: int = 0
    _held: dict[int, tuple[list[Arrival], Sequence[Made]]] = field(default_factory=dict)

    @property
    def recomputed(self) -> int:
        """Arrivals recomputed for all rows so far."""
        return self._earlier + self.budget.recomputed

    def of(self, one: Difference) -> Bench:
        """The row's window end; of several rows of one end it is recomputed once."""
        self._earlier, self.budget = self.recomputed, Budget(ARRIVALS_OF_A_ROW)
        output = OutputRange(one.end_us, one.end_us + 1)
        if one.end_us not in self._held:
            self._held.clear()
            arrivals = self.logs.of(self.job, near(self.job, output, self.logs))
            made: Sequence[Made] = recompute(self.job, arrivals, output, self.evaluate).windows
            mine = self._find(made, one.key)
            same = mine is not None and one.replay is not None and same_values(mine.row, one.replay, self.names)
            if not same and one.replay is not None:
                arrivals = self.logs.of(self.job, read_range(self.job, output))
                made = recompute(self.job, arrivals, output, self.evaluate).windows
            self._held[one.end_us] = arrivals, made
        arrivals, made = self._held[one.end_us]
        return Bench(arrivals, made, self._find(made, one.key))

    def _find(self, made: Sequence[Made], key: Values) -> Made | None:
        return next((one for one in made if same_values(one.row, key, self.keys)), None)

    def wanted(self, one: Difference, bench: Bench) -> Values | None:
        """The live values to explain: of several copies the first that is not what the job gives."""
        row = bench.mine.row if bench.mine is not None else one.replay
        others = [copy for copy in one.copies if row is None or not same_values(copy, row, self.names)]
        return others[0] if others else one.copies[0] if one.copies else None

    def gives(self, one: Difference, arrivals: Sequence[Arrival], wanted: Values | None) -> bool:
        """Does the job, over these arrivals, give the live row, or none where the live run has none? No once the
        row's budget is spent."""
        if self.budget.is_spent:
            return False
        self.budget.recompute(len(arrivals))
        output = OutputRange(one.end_us, one.end_us + 1)
        try:
            rows = window_rows(self.job, arrivals, output, self.evaluate)
        except TailraceError:
            return False
        row = next((row for row in rows if same_values(row, one.key, self.keys)), None)
        if row is None or wanted is None:
            return row is None and wanted is None
        return same_values(row, wanted, self.names)
