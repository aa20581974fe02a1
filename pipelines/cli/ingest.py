"""``tailrace ingest``: append files to an arrival log, or load reference data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, find_job, note, progress
from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.time import format_instant

if TYPE_CHECKING:
    from pipelines.ingest.batch import IngestSummary
    from pipelines.ingest.references import ReferenceSummary


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("ingest")
    def ingest(
        job: Annotated[str, typer.Argument(metavar="JOB", help="Job file, or the name of a job.")],
        files: Annotated[
            list[Path], typer.Argument(metavar="FILE...", help="JSON lines, CSV (also .gz) or Parquet, in order.")
        ],
        input_name: Annotated[
            str | None, typer.Option("--input", metavar="NAME", help="The job's input to append to.")
        ] = None,
        reference: Annotated[
            str | None, typer.Option("--reference", metavar="NAME", help="The job's reference data to load.")
        ] = None,
        batch: Annotated[
            str | None, typer.Option("--batch", metavar="ID", help="Name of the batch; default: hash of the content.")
        ] = None,
    ) -> None:
        """Append files to an arrival log as one atomic batch; records that do not fit are quarantined (exit code 3).

        With --reference, load reference data: a static set is replaced, snapshots are appended.
        """
        from pipelines.ingest.batch import ingest as run
        from pipelines.ingest.references import ingest_reference

        found = find_job(job)
        if (input_name is None) == (reference is None):
            raise UsageError("name either --input or --reference", hint="write ingest JOB --input NAME FILE...")
        summary: IngestSummary | ReferenceSummary
        with progress(f"ingest {input_name or reference}", len(files) + 4) as advance:
            if input_name is not None:
                log = run(found, input_name, files, context().lakehouse, batch, progress=advance)
                summary, lines, taken = log, _log_lines(log), f"{log.appended} were appended"
            else:
                assert reference is not None
                data = ingest_reference(found, reference, files, context().lakehouse, batch, progress=advance)
                summary, lines, taken = data, _reference_lines(data), f"{data.rows} were loaded"
        for warning in summary.warnings:
            note(f"warning: {warning}")
        emit(summary.as_dict(), lambda out: out.print(lines, markup=False))
        if summary.quarantined:
            if context().json:
                raise typer.Exit(DataRefused.exit_code)
            raise _refusal(summary, input_name or reference, taken)


def _log_lines(summary: IngestSummary) -> str:
    if summary.already_ingested:
        return f"batch {summary.batch_id} is in arrivals/{summary.input} already: nothing to do"
    what = f"{summary.events} event(s)"
    if summary.punctuations:
        what += f" and {summary.punctuations} punctuation(s)"
    ends = ""
    if summary.first_arrival_us is not None and summary.last_arrival_us is not None:
        ends = f", arrived {format_instant(summary.first_arrival_us)} to {format_instant(summary.last_arrival_us)}"
    return f"arrivals/{summary.input}: {what} appended{ends}, batch {summary.batch_id}"


def _reference_lines(summary: ReferenceSummary) -> str:
    table = f"references/{summary.reference}"
    if summary.already_ingested:
        return f"batch {summary.batch_id} is in {table} already: nothing to do"
    snapshots = f" in {len(summary.snapshots_us)} snapshot(s)" if summary.snapshots_us else ""
    return f"{table}: {summary.rows} row(s){snapshots} loaded, version {summary.version}, batch {summary.batch_id}"


def _refusal(summary: IngestSummary | ReferenceSummary, name: str | None, taken: str) -> DataRefused:
    places = [f"{one.source}:{one.position}: {one.reason}" for one in summary.refused[:5]]
    more = summary.quarantined - len(places)
    shown = "".join(f"\n  {place}" for place in places) + (f"\n  and {more} more" if more > 0 else "")
    return DataRefused(
        f"{summary.quarantined} record(s) were refused and are in quarantine/{name};"
        f" the other {taken}:{shown}\n"
        f"correct them and ingest them as a batch of their own; 'tailrace show JOB quarantine' lists all"
    )
