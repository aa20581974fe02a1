"""What a source gave, as a test compares it: the rows of the log, the counts, and the rows in quarantine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from lakehouse_samples import job

from pipelines.core.model import Job
from pipelines.core.time import parse_instant
from pipelines.ingest.batch import IngestSummary
from pipelines.ingest.from_source import ingest_source
from pipelines.lakehouse.show import plain_rows, rows_of

COLUMNS = "at TIMESTAMP, booth STRING, n INT"


def source_job(source: str, regression: str = "quarantine") -> Job:
    return job(COLUMNS, arrival_regression=regression, source=source)


def event(n: int) -> dict[str, Any]:
    return {"at": "2026-01-01T12:00:00Z", "booth": "a", "n": n}


def ingest(of: Job, lakehouse: Path, until: str | None = None) -> IngestSummary:
    return ingest_source(of, "cars", lakehouse, until_us=None if until is None else parse_instant(until))


def rows(of: Job, lakehouse: Path, table: str = "arrivals") -> list[dict[str, Any]]:
    """Rows of a table without the batch that brought them."""
    found = rows_of(of, table, lakehouse)
    plain = [] if found is None else plain_rows(found)
    return [{name: value for name, value in row.items() if name != "batch_id"} for row in plain]


def keys(of: Job, lakehouse: Path) -> list[tuple[int, int]]:
    return sorted((row["input_partition"], row["sequence"]) for row in rows(of, lakehouse))


def counts(summaries: list[IngestSummary]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in summaries:
        found.update(
            appended=one.appended,
            quarantined=one.quarantined,
            duplicates=one.duplicates,
            held_at_last=one.held_at_last,
        )
    return dict(found)
