"""``tailrace promote``: put a preview in place, or remove it."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import JOB, context, emit, find_job
from pipelines.cli.replay import REASON

NAME = Annotated[str, typer.Argument(metavar="NAME", help="The preview's name; 'tailrace show JOB previews' lists.")]
DROP = Annotated[bool, typer.Option("--drop", help="Remove the preview; no table of results changes.")]


def promote(job: JOB, name: NAME, drop: DROP = False, reason: REASON = None) -> None:
    """Put the rows of a preview in place without computing them again, if nothing has changed since."""
    from pipelines.lakehouse.previews import drop_preview, find_preview
    from pipelines.lakehouse.root import Lakehouse

    found, lakehouse = find_job(job), Lakehouse.at(context().lakehouse)
    if drop:
        preview = find_preview(lakehouse, found.name, name)
        drop_preview(lakehouse, preview)
        emit({"dropped": preview.as_dict()}, [f"{found.name}: preview {name} is removed"])
        return
    from pipelines.replay.promote import promote as run

    row = run(found, name, lakehouse, reason=reason)
    keys = ("run_id", "job", "reason", "rows_written", "versions_written", "output_fingerprint", "fingerprints")
    lines = [f"{found.name}: preview {name} is in place, run {row['run_id']}"]
    for table, rows in row["rows_written"].items():
        lines.append(f"  wrote {rows} row(s) to {table}, version {row['versions_written'][table]}")
    emit({"promoted": name, **{key: row[key] for key in keys}}, lines)
