"""``tailrace ingest``: append files to an arrival log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import JOB, context, emit, find_job, note, progress
from pipelines.core.errors import DataRefused
from pipelines.core.time import format_instant

if TYPE_CHECKING:
    from pipelines.ingest.batch import IngestSummary

FILES = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="JSON lines, CSV (also .gz) or Parquet, in order.")
]
INPUT = Annotated[str, typer.Option("--input", metavar="NAME", help="The job's input to append to.")]
BATCH = Annotated[
    str | None, typer.Option("--batch", metavar="ID", help="Name of the batch; default: hash of the content.")
]


def ingest(job: JOB, files: FILES, input_name: INPUT, batch: BATCH = None) -> None:
    """Append files to an arrival log as one atomic batch; records that do not fit are quarantined (exit code 3)."""
    from pipelines.ingest.batch import ingest as run

    found = find_job(job)
    with progress(f"ingest {input_name}", len(files) + 4) as advance:
        summary = run(found, input_name, files, context().lakehouse, batch, progress=advance)
    for warning in summary.warnings:
        note(f"warning: {warning}")
    emit(summary.as_dict(), _lines(summary))
    if summary.quarantined:
        if context().json:
            raise typer.Exit(DataRefused.exit_code)
        raise _refusal(summary)


def _lines(summary: IngestSummary) -> Iterator[str]:
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


def _refusal(summary: IngestSummary) -> DataRefused:
    lines = [f"\n  {one.source}:{one.position}: {one.reason}" for one in summary.refused[:5]]
    if summary.quarantined > len(lines):
        lines.append(f"\n  and {summary.quarantined - len(lines)} more")
    return DataRefused(
        f"{summary.quarantined} record(s) were refused and are in quarantine/{summary.input};"
        f" the other {summary.appended} were appended:{''.join(lines)}\n"
        f"correct them and ingest them as a batch of their own; 'tailrace show JOB quarantine' lists all"
    )
