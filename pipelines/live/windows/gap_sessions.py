"""Sessions of atlas (A7), ``[first, last + gap)``: kept open while documents are decided."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import Session
from pipelines.core.values import grouping_key
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import WindowResult
from pipelines.live.state.rows import FOREVER, Counted, Row
from pipelines.live.windows.buffers import Formed, WindowBuffer, by_group, results_of


@dataclass(slots=True, eq=False)
class OpenSession:
    """A session that still takes documents: the times of its first and last one, and all of them."""

    first: int
    last: int
    rows: list[Row]


@dataclass
class GapSessions(WindowBuffer):
    """The sessions of the query (A7), by chain: a value of ``partition_by``. ``ended`` ones were not given yet.

    The policy puts documents into sessions as it decides them, because the next verdict depends on that. No open
    session ends before ``earliest_end``.
    """

    compiled: CompiledJob
    window: Session
    open: dict[Hashable, list[OpenSession]] = field(default_factory=dict)
    earliest_end: int = FOREVER
    ended: Formed = field(default_factory=list)

    def fitting(self, values: Sequence[object], time: int) -> list[OpenSession]:
        """The open sessions that lie less than the gap away."""
        gap = self.window.timeout_us
        return [one for one in self.open.get(self._chain(values), []) if one.first - gap < time < one.last + gap]

    def join(self, row: Row) -> None:
        """Put a document into its session; one that fits two merges them."""
        fitting = self.fitting(row.values, row.start)
        first = min([row.start, *(one.first for one in fitting)])
        last = max([row.start, *(one.last for one in fitting)])
        rows = [member for one in fitting for member in one.rows]
        rows.append(row)
        chain = self._chain(row.values)
        others = [one for one in self.open.get(chain, []) if one not in fitting]
        self.open[chain] = [*others, OpenSession(first, last, rows)]
        self.earliest_end = min(self.earliest_end, last + self.window.timeout_us)

    def end(self, closed: int) -> None:
        """End the sessions that end at ``closed`` or before (A4)."""
        if closed < self.earliest_end:
            return
        gap, before, self.open = self.window.timeout_us, self.open, {}
        for chain, sessions in before.items():
            self.ended += [(one.first, one.last + gap, one.rows) for one in sessions if one.last + gap <= closed]
            still_open = [one for one in sessions if one.last + gap > closed]
            if still_open:
                self.open[chain] = still_open
        ends = (one.last + gap for sessions in self.open.values() for one in sessions)
        self.earliest_end = min(ends, default=FOREVER)

    def add(self, counted: Counted) -> None:
        """Nothing: the policy has put the rows into their sessions."""

    def close(self, until: int) -> list[WindowResult]:
        self.end(until - 1)
        ended, self.ended = self.ended, []
        return results_of(self.compiled, None, by_group(ended))

    def _chain(self, values: Sequence[object]) -> Hashable:
        return grouping_key([values[self.compiled.positions[column]] for column in self.window.partition_by])
