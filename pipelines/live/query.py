"""What happens to the rows that count: they are joined, put into windows and aggregated.

Ordering is done (G1): rows come with their system timestamps, and of the policy only the bound is asked before which no
further row of an input counts, and what ``end_of_log: hold`` emits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.live.joins import JoinState
from pipelines.live.ordering import OrderingPolicy
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import Output, WindowResult
from pipelines.live.state.rows import FOREVER, Counted, CountedRows, Row
from pipelines.live.windows.buffers import WindowBuffer


@dataclass(slots=True)
class WindowQuery:
    """The state of a query of one step with one window.

    ``unreleased`` are windows that are final, but that ``end_of_log: hold`` does not emit yet.
    """

    compiled: CompiledJob
    windows: list[WindowBuffer]
    join: JoinState | None
    unreleased: list[WindowResult] = field(default_factory=list)

    @classmethod
    def new(cls, compiled: CompiledJob, policy: OrderingPolicy) -> WindowQuery:
        """No row has come yet."""
        windows = [policy.buffer(*one) for one in compiled.windows]
        join = compiled.job.window_query.join
        return cls(compiled, windows, None if join is None else JoinState(compiled, join))

    def add(self, name: str, counted: Counted) -> None:
        """Take rows of one input that count and that ``where`` keeps (of a join: before ``where``)."""
        if self.join is None:
            self._store(counted)
        else:
            self._store_joined(self.join, self.join.add(name, counted))

    def emit(self, policy: OrderingPolicy, output: Output) -> None:
        """Give the windows that are final now and may be emitted."""
        final = self.unreleased + self.close({name: policy.bound(name) for name in self.compiled.sources})
        self.unreleased = []
        for one in final:
            (output.windows if policy.emits(one) else self.unreleased).append(one)

    def finish(self, policy: OrderingPolicy, output: Output) -> None:
        """Give the windows that the end of the log closes, as provisional ones."""
        final = Output()
        self.emit(policy, final)
        rest = [*self.unreleased, *self.close(dict.fromkeys(self.compiled.sources, FOREVER))]
        flush = self.compiled.job.end_of_log == "flush"
        output.provisional_windows = final.windows + [one for one in rest if flush or policy.emits_at_end(one)]

    def close(self, bounds: Mapping[str, int]) -> list[WindowResult]:
        """The windows that have become final: no further row of an input counts before its bound (microseconds)."""
        until = min(bounds.values())
        if self.join is not None:
            left, right = (bounds[name] for name in self.compiled.sources)
            self._store_joined(self.join, self.join.expire(left, right))
            until = self.join.bound(left, right)
        return [result for buffer in self.windows for result in buffer.close(until)]

    def _store(self, counted: Counted) -> None:
        if len(counted):
            for buffer in self.windows:
                buffer.add(counted)

    def _store_joined(self, join: JoinState, rows: Sequence[Row]) -> None:
        """Joined rows; ``where`` acts on the pair (G2)."""
        where = self.compiled.job.window_query.where
        if where is not None:
            position = self.compiled.positions[where]
            rows = [row for row in rows if row.values[position] is True]
        self._store(CountedRows(rows, join.types))
