"""``tailrace plan``: what a replay would read and write; changes nothing, starts no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, find_job, output_range
from pipelines.core.errors import UsageError
from pipelines.core.time import format_instant

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.core.model import Job
    from pipelines.plan.definition import Plan, SummaryUse

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
        from pipelines.replay.builder import make_plan

        found = find_job(job)
        made = make_plan(found, output_range(from_, to), context().lakehouse, as_of=versions(found, as_of))
        emit(made.as_dict(), lambda out: tell_plan(out, made))


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


def tell_plan(out: Console, plan: Plan) -> None:
    """The plan as text."""
    lines = [
        f"{plan.job}: replay of window ends in {_span(plan.output.from_us, plan.output.to_us, ')')}",
        f"  reads arrivals {_span(plan.read.from_us, plan.read.to_us, ']')}",
        f"    by the rule {plan.read.rule}",
        *(f"    {reason}" for reason in plan.read.reasons),
    ]
    lines += [f"    {_initial_state(one)}" for one in plan.summaries]
    for read in plan.reads:
        rows = "rows not known" if read.rows is None else f"at most {read.rows} of {read.rows_total} rows"
        end = "empty" if read.end_of_log_us is None else f"ends at {format_instant(read.end_of_log_us)}"
        lines.append(
            f"    {read.table} version {read.version}: {rows}, {read.files} of {read.files_total} files,"
            f" {size(read.size_bytes)}; the log {end}"
        )
    lines.append(f"  finds watermarks by the method '{plan.method.verdicts}': {plan.method.reason}")
    for written in plan.writes:
        before = "not yet written" if written.version is None else f"version {written.version}"
        touched = "" if not written.replaced_rows else f", at most {written.replaced_rows} rows there now are replaced"
        lines.append(f"  writes {written.table} ({before}) by {written.column}{touched}")
    lines.append("  settled: no later arrival changes the result" if plan.settled else f"  unsettled: {plan.unsettled}")
    lines += [f"  note: {note}" for note in plan.notes]
    for line in lines:
        out.print(line, markup=False)


def _initial_state(one: SummaryUse) -> str:
    """Where a carry comes from, and what that costs."""
    if not one.days_made:
        return f"carry of {one.input} from {one.table}: all {one.days} days of arrivals are kept there"
    return (
        f"carry of {one.input} from {one.table}: {one.days_made} of {one.days} days of arrivals are not kept there,"
        f" one pass over columns of {one.rows} rows in {one.files} files, {size(one.size_bytes)}; a replay keeps them"
    )


def _span(from_us: int | None, to_us: int | None, end: str) -> str:
    first = "the beginning" if from_us is None else format_instant(from_us)
    last = "the end" if to_us is None else format_instant(to_us)
    return f"[{first}, {last}{end}"


def size(size_bytes: int) -> str:
    """Bytes for a person, like 98.9 KiB."""
    found = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if found < 1024:
            return f"{found:.0f} {unit}" if unit == "B" else f"{found:.1f} {unit}"
        found /= 1024
    return f"{found:.1f} TiB"
