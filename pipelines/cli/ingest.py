"""``tailrace ingest``: append files to an arrival log, or load reference data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import JOB, context, emit, find_job, instant, note, progress
from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.time import format_instant

if TYPE_CHECKING:
    from pipelines.core.model import Job
    from pipelines.ingest.batch import IngestSummary
    from pipelines.ingest.references import ReferenceSummary

FILES = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE...", help="JSON lines, CSV (also .gz) or Parquet, in order; none: its source."),
]
UNTIL = Annotated[
    str | None, typer.Option("--until", metavar="T", help="From a source: only what arrived before this instant.")
]
INPUT = Annotated[str | None, typer.Option("--input", metavar="NAME", help="The job's input to append to.")]
REFERENCE = Annotated[str | None, typer.Option("--reference", metavar="NAME", help="The job's reference data to load.")]
BATCH = Annotated[
    str | None, typer.Option("--batch", metavar="ID", help="Name of the batch; default: hash of the content.")
]


def ingest(
    job: JOB,
    files: FILES = None,
    input_name: INPUT = None,
    reference: REFERENCE = None,
    batch: BATCH = None,
    until: UNTIL = None,
) -> None:
    """Append to an arrival log as one atomic batch; records that do not fit are quarantined (exit code 3).

    Without files, what is new in the input's source. With --reference, load reference data: a static set is replaced,
    snapshots are appended.
    """
    from pipelines.ingest.batch import ingest as run
    from pipelines.ingest.references import ingest_reference

    found, given = find_job(job), files or []
    summary: IngestSummary | ReferenceSummary
    if until is not None and given:
        raise UsageError("it stops a source; files are read to their end", key="--until")
    match input_name, reference:
        case str(name), None:
            if given:
                with progress(f"ingest {name}", len(given) + 4) as advance:
                    summary = run(found, name, given, context().lakehouse, batch, progress=advance)
            else:
                summary = _from_source(found, name, batch, until)
            lines, accepted = _log_lines(summary), f"{summary.appended} were appended"
        case None, str(name):
            with progress(f"ingest {name}", len(given) + 4) as advance:
                summary = ingest_reference(found, name, given, context().lakehouse, batch, progress=advance)
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


def _from_source(job: Job, name: str, batch: str | None, until: str | None) -> IngestSummary:
    from pipelines.ingest.from_source import ingest_source

    if batch is not None:
        raise UsageError("a batch from a source is named by where it begins", key="--batch", hint="leave it out")
    with progress(f"ingest {name}") as advance:
        return ingest_source(job, name, context().lakehouse, until_us=instant(until, "--until"), progress=advance)


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
    if summary.duplicates:
        yield f"  {summary.duplicates} duplicate(s) dropped"
    if summary.held_at_last:
        yield f"  {summary.held_at_last} taken at the arrival time before theirs"
    yield from (f"  {sentence}" for sentence in summary.notes)


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
