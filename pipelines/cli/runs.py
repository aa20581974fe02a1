"""``tailrace runs``: the runs of a job, and what each has cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.common import JOB, context, emit, find_job

if TYPE_CHECKING:
    from rich.console import RenderableType

LAST = Annotated[int, typer.Option("--last", metavar="N", min=1, help="So many of the newest runs.")]

Row = dict[str, Any]


def runs(job: JOB, last: LAST = 20) -> None:
    """Show the newest runs of a job: when, what for, how it ended, and its cost in seconds, bytes and tasks."""
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.lakehouse.runs import runs_of

    rows = [_cost_of(run) for run in runs_of(Lakehouse.at(context().lakehouse), find_job(job).name)[-last:]]
    emit(rows, _lines(rows))


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


def _lines(rows: Sequence[Row]) -> Iterator[RenderableType]:
    from rich.table import Table

    from pipelines.plan.stages import format_bytes

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("started", "run", "kind", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("events", "seconds", "read", "rows written", "tasks", "task seconds", "shuffled", "memory of a task"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        read, shuffled, memory = (row[name] for name in ("bytes_read", "shuffle_bytes", "task_memory_bytes"))
        table.add_row(
            row["started_at"][:19],
            row["run_id"][:8],
            row["kind"],
            row["status"],
            f"{row['events']:,}",
            "" if row["seconds"] is None else f"{row['seconds']:,.1f}",
            format_bytes(read),
            f"{row['rows_written']:,}",
            "" if row["tasks"] is None else f"{row['tasks']:,}",
            "" if row["task_ms"] is None else f"{row['task_ms'] / 1000:,.1f}",
            "" if shuffled is None else format_bytes(shuffled),
            "" if memory is None else format_bytes(memory),
        )
    yield table
