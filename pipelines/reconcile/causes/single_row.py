"""One differing row at a time: recompute its window from an altered log until the live run's row comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pipelines.core.errors import TailraceError
from pipelines.lakehouse.show import plain
from pipelines.recompute.windows import same_values
from pipelines.reconcile.causes.idle_close import idle_close
from pipelines.reconcile.causes.interruption import Interruptions
from pipelines.reconcile.causes.late_arrivals import Appended
from pipelines.reconcile.causes.lost_events import Losses
from pipelines.reconcile.causes.names import OUT_OF_DATE, UNEXPLAINED, Cause
from pipelines.reconcile.causes.rebuilt_window import Bench, Difference, Values, Workbench

Test = Callable[[Difference, Bench, "Values | None"], "Cause | None"]


@dataclass(frozen=True)
class Examiner:
    """Finds the cause of differences between a job and its live run."""

    work: Workbench
    interruptions: Interruptions
    appended: Appended
    losses: Losses

    def cause(self, one: Difference) -> Cause:
        """The first cause whose recomputation gives the live run's row."""
        try:
            bench = self.work.of(one)
        except TailraceError as error:
            return Cause(UNEXPLAINED, f"The window could not be recomputed: {error}")
        wanted = self.work.wanted(one, bench)
        for test in self._tests(one):
            found = test(one, bench, wanted)
            if found is not None:
                return found
        return self._unexplained(one, bench, wanted)

    def _tests(self, one: Difference) -> list[Test]:
        tests: list[Test] = [self._out_of_date]
        if self.interruptions.near_stop(one):
            tests.append(self.interruptions.edge_of_stop)
        tests += [self.appended.late_arrivals, partial(idle_close, self.work)]
        losses = self.losses
        if not one.copies:
            return [*tests, losses.row_missing]
        return [
            *tests,
            losses.lost_members,
            losses.counted_twice,
            self.interruptions.edge_of_log,
            losses.lost_before,
            losses.log_gap,
        ]

    def _out_of_date(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        row = None if bench.mine is None else bench.mine.row
        if row is None or wanted is None:
            agrees = row is None and wanted is None
        else:
            agrees = same_values(row, wanted, self.work.names)
        if not agrees or len(one.copies) > 1:
            return None
        return Cause(
            OUT_OF_DATE,
            "Recomputed from the log and the job file as they are now, the window is what the live run wrote: the"
            " replay's row is older. Replay the range again.",
        )

    def _unexplained(self, _: Difference, bench: Bench, wanted: Values | None) -> Cause:
        facts: dict[str, object] = {"events": len(bench.members), "arrivals_recomputed": self.work.budget.recomputed}
        if wanted is not None:
            facts["stream"] = {name: plain(wanted.get(name)) for name in self.work.names}
        if self.work.budget.is_spent:
            limit = f"{self.work.budget.arrivals:,}"
            return Cause(UNEXPLAINED, f"No recomputation within {limit} arrivals gives the live run's row.", facts)
        return Cause(UNEXPLAINED, "No recomputation that was tried gives the live run's row.", facts)
