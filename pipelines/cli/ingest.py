"""``tailrace ingest``: append files to an arrival log, or load reference data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import JOB, context, emit, find_job, note, progress
from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.time import format_instant

if TYPE_CHECKING:
    from pipelines.ingest.batch import IngestSummary
    from pipelines.ingest.references import ReferenceSummary

FILES = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="JSON lines, CSV (also .gz) or Parquet, in order.")
]
INPUT = Annotated[str | None, typer.Option("--input", metavar="NAME", help="The job's input to append to.")]
REFERENCE = Annotated[str | None, typer.Option("--reference", metavar="NAME", help="The job's reference data to load.")]
BATCH = Annotated[
    str | None, typer.Option("--batch", metavar="ID", help="Name of the batch; default: hash of the content.")
]


def ingest(job: JOB, files: FILES, input_name: INPUT = None, reference: REFERENCE = None, batch: BATCH = None) -> None:
    """Append files to an arrival log as one atomic batch; records that do not fit are quarantined (exit code 3).

    With --reference, load reference data: a static set is replaced, snapshots are appended.
    """
    from pipelines.ingest.batch import ingest as run
    from pipelines.ingest.references import ingest_reference

    found = find_job(job)
    summary: IngestSummary | ReferenceSummary
    match input_name, reference:
        case str(name), None:
            with progress(f"ingest {name}", len(files) + 4) as advance:
                summary = run(found, name, files, context().lakehouse, batch, progress=advance)
            lines, accepted = _log_lines(summary), f"{summary.appended} were appended"
        case None, str(name):
            with progress(f"ingest {name}", len(files) + 4) as advance:
                summary = ingest_reference(found, name, files, context().lakehouse, batch, progress=advance)
            lines, accepted = _reference_lines(summary), f"{summary.rows} were loaded"
        case _:
            raise UsageError("name either --input or --reference", hint="write ingest JOB --input NAME FILE...")
    for warning in summary.warnings:
        note(f"warning: {warning}")
    emit(summary.as_dict(), lines)
    if summary.quarantined:
        if context().json:
            raise typer.Exit(DataRefused.exit_code)
        raise _refusal(summary, name, accepted)


def _log_lines(summary: IngestSummary) -> Iterator[str]:
    if summary.already_ingested:
        yield f"batch {summary.batch_id} is in arrivals/{summary.input} already: nothing to do"
        return
    what = f"{summary.events} event(s)"
    if summary.punctuations:
        what += f" and {summary.punctuations} punctuation(s)"
    ends = ""
    if summary.first_arrival_us is not None and summary.last_arrival_us is not None:
        ends = f", arrived {format_instant(summary.first_arrival_us)} to {format_instant(summary.last_arrival_us)}"
    yield f"arrivals/{summary.input}: {what} appended{ends}, batch {summary.batch_id}"


def _reference_lines(summary: ReferenceSummary) -> Iterator[str]:
    table = f"references/{summary.reference}"
    if summary.already_ingested:
        yield f"batch {summary.batch_id} is in {table} already: nothing to do"
        return
    snapshots = f" in {len(summary.snapshots_us)} snapshot(s)" if summary.snapshots_us else ""
    yield f"{table}: {summary.rows} row(s){snapshots} loaded, version {summary.version}, batch {summary.batch_id}"


def _refusal(summary: IngestSummary | ReferenceSummary, name: str, accepted: str) -> DataRefused:
    lines = [f"\n  {one.source}:{one.position}: {one.reason}" for one in summary.refused[:5]]
    if summary.quarantined > len(lines):
        lines.append(f"\n  and {summary.quarantined - len(lines)} more")
    return DataRefused(
        f"{summary.quarantined} record(s) were refused and are in quarantine/{name};"
        f" the other {accepted}:{''.join(lines)}\n"
        f"correct them and ingest them as a batch of their own; 'tailrace show JOB quarantine' lists all"
    )
