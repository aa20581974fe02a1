"""``tailrace plan``: what a replay would read and write; changes nothing, starts no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, find_job, output_range
from pipelines.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.core.model import Job
    from pipelines.plan.definition import Plan

JOB = Annotated[str, typer.Argument(metavar="JOB", help="Job file, or the name of a job.")]
FROM = Annotated[str | None, typer.Option("--from", metavar="T", help="First window end; left out: the beginning.")]
TO = Annotated[str | None, typer.Option("--to", metavar="T", help="Window ends lie before it; left out: the end.")]
AS_OF = Annotated[
    list[str] | None,
    typer.Option(
        "--as-of", metavar="VERSION", help="Version of the arrival log, or INPUT=VERSION for each of several."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("plan")
    def plan(job: JOB, from_: FROM = None, to: TO = None, as_of: AS_OF = None) -> None:
        """Show what a replay would read and write, and whether its result is final."""
        from pipelines.plan.stages import describe, stages_of
        from pipelines.replay.builder import make_plan

        found = find_job(job)
        made = make_plan(found, output_range(from_, to), context().lakehouse, as_of=versions(found, as_of))
        emit({**made.as_dict(), "stages": [*map(describe, stages_of(made))]}, lambda out: print_plan(out, made))


def versions(job: Job, given: list[str] | None) -> int | dict[str, int] | None:
    """What ``--as-of`` says: one version for a job of one input, else versions by input."""
    if not given:
        return None
    by_input: dict[str, int] = {}
    for text in given:
        name, sign, digits = text.rpartition("=")
        if not digits.isascii() or not digits.isdigit():
            raise UsageError(f"'{text}' is not a version", key="--as-of", hint="write it like 3 or departures=3")
        if not sign:
            if len(job.inputs) > 1 or len(given) > 1:
                names = " ".join(f"--as-of {part.name}=VERSION" for part in job.inputs)
                raise UsageError("each input has versions of its own", key="--as-of", hint=f"write {names}")
            return int(digits)
        by_input[name] = int(digits)
    return by_input


def print_plan(out: Console, plan: Plan) -> None:
    """The plan as text: a line each for what it is, what it reads, its stages and what to know of it."""
    from pipelines.plan.stages import describe_plan

    first, *others = describe_plan(plan)
    out.print(first, markup=False)
    for line in others:
        out.print(f"  {line}", markup=False)
