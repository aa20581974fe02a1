"""``tailrace stream``: the live run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import JOB, context, emit, find_job, note, progress, run_lines

if TYPE_CHECKING:
    from pipelines.live.run import StreamSummary

UNTIL_CAUGHT_UP = Annotated[
    bool, typer.Option("--until-caught-up", help="Stop at the end of the logs; left out: run until Ctrl-C.")
]
RESTART = Annotated[bool, typer.Option("--restart", help="Start again at the first commit of the logs.")]
FORMER_NAME = Annotated[bool, typer.Option("--anew", hidden=True)]
"""What ``--restart`` was called before."""


def stream(
    job: JOB, until_caught_up: UNTIL_CAUGHT_UP = False, restart: RESTART = False, anew: FORMER_NAME = False
) -> None:
    """Run the job live over its arrival logs, from where it stopped, into stream_windows or stream_outputs."""
    from pipelines.live.run import stream as run

    found = find_job(job)
    if not until_caught_up:
        note(f"streaming {found.name}; Ctrl-C stops it, and the next run goes on from there")
    with progress(f"stream {found.name}") as advance:
        from_start = restart or anew
        summary = run(
            found, context().lakehouse, until_caught_up=until_caught_up, from_start=from_start, progress=advance
        )
    emit(summary.as_dict(), _lines(summary))


def _lines(summary: StreamSummary) -> Iterator[str]:
    took_us = summary.finished_us - summary.started_us
    yield from run_lines(summary.job, summary.run_id, took_us, summary.counts_by_verdict, summary.counts_by_reason)
    for table, rows in summary.rows_written.items():
        yield f"  wrote {rows} final row(s) to {table}"
        yield f"  and {summary.provisional_rows.get(table, 0)} provisional ones, which the next arrivals may change"
