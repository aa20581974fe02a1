"""``tailrace tune``: what other settings of the ordering policy would have given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import FROM, JOB, TO, context, emit, find_job, note, output_range, progress

if TYPE_CHECKING:
    from pipelines.tune.result import Tuning

_LATE = Annotated[str | None, typer.Option("--late", metavar="LIST", help="Late tolerances: 0s,5s,1m,unbounded.")]
_OUT_OF_ORDER = Annotated[
    str | None, typer.Option("--out-of-order", metavar="LIST", help="Out-of-order tolerances: 0s,5s,2m.")
]
_EARLY = Annotated[str | None, typer.Option("--early", metavar="LIST", help="Early guards: 5m,off.")]
_LATENESS = Annotated[
    str | None, typer.Option("--allowed-lateness", metavar="LIST", help="Of profile atlas: 0s,3s,1m.")
]
_DELAY = Annotated[str | None, typer.Option("--delay", metavar="LIST", help="Of profile stream_insight: 0s,5s.")]


def tune(
    job: JOB,
    from_: FROM = None,
    to: TO = None,
    late: _LATE = None,
    out_of_order: _OUT_OF_ORDER = None,
    early: _EARLY = None,
    allowed_lateness: _LATENESS = None,
    delay: _DELAY = None,
) -> None:
    """Compare settings of the ordering policy: what each moves, drops and gets wrong, and how long results wait."""
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.report.tune_page import write_tuning
    from pipelines.tune.run import tune as run

    given = {
        "--late": late,
        "--out-of-order": out_of_order,
        "--early": early,
        "--allowed-lateness": allowed_lateness,
        "--delay": delay,
    }
    lists = {flag: text for flag, text in given.items() if text is not None}
    found, output = find_job(job), output_range(from_, to)
    with progress(f"tune {found.name}") as steps:
        tuning = run(found, output, context().lakehouse, lists, progress=steps, expect=steps.expect)
    if tuning.method == "one_after_another":
        note("note: this query does not let settings share more than the scan; they ran one after another")
    place = write_tuning(tuning, Lakehouse.at(context().lakehouse))
    emit({**tuning.as_dict(), "report": place}, (*_lines(tuning), f"report  {place}"))


def _lines(tuning: Tuning) -> Iterator[str]:
    from pipelines.tune.result import COLUMNS, described, row_of

    rows = [(*tuning.varied, *COLUMNS), *(row_of(one, tuning.varied) for one in tuning.settings)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield "on the efficient frontier:"
    yield from (f"  {described(one, tuning.varied)}" for one in tuning.frontier)
    yield tuning.sentence
