"""What a finished run reports: a row of ``runs``, and the plan that it executed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pipelines.core.time import format_instant
from pipelines.lakehouse import runs
from pipelines.plan.definition import Plan


@dataclass(slots=True)
class Findings:
    """What is known of a run so far; each field is a column of the ledger.

    ``counts_by_verdict`` and ``counts_by_reason`` count every event of the output range, also those that
    ``keep_verdicts: exceptions`` does not write. ``rows_written`` and ``versions_written`` go by table, as do
    ``files_read`` and ``bytes_read``, the files of each log that Spark opened, once each, and ``scans``, how often it
    went through them. Where the plan predicted otherwise, ``warnings`` contain it. ``fingerprints`` are those of the
    outputs by table, ``reference_fingerprints`` those of the reference rows that were read, ``output_fingerprint`` is
    that of all of them. ``writer``: who wrote the results. ``cost``: what Spark spent.
    """

    counts_by_verdict: dict[str, int] = field(default_factory=dict)
    counts_by_reason: dict[str, int] = field(default_factory=dict)
    rows_written: dict[str, int] = field(default_factory=dict)
    versions_written: dict[str, int] = field(default_factory=dict)
    files_read: dict[str, int] = field(default_factory=dict)
    bytes_read: dict[str, int] = field(default_factory=dict)
    scans: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    output_fingerprint: str | None = None
    fingerprints: dict[str, str] = field(default_factory=dict)
    reference_fingerprints: dict[str, str] = field(default_factory=dict)
    writer: str | None = None
    cost: dict[str, int] = field(default_factory=dict)
    engine: dict[str, str] = field(default_factory=dict)

    def add(self, part: Findings) -> None:
        """Add what was found of a part of the range, run after those before it."""
        for name in ("counts_by_verdict", "counts_by_reason", "rows_written", "files_read", "bytes_read"):
            setattr(self, name, added(getattr(self, name), getattr(part, name)))
        self.scans |= {name: max(scans, self.scans.get(name, 0)) for name, scans in part.scans.items()}
        self.versions_written |= part.versions_written
        self.warnings += part.warnings
        self.writer = part.writer if self.writer in (None, part.writer) else "spark"

    def as_dict(self) -> dict[str, Any]:
        """Columns of the ledger, JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One finished run of ``plan``."""

    run_id: str
    kind: str
    plan: Plan
    found: Findings
    started_us: int
    finished_us: int

    @property
    def events(self) -> int:
        """Events of the output range."""
        return sum(self.found.counts_by_verdict.values())

    @property
    def output_fingerprint(self) -> str:
        """SHA-256 of the range's results, and of the reference rows that were read for them."""
        assert self.found.output_fingerprint is not None, "a run that succeeded has computed it"
        return self.found.output_fingerprint

    def fingerprint_of(self, table: str) -> str:
        """That of one output; of any other table, which they depend on together, that of all."""
        return self.found.fingerprints.get(table, self.output_fingerprint)

    @property
    def rows_written(self) -> Mapping[str, int]:
        """Rows by table."""
        return self.found.rows_written

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "run_id": self.run_id,
            "job": self.plan.job,
            "kind": self.kind,
            "status": runs.SUCCEEDED,
            "events": self.events,
            **self.found.as_dict(),
            "started_at": format_instant(self.started_us),
            "finished_at": format_instant(self.finished_us),
            "plan": self.plan.as_dict(),
        }


def added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The sums by name."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def together(by_table: Mapping[str, str]) -> str:
    """The fingerprint of several tables' rows, from that of each; of one table its own."""
    if len(by_table) == 1:
        return next(iter(by_table.values()))
    lines = (f"{table.rpartition('/')[2]} {one}" for table, one in sorted(by_table.items()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
