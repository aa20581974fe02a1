"""``tailrace replay``: run a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import FROM, JOB, TO, context, emit, find_job, note, output_range, progress, run_lines
from pipelines.cli.differences import difference_lines
from pipelines.cli.plan import AS_OF, SLICES, versions

if TYPE_CHECKING:
    from pipelines.core.model import Job
    from pipelines.reconcile.differences import Differences
    from pipelines.replay.summary import RunSummary

REASON = Annotated[str | None, typer.Option("--reason", help="Why; kept in the run ledger.")]


PREVIEW = Annotated[
    bool, typer.Option("--preview", help="Compute into side tables, and print what would change; nothing is replaced.")
]
NAME = Annotated[str | None, typer.Argument(metavar="[NAME]", help="What a preview is called; left out: preview.")]


def replay(
    job: JOB,
    name: NAME = None,
    from_: FROM = None,
    to: TO = None,
    as_of: AS_OF = None,
    slices: SLICES = None,
    reason: REASON = None,
    preview: PREVIEW = False,
) -> None:
    """Run the job over its arrival log and replace exactly the output range."""
    from pipelines.core.errors import UsageError
    from pipelines.plan.stages import stages_of
    from pipelines.replay.run import replay as run

    if name is not None and not preview:
        raise UsageError(f"'{name}' is the name of a preview", hint="write '--preview NAME', or leave it out")
    found, output = find_job(job), output_range(from_, to)
    called = (name or "preview") if preview else None
    with progress(f"replay {found.name}") as steps:
        summary = run(
            found,
            output,
            context().lakehouse,
            as_of=versions(found, as_of),
            slices=slices,
            planned=lambda plan: steps.expect(len(stages_of(plan))),
            reason=reason,
            progress=steps,
            only_run=not preview,
            preview=called,
        )
    for text in summary.plan.notes:
        note(f"note: {text}")
    for text in summary.found.warnings:
        note(f"warning: {text}")
    if called is None:
        emit(summary.as_dict(), _lines(summary))
        return
    changes, place = _changes(found, called)
    emit(
        {"preview": called, "report": place, "run": summary.as_dict(), **changes.as_dict()},
        (*_lines_of_preview(summary, called, changes), f"report  {place}"),
    )
    if changes.differing:
        raise typer.Exit(1)


def _changes(job: Job, name: str) -> tuple[Differences, str]:
    """What the preview would change, and where the page of it is."""
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.reconcile.differences import changes_of_preview
    from pipelines.report.preview_page import write_preview
    from pipelines.runtime.session import session

    lakehouse = Lakehouse.at(context().lakehouse)
    changes = changes_of_preview(session(), lakehouse, job, name)
    return changes, write_preview(changes, job, name, lakehouse)


def _lines_of_preview(summary: RunSummary, name: str, changes: Differences) -> Iterator[str]:
    yield from _lines(summary)
    yield from difference_lines(changes)
    if changes.differing:
        yield f"to put it in place: tailrace promote {changes.job} {name}"


def _lines(summary: RunSummary) -> Iterator[str]:
    from pipelines.plan.stages import format_bytes

    found = summary.found
    took_us = summary.finished_us - summary.started_us
    yield from run_lines(summary.plan.job, summary.run_id, took_us, found.counts_by_verdict, found.counts_by_reason)
    for table, files in found.files_read.items():
        yield f"  read {files} file(s) of {table}, {format_bytes(found.bytes_read[table])}"
    for table, rows in found.rows_written.items():
        yield f"  wrote {rows} row(s) to {table}, version {found.versions_written[table]}, by {found.writer}"
    kind = "windows" if len(found.fingerprints) == 1 and "windows/" in next(iter(found.fingerprints)) else "outputs"
    yield f"  fingerprint of the {kind} {found.output_fingerprint}"
    if not summary.plan.settled:
        yield f"  unsettled: {summary.plan.unsettled}"
