"""``tailrace stream``: the live run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, find_job, note, progress
from pipelines.cli.plan import JOB

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.live.run import StreamSummary


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("stream")
    def stream(
        job: JOB,
        until_caught_up: Annotated[
            bool, typer.Option("--until-caught-up", help="Stop at the end of the logs; left out: run until Ctrl-C.")
        ] = False,
        anew: Annotated[bool, typer.Option("--anew", help="Begin again at the start of the logs.")] = False,
    ) -> None:
        """Run the job live over its arrival logs, from where it stopped, into stream_windows or stream_outputs."""
        from pipelines.live.run import stream as run

        found = find_job(job)
        if not until_caught_up:
            note(f"streaming {found.name}; Ctrl-C stops it, and the next run goes on from there")
        with progress(f"stream {found.name}") as advance:
            summary = run(
                found, context().lakehouse, until_caught_up=until_caught_up, from_start=anew, progress=advance
            )
        emit(summary.as_dict(), lambda out: _print(out, summary))


def _print(out: Console, summary: StreamSummary) -> None:
    seconds = (summary.finished_us - summary.started_us) / 1_000_000
    events = sum(summary.counts_by_verdict.values())
    lines = [f"{summary.job}: run {summary.run_id} took {seconds:.1f} s over {events} event(s)"]
    lines += [f"  {verdict}: {count}" for verdict, count in summary.counts_by_verdict.items()]
    if summary.counts_by_reason:
        lines.append("  reasons: " + ", ".join(f"{name} {count}" for name, count in summary.counts_by_reason.items()))
    for table, rows in summary.rows_written.items():
        lines.append(f"  wrote {rows} final row(s) to {table}")
        lines.append(f"  and {summary.provisional_rows.get(table, 0)} that the end of the log gives for now")
    for line in lines:
        out.print(line, markup=False)
