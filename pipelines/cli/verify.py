"""``tailrace verify``: run transcripts on the engines and report which differ from what is expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.transcripts import Case, Verdict

_CASES_AT_ONCE = 2
"""Cases on Spark at once: a case is mostly planning, so a second one fills the gaps."""


class Engine(StrEnum):
    """What ``--engine`` takes."""

    reference = "reference"
    spark = "spark"
    stream = "stream"
    all = "all"


FILES = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Transcripts, or folders of them.")]
ENGINE = Annotated[Engine, typer.Option(help="Which engine runs them.")]


def verify(files: FILES, engine: ENGINE = Engine.all) -> None:
    """Run transcripts: cases of arrivals and the results that are expected of them."""
    from pipelines.transcripts import find, read_file

    engines = list(_RUN_ON) if engine is Engine.all else [engine]
    cases = [case for file in find(files) for case in read_file(file)]
    verdicts: list[Verdict] = []
    with progress("verify", len(cases) * len(engines)) as advance:
        for one in engines:
            for verdict in _RUN_ON[one](cases):
                advance(f"{verdict.case.name} [{one}]")
                verdicts.append(verdict)
    failed = sum(not verdict.passed for verdict in verdicts)
    lines = [*map(_line, verdicts), f"{len(verdicts) - failed} passed, {failed} failed"]
    emit([verdict.as_dict() for verdict in verdicts], lines)
    if failed:
        raise typer.Exit(1)


def _on_reference(cases: list[Case]) -> Iterator[Verdict]:
    """Each case on the reference engine; Spark starts only if a case's expressions need it."""
    from pipelines.transcripts import run_case

    return (run_case(case, "reference", debug=context().debug) for case in cases)


def _on_spark(cases: list[Case]) -> Iterator[Verdict]:
    """Each case on the batch engine, some at a time: each thread has a session of its own, since rules of expressions
    are settings of a session.
    """
    from pipelines.runtime.session import session
    from pipelines.transcripts import run_case
    from pipelines.transcripts.engines import tiny_programs

    debug = context().debug
    sessions: SimpleQueue[SparkSession | None] = SimpleQueue()

    def judged(case: Case) -> Verdict:
        spark = sessions.get()
        try:
            return run_case(case, "spark", session=spark, debug=debug)
        finally:
            sessions.put(spark)

    with ExitStack() as stack:
        started = session("tailrace-verify", short=True) if any(case.refused is None for case in cases) else None
        for _ in range(_CASES_AT_ONCE):
            spark = started and started.newSession()
            if spark is not None:
                stack.enter_context(tiny_programs(spark))
            sessions.put(spark)
        pool = stack.enter_context(ThreadPoolExecutor(_CASES_AT_ONCE))
        yield from pool.map(judged, cases)


def _on_stream(cases: list[Case]) -> Iterator[Verdict]:
    """All cases in one streaming query."""
    from pipelines.transcripts import Verdict, judge
    from pipelines.transcripts.stream_engine import run_stream

    for case, outcome in zip(cases, run_stream(cases), strict=True):
        yield Verdict(case, "stream", tuple(judge(case, outcome)))


_RUN_ON: dict[Engine, Callable[[list[Case]], Iterator[Verdict]]] = {
    Engine.reference: _on_reference,
    Engine.spark: _on_spark,
    Engine.stream: _on_stream,
}


def _line(verdict: Verdict) -> str:
    name = f"{verdict.case.name} [{verdict.engine}]"
    return f"pass {name}" if verdict.passed else f"FAIL {name}: {verdict.differences[0]}"
