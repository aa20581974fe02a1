"""``tailrace replay``: run a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, find_job, note, output_range, progress
from pipelines.cli.plan import AS_OF, FROM, JOB, TO, versions

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.replay.summary import RunSummary


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("replay")
    def replay(
        job: JOB,
        from_: FROM = None,
        to: TO = None,
        as_of: AS_OF = None,
        reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the run ledger.")] = None,
    ) -> None:
        """Run the job over its arrival log and replace exactly the output range."""
        from pipelines.plan.stages import stages_of
        from pipelines.replay.run import replay as run

        found = find_job(job)
        wanted = output_range(from_, to)
        with progress(f"replay {found.name}") as steps:
            summary = run(
                found,
                wanted,
                context().lakehouse,
                as_of=versions(found, as_of),
                planned=lambda plan: steps.expect(len(stages_of(plan))),
                reason=reason,
                progress=steps,
                only_run=True,
            )
        for text in summary.plan.notes:
            note(f"note: {text}")
        for text in summary.found.warnings:
            note(f"warning: {text}")
        emit(summary.as_dict(), lambda out: _print(out, summary))


def _print(out: Console, summary: RunSummary) -> None:
    from pipelines.plan.stages import format_bytes

    found = summary.found
    seconds = (summary.finished_us - summary.started_us) / 1_000_000
    lines = [f"{summary.plan.job}: run {summary.run_id} took {seconds:.1f} s over {summary.events} event(s)"]
    lines += [f"  {verdict}: {count}" for verdict, count in found.counts_by_verdict.items()]
    if found.counts_by_reason:
        lines.append("  reasons: " + ", ".join(f"{name} {count}" for name, count in found.counts_by_reason.items()))
    for table, files in found.files_read.items():
        lines.append(f"  read {files} file(s) of {table}, {format_bytes(found.bytes_read[table])}")
    for table, rows in found.rows_written.items():
        lines.append(f"  wrote {rows} row(s) to {table}, version {found.versions_written[table]}, by {found.writer}")
    of = "windows" if len(found.fingerprints) == 1 and "windows/" in next(iter(found.fingerprints)) else "outputs"
    lines.append(f"  fingerprint of the {of} {found.output_fingerprint}")
    if not summary.plan.settled:
        lines.append(f"  unsettled: {summary.plan.unsettled}")
    for line in lines:
        out.print(line, markup=False)
