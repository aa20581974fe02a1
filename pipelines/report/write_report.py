"""Gather the data of a report, run the checks, and write the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.documents import report_document, write_document, write_file
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.check_result import CheckResult
from pipelines.report.story import State


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """Where a report was written, and its verdict and checks; ``unchecked`` are sentences about skipped checks.

    ``kept`` is the copy that no later report of the same range replaces; None if ``out`` chose the place.
    """

    place: str
    kept: str | None
    state: State
    verdict: str
    checks: tuple[CheckResult, ...]
    unchecked: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "report": self.place,
            "kept": self.kept,
            "state": self.state,
            "verdict": self.verdict,
            "checks": [check.as_dict() for check in self.checks],
            "not_checked": list(self.unchecked),
        }


def write_report(
    job: Job,
    lakehouse: Lakehouse,
    output: OutputRange,
    *,
    out: Path | None = None,
    checks: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> WrittenReport:
    """Write the report of ``job`` over ``output`` to ``out``, else to ``reports/<job>/<range>.html`` in the lakehouse.

    In the lakehouse a second copy goes to ``reports/<job>/<range>/<when>.html``: the history of the range.
    ``checks`` False leaves out the checks; Spark is then started only if an input's event time is an expression.
    Raises :class:`EnvironmentUnfit` if the place cannot be written.
    """
    from pipelines.quality.run_checks import run_checks
    from pipelines.report.page import render
    from pipelines.report.report_data import gather
    from pipelines.report.story import verdict

    results, unchecked = run_checks(job, lakehouse, output, progress) if checks else ([], ["The checks were left out."])
    progress("gathering the data")
    report = gather(job, lakehouse, output, results, unchecked)
    progress("drawing the page")
    page, found = render(report), verdict(report)
    kept = None
    if out is None:
        name = report_document(job.name, output)
        history = f"{name.removesuffix('.html')}/{datetime.now(UTC):%Y-%m-%dT%H%M%S.%f}.html"
        kept, place = write_document(lakehouse, history, page), write_document(lakehouse, name, page)
    else:
        place = str(write_file(out, page))
    return WrittenReport(place, kept, found.state, found.sentence, report.checks, report.unchecked)
