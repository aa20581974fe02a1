"""Append what is new in an input's source: rows and the bookmark behind them are one commit.

A batch begins at the bookmark of the log's newest batch from a source. What was killed before its commit begins there
again, under the same batch id, so that it replaces what it left in quarantine. Each record is judged by those before it
alone, so that it does not matter in how many batches a source is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from deltalake import DeltaTable, Transaction

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import Input, Job
from pipelines.core.sources import Kafka
from pipelines.ingest.batch import COUNTS, Batch, IngestSummary, attempted, input_of
from pipelines.ingest.readers import Chunk
from pipelines.ingest.sources.open import open_reader
from pipelines.ingest.sources.reader import Bookmark, Reader
from pipelines.lakehouse import runs
from pipelines.lakehouse.commits import commits
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.runtime.telemetry import traced

KIND = "ingest"


class Progress(Protocol):
    """Called as work goes on: with how much there is, then with what is done and how much more of it."""

    def expect(self, count: int) -> None: ...

    def __call__(self, text: str, advance: int | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Silent:
    """Shows nothing."""

    def expect(self, count: int) -> None:
        """Nothing."""

    def __call__(self, text: str, advance: int | None = None) -> None:
        """Nothing."""


@traced("tailrace.ingest")
def ingest_source(
    job: Job,
    input: str,
    lakehouse: str | Path | Lakehouse,
    *,
    until_us: int | None = None,
    progress: Progress = Silent(),
) -> IngestSummary:
    """Append to ``arrivals/<input>`` what its source has behind the log's bookmark, of each partition up to the first
    message that arrived at ``until_us`` or later.

    Bad messages do not raise: they are in ``quarantine/<input>`` and in the summary. Raises :class:`UsageError` (no
    source, or none that can be read as the job file describes it), and :class:`EnvironmentUnfit` (a source or a
    lakehouse that cannot be reached).
    """
    lakehouse = Lakehouse.at(lakehouse)
    part = input_of(job, input)
    if part.source is None:
        raise UsageError(
            f"input {part.name} has no source", hint="name files, or give it a 'source' in the job file", key="--input"
        )
    lakehouse.require_writable()
    # not "job": Delta's own commits have a record of that name, and Spark could not read the log
    reader, about = open_reader(part), {"job_name": job.name, "started_at": datetime.now(UTC).isoformat()}
    _record(lakehouse, job, part)  # of a batch whose process was killed right after its commit

    def attempt(log: DeltaTable | None) -> IngestSummary:
        return _attempt(lakehouse, part, reader, log, until_us, about, progress)

    summary = attempted(lakehouse, part, attempt, progress)
    if summary.version is not None:
        _record(lakehouse, job, part)
    return summary


def bookmark_of(part: Input, log: DeltaTable | None, reader: Reader) -> Bookmark:
    """The bookmark of the log's newest batch from a source, empty where there is none.

    Raises :class:`UsageError` if it belongs to another source, :class:`EnvironmentUnfit` if its commit is gone.
    """
    found = _newest_bookmark(part, log)
    if found is None:
        return {}
    if found["source"] != reader.identity:
        raise UsageError(
            f"the log arrivals/{part.name} was filled from {found['source']}, not from {reader.identity}",
            hint="use another input name for another source",
        )
    bookmark: Bookmark = found["at"]
    return bookmark


def complete_until(part: Input, log: DeltaTable) -> dict[int, int]:
    """Until when the log is known to have all of an input partition, in microseconds, though nothing arrived; only
    partitions of which the source says it."""
    found = _newest_bookmark(part, log) if part.source is not None else None
    ends = {} if found is None else found["at"]
    return {
        int(place): end["complete_us"] for place, end in ends.items() if isinstance(end, dict) and "complete_us" in end
    }


def _newest_bookmark(part: Input, log: DeltaTable | None) -> dict[str, Any] | None:
    found = _newest_batch(part, log)
    return None if found is None else json.loads(found[1]["bookmark"])


def _newest_batch(part: Input, log: DeltaTable | None) -> tuple[int, dict[str, Any]] | None:
    """The version and the metadata of the newest batch from a source."""
    if log is None or log.transaction_version(_application(part.name)) is None:
        return None
    for version, about in commits(log):
        if "bookmark" in about:
            return version, about
    raise EnvironmentUnfit(
        f"the commit with the bookmark of arrivals/{part.name} is no longer in the table's log",
        hint="keep the Delta log longer (delta.logRetentionDuration); ingest by files what is missing",
    )


@dataclass(frozen=True, slots=True)
class Unread:
    """What a source has behind the bookmark: bytes, of a topic offsets; and sentences on what bounds exactness.
    ``state`` changes when more is there, and when something was ingested."""

    input: str
    size: int
    unit: str
    notes: tuple[str, ...]
    state: str


def unread(lakehouse: Lakehouse, part: Input) -> Unread:
    """What is new in the source of an input; raises as :func:`ingest_source`."""
    reader = open_reader(part)
    begin = bookmark_of(part, lakehouse.open(arrivals_table(part.name)), reader)
    size = reader.size(begin)
    unit = "offset(s)" if isinstance(part.source, Kafka) else "byte(s)"
    return Unread(part.name, size, unit, tuple(reader.notes(begin)), f"{_batch_id(part.name, begin)} {size}")


def _attempt(
    lakehouse: Lakehouse,
    part: Input,
    reader: Reader,
    log: DeltaTable | None,
    until_us: int | None,
    metadata: dict[str, str],
    progress: Progress,
) -> IngestSummary:
    begin = bookmark_of(part, log, reader)
    progress.expect(reader.size(begin))
    batch_id = _batch_id(part.name, begin)
    end = begin

    def chunks() -> Iterator[Chunk]:
        nonlocal end
        for portion in reader.portions(begin, until_us):
            end = portion.bookmark
            for chunk in portion.chunks:
                yield chunk
            progress(f"to {chunk.source}", portion.size)

    with Batch(part, batch_id, log, None) as work:
        work.read(chunks)
        about = IngestSummary(part.name, batch_id, notes=tuple(reader.notes(begin)))
        if end == begin and log is not None:
            return about
        number = 1 + ((log.transaction_version(_application(part.name)) if log is not None else None) or 0)
        bookmark = json.dumps({"source": reader.identity, "at": end}, sort_keys=True)
        metadata = {**metadata, "bookmark": bookmark}
        return work.commit(lakehouse, about, metadata, Transaction(_application(part.name), number))


def _batch_id(name: str, begin: Bookmark) -> str:
    """A batch is named by where it begins, so that one that was killed is repeated under its own name."""
    return hashlib.sha256(f"{name} {json.dumps(begin, sort_keys=True)}".encode()).hexdigest()[:32]


def _application(input_name: str) -> str:
    return f"tailrace/source/{input_name}"


def _record(lakehouse: Lakehouse, job: Job, part: Input) -> None:
    """The ledger's row of the newest batch of this job, as its commit describes it, unless it is there or there was no
    new record. Its run id is the batch's."""
    table = arrivals_table(part.name)
    found = _newest_batch(part, lakehouse.open(table))
    if found is None or found[1]["job_name"] != job.name:
        return
    version, about = found
    counts = {name: int(about[name]) for name in COUNTS}
    if not any(counts.values()) or any(run["run_id"] == about["batch_id"] for run in runs.runs_of(lakehouse, job.name)):
        return
    runs.record(
        lakehouse,
        {
            "run_id": about["batch_id"],
            "job": job.name,
            "kind": KIND,
            "reason": f"what was new in the source of {part.name}",
            "status": runs.SUCCEEDED,
            "job_fingerprint": job.fingerprint,
            **counts,
            "warnings": json.loads(about["warnings"]),
            "rows_written": {table: counts["appended"]},
            "versions_written": {table: version},
            "started_at": datetime.fromisoformat(about["started_at"]),
            "finished_at": datetime.now(UTC),
            "process": runs.this_process(),
        },
    )
