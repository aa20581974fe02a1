"""``tailrace report``: the data-quality report, one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.common import context, emit, find_job, output_range, progress
from pipelines.cli.plan import FROM, JOB, TO

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("report")
    def report(
        job: JOB,
        from_: FROM = None,
        to: TO = None,
        out: Annotated[
            Path | None, typer.Option("--out", metavar="FILE", help="Left out: in the lakehouse, under reports.")
        ] = None,
        no_checks: Annotated[
            bool, typer.Option("--no-checks", help="Leave out the checks, which start Spark.")
        ] = False,
    ) -> None:
        """Write the data-quality report as one HTML file; exit 1 if windows differ or a check failed."""
        from pipelines.lakehouse.root import Lakehouse
        from pipelines.quality.run import STEPS
        from pipelines.report.write import write_report

        found, lakehouse = find_job(job), Lakehouse.at(context().lakehouse)
        wanted = output_range(from_, to)
        with progress(f"report {found.name}", 2 if no_checks else STEPS + 2) as advance:
            written = write_report(found, lakehouse, wanted, out=out, checks=not no_checks, progress=advance)
        emit(written.as_dict(), lambda out: _tell(out, written.as_dict()))
        if written.state == "bad":
            raise typer.Exit(1)


def _tell(out: Console, written: dict[str, Any]) -> None:
    out.print(written["verdict"], markup=False)
    for check in written["checks"]:
        state = "passed" if check["passed"] else f"FAILED, {check['failed_rows']} row(s)"
        out.print(f"  {check['name']}: {state}", markup=False)
    for sentence in written["not_checked"]:
        out.print(f"  {sentence}", markup=False)
    out.print(f"report  {written['report']}", markup=False)
