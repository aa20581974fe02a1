"""``tailrace plan``: what a replay would read and write; changes nothing, starts no Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import FROM, JOB, TO, context, emit, find_job, output_range
from pipelines.core.errors import TailraceError, UsageError
from pipelines.core.model import Job
from pipelines.lakehouse.root import Lakehouse

AS_OF = Annotated[
    list[str] | None,
    typer.Option(
        "--as-of", metavar="VERSION", help="Version of the arrival log, or INPUT=VERSION for each of several."
    ),
]
SLICES = Annotated[
    int | None,
    typer.Option("--slices", metavar="N", min=1, help="Run the range in N slices; left out: as its size asks for."),
]


def plan(job: JOB, from_: FROM = None, to: TO = None, as_of: AS_OF = None, slices: SLICES = None) -> None:
    """Show what a replay would read and write, and whether its result is final."""
    from pipelines.plan.stages import describe, describe_plan, stages_of
    from pipelines.replay.builder import make_plan

    found = find_job(job)
    output, read_as_of = output_range(from_, to), versions(found, as_of)
    built = make_plan(found, output, context().lakehouse, as_of=read_as_of, slices=slices)
    sources = _sources(found)
    lines = [line if number == 0 else f"  {line}" for number, line in enumerate(describe_plan(built))]
    lines += [f"  {name}: {sentence}" for name, sentences in sources.items() for sentence in sentences]
    emit({**built.as_dict(), "stages": [*map(describe, stages_of(built))], "sources": sources}, lines)


def _sources(job: Job) -> dict[str, list[str]]:
    """What each source has that the log has not, and what bounds exactness; of one out of reach, why."""
    from pipelines.ingest.from_source import unread

    found = {}
    for part in job.logs:
        if part.source is None:
            continue
        try:
            new = unread(Lakehouse.at(context().lakehouse), part)
        except TailraceError as error:
            found[part.name] = [f"the source cannot be looked at: {error}"]
        else:
            waiting = [f"the source has {new.size} {new.unit} that are not ingested"] if new.size else []
            found[part.name] = [*waiting, *new.notes]
    return found


def versions(job: Job, given: list[str] | None) -> int | dict[str, int] | None:
    """The versions in ``--as-of``: one for a job of one input, else versions by input."""
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
