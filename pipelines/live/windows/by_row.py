"""Rows kept one by one until every window that they are in is final."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import Session, SimpleWindow
from pipelines.live.state.program import Program
from pipelines.live.state.rows import LogOutOfOrder, Row
from pipelines.live.values import all_same
from pipelines.live.windows.assign import NEVER, kept


@dataclass(slots=True)
class RowBuffer:
    """The rows of one of the query's windows that are still needed, by group (sessions: by chain).

    Windows that end before ``low`` have been given.
    """

    profile: str
    window: SimpleWindow
    low: int = NEVER
    groups: dict[Hashable, list[Row]] = field(default_factory=dict)

    def add(self, program: Program, rows: Sequence[Row]) -> None:
        """More rows; :class:`LogOutOfOrder` where one should have counted in windows already given."""
        window = self.window
        places = [program.places[column] for column in window.partition_by] if isinstance(window, Session) else None
        for row in rows:
            if row.start < self.low and self.profile == "stream_analytics":
                raise LogOutOfOrder("a row came that counts in a window already emitted")
            key = row.group if places is None else all_same([row.values[place] for place in places])
            self.groups.setdefault(key, []).append(row)

    def forget(self, high: int) -> None:
        """Windows before ``high`` were given: let go of what no later one needs."""
        self.low = high
        still = {key: kept(self.profile, self.window, rows, high) for key, rows in self.groups.items()}
        self.groups = {key: rows for key, rows in still.items() if rows}
