"""Two runs over the same range: once the newer one has committed, the older one writes nothing more.

Every commit of a run names the run, and the ledger has its range and when it began. So before a run replaces rows it
sees who has written since it was planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from pipelines.core.errors import EnvironmentUnfit
from pipelines.core.intervals import common, format_range
from pipelines.core.time import format_instant, from_datetime
from pipelines.lakehouse.commits import commits, metadata_of
from pipelines.lakehouse.owned_ranges import output_of
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of


@dataclass(frozen=True, slots=True)
class Fence:
    """What a run, ``row`` in the ledger, may still replace in the ``tables`` that it writes together.

    ``tables``: the version of each that its plan saw, None where there was none.
    """

    lakehouse: Lakehouse
    row: Mapping[str, Any]
    tables: Mapping[str, int | None]

    def check(self, _: DeltaTable | None = None) -> None:
        """:class:`EnvironmentUnfit`, a write conflict, if a newer run over a part of the range has committed."""
        others = {run_id: (table, version) for table, version, run_id in self._since_the_plan()}
        if not others:
            return
        ledger = {run["run_id"]: run for run in runs_of(self.lakehouse, self.row["job"])}
        for run_id, (table, version) in others.items():
            other = ledger.get(run_id)
            if other is None or (common(output_of(other), output_of(self.row)) and self._is_newer(other)):
                self._refuse(other, run_id, table, version)

    def _since_the_plan(self) -> Iterator[tuple[str, int, str]]:
        """Table, version and run of the commits of other runs."""
        for name, seen in self.tables.items():
            table = self.lakehouse.open(name)
            for version, about in commits(table) if table is not None else ():
                if seen is not None and version <= seen:
                    break
                run_id = metadata_of(about).get("run_id")
                if run_id not in (None, self.row["run_id"]):
                    yield name, version, str(run_id)

    def _is_newer(self, other: Mapping[str, Any]) -> bool:
        """Whether the other run began later, or read more of a log, as one may that began between plan and run."""
        begun = (other["started_at"], other["run_id"]) > (self.row["started_at"], self.row["run_id"])
        theirs, mine = dict(other["versions_read"] or {}), dict(self.row["versions_read"])
        return begun or any(theirs.get(name, -1) > version for name, version in mine.items())

    def _refuse(self, other: Mapping[str, Any] | None, run_id: str, table: str, version: int) -> None:
        newer = "that is not in the run ledger"
        if other is not None:
            begun = format_instant(from_datetime(other["started_at"]))
            newer = f"of {format_range(output_of(other))}, begun at {begun}"
        raise EnvironmentUnfit(
            f"write conflict: run {self.row['run_id']} is older than run {run_id} {newer},"
            f" which has written version {version} of {table} meanwhile",
            hint="the older run writes nothing more; run the command again, which is safe",
        )
