"""``tailrace replay``: run a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, find_job, note, output_range, progress
from pipelines.cli.plan import AS_OF, FROM, JOB, TO, size, versions

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.replay.run import RunSummary


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
        from pipelines.replay.run import STEPS
        from pipelines.replay.run import replay as run

        found = find_job(job)
        wanted = output_range(from_, to)
        with progress(f"replay {found.name}", STEPS) as advance:
            summary = run(
                found,
                wanted,
                context().lakehouse,
                as_of=versions(found, as_of),
                reason=reason,
                progress=advance,
                only=True,
            )
        for text in summary.plan.notes:
            note(f"note: {text}")
        for text in summary.warnings:
            note(f"warning: {text}")
        emit(summary.as_dict(), lambda out: _tell(out, summary))


def _tell(out: Console, summary: RunSummary) -> None:
    seconds = (summary.finished_us - summary.started_us) / 1_000_000
    lines = [f"{summary.plan.job}: run {summary.run_id} took {seconds:.1f} s over {summary.events} event(s)"]
    lines += [f"  {verdict}: {count}" for verdict, count in summary.counts_by_verdict.items()]
    if summary.counts_by_reason:
        lines.append("  reasons: " + ", ".join(f"{name} {count}" for name, count in summary.counts_by_reason.items()))
    for table, files in summary.files_read.items():
        lines.append(f"  read {files} file(s) of {table}, {size(summary.bytes_read[table])}")
    for table, rows in summary.rows_written.items():
        lines.append(f"  wrote {rows} row(s) to {table}, version {summary.versions_written[table]}")
    lines.append(f"  fingerprint of the windows {summary.output_fingerprint}")
    if not summary.plan.settled:
        lines.append(f"  unsettled: {summary.plan.unsettled}")
    for line in lines:
        out.print(line, markup=False)
