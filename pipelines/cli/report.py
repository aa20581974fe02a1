"""``tailrace report``: the data-quality report, one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import FROM, JOB, TO, context, emit, find_job, output_range, progress

if TYPE_CHECKING:
    from pipelines.report.write_report import WrittenReport

OUT = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Left out: in the lakehouse, under reports.")]
NO_CHECKS = Annotated[bool, typer.Option("--no-checks", help="Leave out the checks, which start Spark.")]


def report(job: JOB, from_: FROM = None, to: TO = None, out: OUT = None, no_checks: NO_CHECKS = False) -> None:
    """Write the data-quality report as one HTML file; exit 1 if windows differ or a check failed."""
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.quality.run_checks import STEPS
    from pipelines.report.write_report import write_report

    found, output = find_job(job), output_range(from_, to)
    with progress(f"report {found.name}", 2 if no_checks else STEPS + 2) as advance:
        lakehouse = Lakehouse.at(context().lakehouse)
        written = write_report(found, lakehouse, output, out=out, checks=not no_checks, progress=advance)
    emit(written.as_dict(), _lines(written))
    if written.state == "bad":
        raise typer.Exit(1)


def _lines(written: WrittenReport) -> Iterator[str]:
    yield written.verdict
    for check in written.checks:
        yield f"  {check.name}: {'passed' if check.passed else f'FAILED, {check.failed_rows} row(s)'}"
    yield from (f"  {sentence}" for sentence in written.unchecked)
    yield f"report  {written.place}"
