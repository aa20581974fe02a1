"""``tailrace runs``: the runs of a job, and what each has cost."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipelines.cli.common import JOB, context, emit, find_job
from pipelines.cli.show import print_table

LAST = Annotated[int, typer.Option("--last", metavar="N", min=1, help="So many of the newest runs.")]

Row = dict[str, Any]


def runs(job: JOB, last: LAST = 20) -> None:
    """Show the newest runs of a job: when, what for, how it ended, and its cost in seconds, bytes and tasks."""
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.lakehouse.runs import runs_of

    rows = [_cost_of(run) for run in runs_of(Lakehouse.at(context().lakehouse), find_job(job).name)[-last:]]
    if context().json:
        emit(rows, ())
    elif rows:
        print_table(rows, list(rows[0]))


def _cost_of(run: Row) -> Row:
    """``seconds`` is null for a run that has not ended, and for one whose process died."""
    ended, spent = run["finished_at"], dict(run.get("cost") or {})
    counts = dict(run["counts_by_verdict"] or {})
    return {
        "run_id": run["run_id"],
        "started_at": run["started_at"].isoformat(),
        "kind": run["kind"],
        "status": run["status"],
        "events": sum(counts.values()),
        "seconds": None if ended is None else round((ended - run["started_at"]).total_seconds(), 1),
        "bytes_read": sum(dict(run["bytes_read"] or {}).values()),
        "rows_written": sum(dict(run["rows_written"] or {}).values()),
        **{name: spent.get(name) for name in ("tasks", "task_ms", "shuffle_bytes", "task_memory_bytes")},
        "error": run["error"],
    }
