"""The differing rows that nothing explains as a whole: each one's window is recomputed, from the log as it is and from
an altered log, until the live run's row comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipelines.core.errors import TailraceError
from pipelines.lakehouse.show import plain
from pipelines.reconcile.causes.budget import ARRIVALS_OF_ALL_ROWS
from pipelines.reconcile.causes.cause import UNEXPLAINED, Cause
from pipelines.reconcile.causes.event_counted_twice import counted_twice
from pipelines.reconcile.causes.idle_close_not_recorded import idle_close
from pipelines.reconcile.causes.late_arrivals_after_output import AppendedBatches
from pipelines.reconcile.causes.lost_events import LostEvents
from pipelines.reconcile.causes.rebuilt_window import Difference, Rebuilder, RebuiltWindow
from pipelines.reconcile.causes.replay_out_of_date import out_of_date
from pipelines.reconcile.causes.row_missing_in_stream import row_missing
from pipelines.reconcile.causes.stream_stopped_or_restarted import Interruptions


@dataclass(frozen=True)
class RowByRow:
    """Finds the cause of one differing row after the other; what one row shows to be lost helps to explain another."""

    rebuilder: Rebuilder
    interruptions: Interruptions
    appended: AppendedBatches
    losses: LostEvents = field(default_factory=LostEvents)

    def causes(self, rows: Mapping[str, Difference]) -> dict[str, Cause]:
        """The cause of each row, by its id; without those for which too much would have to be recomputed."""
        # what is missing can follow from events that other rows show to be lost
        ordered = sorted(rows.items(), key=lambda row: not row[1].copies)
        found: dict[str, Cause] = {}
        for row_id, one in ordered:
            if self.rebuilder.recomputed < ARRIVALS_OF_ALL_ROWS:
                found[row_id] = self._cause(one)
        # and which of several events one row lost, a later row may show
        for row_id, one in ordered:
            if self.rebuilder.recomputed < ARRIVALS_OF_ALL_ROWS and self.losses.is_open(found[row_id]):
                found[row_id] = self._cause(one)
        return found

    def _cause(self, one: Difference) -> Cause:
        """The first cause whose recomputation gives the live run's row."""
        try:
            window = self.rebuilder.rebuild(one)
        except TailraceError as error:
            return Cause(UNEXPLAINED, f"The window could not be recomputed: {error}")
        tests: list[Callable[[RebuiltWindow], Cause | None]] = [
            out_of_date,
            self.interruptions.cut_by_gap,
            self.appended.late_arrivals,
            idle_close,
            self.losses.no_row,
            row_missing,
            self.losses.lost_members,
            counted_twice,
            self.interruptions.cut_at_edge,
            self.losses.lost_others,
            self.losses.lost_from_log,
        ]
        return next((cause for test in tests if (cause := test(window)) is not None), None) or _unexplained(window)


def _unexplained(window: RebuiltWindow) -> Cause:
    details: dict[str, object] = {"events": len(window.members), "arrivals_recomputed": window.budget.recomputed}
    if window.live is not None:
        details["stream"] = {name: plain(window.live.get(name)) for name in window.by.names}
    limit = f"within {window.budget.arrivals:,} arrivals" if window.budget.is_spent else "that was tried"
    return Cause(UNEXPLAINED, f"No recomputation {limit} gives the live run's row.", details)
