"""``tailrace reconcile``: compare a replay with the live run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import FROM, JOB, TO, context, emit, find_job, note, output_range, progress
from pipelines.cli.differences import difference_lines

if TYPE_CHECKING:
    from pipelines.core.model import Job, OutputRange
    from pipelines.reconcile.result import Reconciliation

AGAINST = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="TABLE",
        help="live, version:N, preview:NAME, run:ID; or a live run's table: in the lakehouse, a URI, a catalog name.",
    ),
]
OUTPUT = Annotated[
    str | None, typer.Option("--output", metavar="NAME", help="One of several outputs; left out: all of them.")
]


def reconcile(job: JOB, from_: FROM = None, to: TO = None, output: OUTPUT = None, against: AGAINST = None) -> None:
    """Compare results with what the live run wrote; name each difference and its cause."""
    from pipelines.lakehouse.layout import output_tables
    from pipelines.reconcile.run import STEPS
    from pipelines.reconcile.run import reconcile as run
    from pipelines.reconcile.stored import is_stored

    found, wanted = find_job(job), output_range(from_, to)
    if against is not None and is_stored(against):
        _compare_stored(found, wanted, against, output)
        return
    against = None if against == "live" else against
    every = [one.output for one in output_tables(found)]
    names = [output] if output is not None or against is not None else every
    with progress(f"reconcile {found.name}", STEPS * len(names)) as advance:
        results = [
            run(found, wanted, context().lakehouse, name=name, against=against, progress=advance) for name in names
        ]
    for text in dict.fromkeys(text for result in results for text in result.notes):
        note(f"note: {text}")
    differing = any(result.differing for result in results)
    data = [result.as_dict() for result in results]
    several = {"job": found.name, "agrees": not differing, "outputs": dict(zip(names, data, strict=True))}
    emit(data[0] if len(data) == 1 else several, (line for result in results for line in _lines(result)))
    if differing:
        raise typer.Exit(1)


def _compare_stored(job: Job, output: OutputRange, against: str, name: str | None) -> None:
    """The tables as they are, compared with another result of the lakehouse."""
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.reconcile.differences import differences
    from pipelines.reconcile.stored import stored, stored_now
    from pipelines.runtime.session import session

    place = Lakehouse.at(context().lakehouse)
    before = stored(place, job, against, name)
    found = differences(session(), place, job, stored_now(place, job), before, output)
    emit(found.as_dict(), difference_lines(found))
    if found.differing:
        raise typer.Exit(1)


def _lines(result: Reconciliation) -> Iterator[str]:
    if not result.differing:
        what = f"all {result.equal} row(s) agree" if result.equal else "there are no rows to compare"
        yield f"{result.job}: {what} with {result.against}"
        return
    yield f"{result.job}: {result.differing} row(s) differ from {result.against}, {result.equal} agree"
    yield from (f"  {status}: {count}" for status, count in result.by_status.items())
    yield "  causes:"
    yield from (f"    {cause}: {count}" for cause, count in result.by_cause.items())
    yield from (f"  {sentence}" for sentence in result.story)
    yield f"  every difference is in {result.table}, version {result.version}"
