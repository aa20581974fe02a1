"""``tailrace replay``: run a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import FROM, JOB, TO, context, emit, find_job, note, output_range, progress, run_lines
from pipelines.cli.plan import AS_OF, SLICES, versions

if TYPE_CHECKING:
    from pipelines.replay.summary import RunSummary

REASON = Annotated[str | None, typer.Option("--reason", help="Why; kept in the run ledger.")]


def replay(
    job: JOB, from_: FROM = None, to: TO = None, as_of: AS_OF = None, slices: SLICES = None, reason: REASON = None
) -> None:
    """Run the job over its arrival log and replace exactly the output range."""
    from pipelines.plan.stages import stages_of
    from pipelines.replay.run import replay as run

    found, output = find_job(job), output_range(from_, to)
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
            only_run=True,
        )
    for text in summary.plan.notes:
        note(f"note: {text}")
    for text in summary.found.warnings:
        note(f"warning: {text}")
    emit(summary.as_dict(), _lines(summary))


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
