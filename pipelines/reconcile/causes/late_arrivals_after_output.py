"""``late_arrivals_after_output``: arrivals were appended to the log after the live run had written the window."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import pyarrow.compute as pc

from pipelines.core.time import format_instant
from pipelines.lakehouse.arrival_rows import arrival_rows
from pipelines.lakehouse.layout import arrivals_table
from pipelines.plan.read_range import ReadRange
from pipelines.recompute.logs import Logs
from pipelines.recompute.naming import ArrivalId, event_id, id_of, listed
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.rebuilt_window import RebuiltWindow

Commit = tuple[int, int, str]
"""When, which version, which batch it appended."""


@dataclass
class AppendedBatches:
    """The logs' batches after ``last_emitted_us``, the live run's last output, or after the row's own."""

    logs: Logs
    last_emitted_us: int | None
    _commits: dict[str, list[Commit]] = field(default_factory=dict)
    _arrivals: dict[tuple[str, ReadRange, tuple[str, ...]], set[ArrivalId]] = field(default_factory=dict)

    def late_arrivals(self, window: RebuiltWindow) -> Cause | None:
        """The window is what the run wrote once the later batches are taken out of the log."""
        emitted_us = window.difference.emitted_us if window.difference.copies else self.last_emitted_us
        if emitted_us is None:
            return None
        versions: dict[str, int] = {}
        batches: list[str] = []
        later: set[ArrivalId] = set()
        for part in window.job.inputs:
            commits = self._commits_of(part.name)
            index = bisect_right([at_us for at_us, _, _ in commits], emitted_us)
            if index == 0:
                return None  # nothing was there yet: the two clocks are not the same
            versions[arrivals_table(part.name)] = commits[index - 1][1]
            appended = tuple(batch for _, _, batch in commits[index:] if batch)
            batches += appended
            later |= self._of_batches(window, part.name, appended)
        gone = [one for one in window.arrivals if id_of(one) in later]
        if not gone or not window.gives_live_without(later):
            return None
        when = format_instant(emitted_us)
        result = "the window is exactly what it wrote" if window.live is not None else "there is no such row"
        return Cause(
            "late_arrivals_after_output",
            f"Arrivals were appended to the log after the live run's output of {when}: without the batch(es)"
            f" {listed(batches)} {result}.",
            {
                "emitted_at": when,
                "batches": batches,
                "log_versions": versions,
                "events": [event_id(one) for one in gone[:20]],
                "events_in_all": len(gone),
            },
        )

    def _of_batches(self, window: RebuiltWindow, name: str, batches: tuple[str, ...]) -> set[ArrivalId]:
        """What these batches appended to an input's log, in the range that the window was recomputed from."""
        asked = name, window.end.reads.range, batches
        if batches and asked not in self._arrivals:
            appended = pc.field("batch_id").isin(batches)
            rows = arrival_rows(self.logs.table(name), window.job.input(name), window.end.reads.range, appended)
            self._arrivals[asked] = {id_of(one) for one in rows}
        return self._arrivals.get(asked, set())

    def _commits_of(self, name: str) -> list[Commit]:
        """The commits of a log, oldest first."""
        if name not in self._commits:
            history = self.logs.table(name).history()
            self._commits[name] = sorted(
                (int(one["timestamp"]) * 1000, int(one["version"]), str(one.get("batch_id") or "")) for one in history
            )
        return self._commits[name]
