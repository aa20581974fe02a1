"""``tailrace verify``: run transcripts on the engines and say which differ from what is expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, progress

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.transcripts import Case, Verdict

_SIDE_BY_SIDE = 2
"""Cases on Spark at once: a case is mostly planning, so a second one fills the gaps."""


class Engine(StrEnum):
    """What ``--engine`` takes."""

    reference = "reference"
    spark = "spark"
    stream = "stream"
    all = "all"


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("verify")
    def verify(
        files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Transcripts, or folders of them.")],
        engine: Annotated[Engine, typer.Option(help="Which engine runs them.")] = Engine.all,
    ) -> None:
        """Run transcripts: cases of arrivals and what must come of them."""
        from pipelines.transcripts import ENGINES, find, read_file

        engines = ENGINES if engine is Engine.all else (engine.value,)
        cases = [case for file in find(files) for case in read_file(file)]
        verdicts = _run(cases, engines)
        failed = sum(not verdict.passed for verdict in verdicts)

        def human(out: Console) -> None:
            for verdict in verdicts:
                out.print(_line(verdict), markup=False)
            out.print(f"{len(verdicts) - failed} passed, {failed} failed", markup=False)

        emit([_as_data(verdict) for verdict in verdicts], human)
        if failed:
            raise typer.Exit(1)


def _run(cases: list[Case], engines: Iterable[str]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    engines = list(engines)
    with progress("verify", len(cases) * len(engines)) as advance:
        for engine in engines:
            for verdict in _BY_ENGINE[engine](cases):
                advance(f"{verdict.case.name} [{engine}]")
                verdicts.append(verdict)
    return verdicts


def on_reference(cases: Iterable[Case]) -> Iterator[Verdict]:
    """Each case on the reference engine; Spark starts only if a case's expressions need it."""
    from pipelines.transcripts import run_case

    for case in cases:
        yield run_case(case, "reference", debug=context().debug)


def on_spark(cases: list[Case]) -> Iterator[Verdict]:
    """Each case on the batch engine, some at a time in one session."""
    from pipelines.runtime.session import session
    from pipelines.transcripts import run_case
    from pipelines.transcripts.run import tiny_programs

    debug = context().debug
    with ExitStack() as stack:
        spark = None
        if any(case.refused is None for case in cases):
            spark = session("tailrace-verify", short=True)
            stack.enter_context(tiny_programs(spark))
        pool = stack.enter_context(ThreadPoolExecutor(_SIDE_BY_SIDE))
        yield from pool.map(lambda case: run_case(case, "spark", session=spark, debug=debug), cases)


def on_stream(cases: list[Case]) -> Iterator[Verdict]:
    """All cases in one streaming query."""
    from pipelines.transcripts import Verdict, judge
    from pipelines.transcripts.stream import run_stream

    for case, outcome in zip(cases, run_stream(cases), strict=True):
        yield Verdict(case, "stream", tuple(judge(case, outcome)))


_BY_ENGINE: dict[str, Callable[[list[Case]], Iterator[Verdict]]] = {
    "reference": on_reference,
    "spark": on_spark,
    "stream": on_stream,
}


def _line(verdict: Verdict) -> str:
    if verdict.passed:
        return f"pass {verdict.case.name} [{verdict.engine}]"
    return f"FAIL {verdict.case.name} [{verdict.engine}]: {verdict.differences[0]}"


def _as_data(verdict: Verdict) -> dict[str, object]:
    return {
        "name": verdict.case.name,
        "engine": verdict.engine,
        "passed": verdict.passed,
        "differences": list(verdict.differences),
    }
