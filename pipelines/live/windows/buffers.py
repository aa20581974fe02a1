"""Where rows wait until every window that they are in is final."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipelines.core.model import SimpleWindow
from pipelines.core.values import grouped_value
from pipelines.live.aggregates import aggregate
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import WindowResult
from pipelines.live.state.rows import NEVER, Counted, Row

Formed = list[tuple[int, int, list[Row]]]
"""Windows: start, end, rows."""


class WindowBuffer(Protocol):
    """The rows that windows of one definition (one of ``any_of``, S13) still need."""

    @abstractmethod
    def add(self, counted: Counted) -> None:
        """Store rows, at least one; :class:`LogOutOfOrder` where one should have counted in windows already given."""

    @abstractmethod
    def close(self, until: int) -> list[WindowResult]:
        """Give the windows that end before ``until`` (microseconds), each once (G4), and remove the rows that no later
        one needs."""


@dataclass
class RowBuffer(WindowBuffer):
    """Rows one by one, by group (G5).

    Windows that end before ``low`` have been given.
    """

    compiled: CompiledJob
    window_id: str | None
    window: SimpleWindow
    low: int = NEVER
    groups: dict[Hashable, list[Row]] = field(default_factory=dict)

    @abstractmethod
    def formed(self, rows: Sequence[Row], until: int) -> Formed:
        """The windows of one group whose end lies in ``[low, until)``."""

    @abstractmethod
    def needed(self, rows: Sequence[Row], until: int) -> list[Row]:
        """Those of a group's rows that a window which ends at ``until`` or later may still need."""

    def keys(self, rows: Sequence[Row]) -> Iterable[Hashable]:
        """For each row a key, equal for rows of one group."""
        return (row.group for row in rows)

    def add(self, counted: Counted) -> None:
        for key, row in zip(self.keys(counted.rows), counted.rows, strict=True):
            self.groups.setdefault(key, []).append(row)

    def close(self, until: int) -> list[WindowResult]:
        if until <= self.low:
            return []
        formed = [window for rows in self.groups.values() for window in self.formed(rows, until)]
        left = {key: self.needed(rows, until) for key, rows in self.groups.items()}
        self.groups = {key: rows for key, rows in left.items() if rows}
        self.low = until
        return self.results(formed)

    def results(self, formed: Formed) -> list[WindowResult]:
        """The rows of the result for windows of one group each."""
        return results_of(self.compiled, self.window_id, formed)


def results_of(compiled: CompiledJob, window_id: str | None, formed: Formed) -> list[WindowResult]:
    """The rows of the result for windows of one group each; inside a window arrival order breaks ties (G6)."""
    groups, positions = compiled.group_positions, compiled.positions
    aggregates = [(one, positions.get(one.argument or "")) for one in compiled.job.window_query.aggregates]
    found = []
    for start, end, inside in formed:
        rows = sorted(inside, key=lambda row: (row.start, row.arrived))
        values = [grouped_value(rows[0].values[position]) for position in groups]
        for one, position in aggregates:
            values.append(aggregate(one, rows if position is None else [row.values[position] for row in rows]))
        found.append(WindowResult(start, end, window_id, tuple(values)))
    return found


def by_group(sessions: Formed) -> Formed:
    """Sessions of chains as windows of groups: sessions of several chains with the same bounds share a result (G5)."""
    found: dict[tuple[int, int, Hashable], list[Row]] = {}
    for start, end, rows in sessions:
        for row in rows:
            found.setdefault((start, end, row.group), []).append(row)
    return [(start, end, rows) for (start, end, _), rows in found.items()]
