"""Were arrivals appended to the log after the live run had written the window?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.core.model import Arrival, OutputRange
from pipelines.core.time import format_instant
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.recompute.naming import event_id, id_of, listed
from pipelines.recompute.reads import near
from pipelines.recompute.windows import Logs
from pipelines.reconcile.causes.names import LATE_ARRIVALS, Cause
from pipelines.reconcile.causes.rebuilt_window import Bench, Difference, Values, Workbench


@dataclass
class Appended:
    """The logs' commits after ``last_emitted_us``, the live run's last output, or after the row's own."""

    work: Workbench
    lakehouse: Lakehouse
    last_emitted_us: int | None
    _commits: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    _older: dict[tuple[tuple[str, int], ...], Logs] = field(default_factory=dict)

    def late_arrivals(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """The window is what the run wrote once the later batches are taken out of the log."""
        emitted_us = one.emitted_us if one.copies else self.last_emitted_us
        if emitted_us is None:
            return None
        versions: dict[str, int] = {}
        batches: list[str] = []
        for part in self.work.job.inputs:
            commits = self._commits_of(part.name)
            index = bisect_right([at_us for at_us, _, _ in commits], emitted_us)
            if index == 0:
                return None  # nothing was there yet: the two clocks are not the same
            versions[arrivals_table(part.name)] = commits[index - 1][1]
            batches += [batch for _, _, batch in commits[index:] if batch]
        if not batches:
            return None
        known = {id_of(one) for one in self._as_of(versions, one)}
        later = [one for one in bench.arrivals if id_of(one) not in known]
        kept = [one for one in bench.arrivals if id_of(one) in known]
        if not later or not self.work.gives(one, kept, wanted):
            return None
        when = format_instant(emitted_us)
        result = "the window is exactly what it wrote" if wanted is not None else "there is no such row"
        return Cause(
            LATE_ARRIVALS,
            f"Arrivals were appended to the log after the live run's output of {when}: without the batch(es)"
            f" {listed(batches)} {result}.",
            {
                "emitted_at": when,
                "batches": batches,
                "log_versions": versions,
                "events": [event_id(arrival) for arrival in later[:20]],
                "events_in_all": len(later),
            },
        )

    def _as_of(self, versions: Mapping[str, int], one: Difference) -> list[Arrival]:
        output = OutputRange(one.end_us, one.end_us + 1)
        logs = self._older.setdefault(tuple(sorted(versions.items())), Logs(self.lakehouse, versions))
        return logs.of(self.work.job, near(self.work.job, output, self.work.logs))

    def _commits_of(self, name: str) -> list[tuple[int, int, str]]:
        """(commit time, version, batch) of a log, oldest first."""
        if name not in self._commits:
            history = self.work.logs.table(name).history()
            self._commits[name] = sorted(
                (int(one["timestamp"]) * 1000, int(one["version"]), str(one.get("batch_id") or "")) for one in history
            )
        return self._commits[name]
