"""What happens to the rows that count: they are joined, put into windows and aggregated.

Nothing here knows an ordering policy (G1): rows come with their system timestamps, and for each input a bound says
before which instant no further row counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.live.joins import JoinState
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import WindowResult
from pipelines.live.state.rows import Counted, CountedRows, Row
from pipelines.live.windows.buffers import WindowBuffer


@dataclass(slots=True)
class Query:
    """The state of a job's query."""

    compiled: CompiledJob
    windows: list[WindowBuffer]
    join: JoinState | None

    @classmethod
    def new(cls, compiled: CompiledJob, windows: list[WindowBuffer]) -> Query:
        """No row has come yet."""
        join = compiled.job.window_query.join
        return cls(compiled, windows, None if join is None else JoinState(compiled, join))

    def add(self, name: str, counted: Counted) -> None:
        """Take rows of one input that count and that ``where`` keeps (of a join: before ``where``)."""
        if self.join is None:
            self._store(counted)
        else:
            self._store_joined(self.join, self.join.add(name, counted))

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
