"""``tailrace reconcile``: compare a replay with the live run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, find_job, note, output_range, progress
from pipelines.cli.plan import FROM, JOB, TO

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.reconcile.result import Reconciliation


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("reconcile")
    def reconcile(
        job: JOB,
        from_: FROM = None,
        to: TO = None,
        output: Annotated[
            str | None, typer.Option("--output", metavar="NAME", help="One of several outputs; left out: all of them.")
        ] = None,
        against: Annotated[
            str | None,
            typer.Option(
                "--against",
                metavar="TABLE",
                help="The live run's table: in the lakehouse, a Delta URI, a catalog name.",
            ),
        ] = None,
    ) -> None:
        """Compare results with what the live run wrote; name each difference and its cause."""
        from pipelines.lakehouse.layout import output_tables
        from pipelines.reconcile.run import STEPS
        from pipelines.reconcile.run import reconcile as run

        found = find_job(job)
        wanted = output_range(from_, to)
        every = [one.output for one in output_tables(found)]
        names: list[str | None] = [output] if output is not None or against is not None else [*every]
        with progress(f"reconcile {found.name}", STEPS * len(names)) as advance:
            results = [
                run(found, wanted, context().lakehouse, name=name, against=against, progress=advance) for name in names
            ]
        for text in dict.fromkeys(text for result in results for text in result.notes):
            note(f"note: {text}")
        told = [result.as_dict() for result in results]
        several = {"job": found.name, "agrees": not any(result.differing for result in results)}
        data = told[0] if len(told) == 1 else {**several, "outputs": dict(zip(every, told, strict=True))}

        def human(out: Console) -> None:
            for result in results:
                _print(out, result)

        emit(data, human)
        if any(result.differing for result in results):
            raise typer.Exit(1)


def _print(out: Console, result: Reconciliation) -> None:
    if not result.differing:
        what = f"all {result.equal} row(s) agree" if result.equal else "there are no rows to compare"
        out.print(f"{result.job}: {what} with {result.against}", markup=False)
        return
    lines = [f"{result.job}: {result.differing} row(s) differ from {result.against}, {result.equal} agree"]
    lines += [f"  {status}: {count}" for status, count in result.by_status.items()]
    lines.append("  causes:")
    lines += [f"    {cause}: {count}" for cause, count in result.by_cause.items()]
    lines += [f"  {sentence}" for sentence in result.story]
    lines.append(f"  every difference is in {result.table}, version {result.version}")
    for line in lines:
        out.print(line, markup=False)
