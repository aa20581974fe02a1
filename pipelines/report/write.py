"""Gather the facts, run the checks, write the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.documents import report_document, write_document, write_file
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.checks import CheckResult
from pipelines.report.story import State


@dataclass(frozen=True, slots=True)
class Written:
    """A report that was written: where, and what it says.

    ``kept`` is the copy that no later report of the same range replaces; None where ``out`` chose the place.
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
    progress: Callable[[str], None] | None = None,
) -> Written:
    """Write the report of ``job`` over ``output`` to ``out``, else to ``reports/<job>/<range>.html`` in the lakehouse.

    In the lakehouse it is kept a second time, as ``reports/<job>/<range>/<when>.html``: the history of the range.
    ``checks`` False leaves out the checks; Spark is then started only where an input's event time is an expression.
    Raises :class:`EnvironmentUnfit` if the place cannot be written.
    """
    from pipelines.quality.run import run_checks
    from pipelines.report.facts import gather
    from pipelines.report.page import render
    from pipelines.report.story import verdict

    tell = progress or (lambda _: None)
    results, unchecked = run_checks(job, lakehouse, output, tell) if checks else ([], ["The checks were left out."])
    tell("gathering the facts")
    facts = gather(job, lakehouse, output, results, unchecked)
    tell("drawing the page")
    page = render(facts)
    name, kept = report_document(job.name, output), None
    if out is None:
        kept = write_document(
            lakehouse, f"{name.removesuffix('.html')}/{datetime.now(UTC):%Y-%m-%dT%H%M%S.%f}.html", page
        )
    place = write_document(lakehouse, name, page) if out is None else str(write_file(out, page))
    told = verdict(facts)
    return Written(place, kept, told.state, told.sentence, facts.checks, facts.unchecked)
