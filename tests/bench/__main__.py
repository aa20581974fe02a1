"""``make bench``: measures every contender on the same logs in one run, and says what it found."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import groups, tables
from bench.groups import CURVES, Group, Stage
from bench.meters import SparkMeter
from bench.on_one_machine import ENGINES, Engine, missing
from bench.page import write_page
from bench.rounds import EQUAL, INEXACT, Expected, Row, Tell, judge, measure
from bench.summary import Figures, report
from pipelines.runtime.session import session

DOCS = Path(__file__).parents[2] / "docs"
LOGS = ("generated", "departures")
MILLION = 1_000_000

Making = Callable[[Stage], Group]


def main(
    size: Annotated[str, typer.Option(help="Generated logs, in millions of events: 1,10")] = "1,10",
    rounds: Annotated[int, typer.Option(min=1, help="How often each contender is timed.")] = 3,
    only: Annotated[str, typer.Option(help="Of the contenders only these: plain,window,tailrace")] = "",
    curves: Annotated[str, typer.Option(help=f"Cost curves: all, none, or some of {','.join(CURVES)}")] = "",
    curve_size: Annotated[float, typer.Option(help="Millions of events in a cost curve's logs.")] = 1,
    live_size: Annotated[float, typer.Option(help="Millions of events that the live run gets at most.")] = 0.2,
    departures: Annotated[
        bool | None, typer.Option(help="Measure the demo's departures, too? Left out: unless --only is given.")
    ] = None,
    docs: Annotated[
        bool | None, typer.Option(help="Write docs/benchmarks.md? Left out: if nothing is left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    cache: Annotated[Path, typer.Option(envvar="TAILRACE_BENCH_CACHE", help="Where generated logs are kept.")] = Path(
        tempfile.gettempdir(), "tailrace-bench"
    ),
) -> None:
    """Measure what exact costs: plain windowing in Spark is 1.00."""
    wanted = [name for name in only.split(",") if name]
    chosen = _curves(curves or ("none" if wanted else "all"))
    sizes = [round(float(millions) * MILLION) for millions in size.split(",") if millions]
    with_departures = not wanted if departures is None else departures
    whole = not wanted and chosen == CURVES and with_departures
    with ExitStack() as stack:
        engines = _engines(wanted, stack)
        live_events, curve_events = round(live_size * MILLION), round(curve_size * MILLION)
        makings: list[Making] = [
            partial(groups.generated_log, events=events, live_events=live_events, engines=engines) for events in sizes
        ]
        if with_departures:
            makings.append(partial(groups.real_log, engines=engines))
        makings += [partial(groups.curve, name, events=curve_events) for name in chosen]
        figures = _run(makings, wanted, rounds, cache, (lambda _: None) if as_json else _print)
    if as_json:
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    if docs or (docs is None and whole):
        for place in write_page(figures, DOCS, keep=not whole):
            Console(stderr=True).print(f"written: {place}", highlight=False)
    raise typer.Exit(0 if _all_right(figures) else 1)


def _run(
    makings: Sequence[Making], wanted: Sequence[str], rounds: int, cache: Path, show: Callable[[Figures], None]
) -> Figures:
    """All figures; ``show`` is given each group's as soon as they are there, for the whole may take hours."""
    spark = session("tailrace-bench")
    meter = SparkMeter(spark)
    done = []
    for number, make in enumerate(makings):
        with ExitStack() as stack, _progress() as (begin, tell):
            tell("writing logs")
            group = _chosen(make(Stage(spark, meter.pid, cache, stack)), wanted)
            # the first group finds a cold session
            warm_up = 1 if number == 0 else 0
            begin(group.title, sum(1 + warm_up + min(rounds, one.most_rounds) for one in group.contenders))
            done.append((group, _measured(group, rounds, meter, tell, warm_up)))
        show(report(done[-1:], rounds, _java(spark)))
    return report(done, rounds, _java(spark))


def _measured(group: Group, rounds: int, meter: SparkMeter, tell: Tell, warm_up: int) -> dict[str, Row]:
    rows = judge(group.contenders, Expected(), tell)
    measure(group.contenders, rows, rounds, meter, tell, warm_up)
    return rows


def _chosen(group: Group, wanted: Sequence[str]) -> Group:
    """The contenders that were asked for, and those that they are divided by."""
    if not wanted or group.axis:
        return group
    (point,) = group.points
    named = {one.name for one in point.contenders}
    unknown = set(wanted) - named - set(ENGINES)
    if unknown:
        raise typer.BadParameter(f"no contender {', '.join(sorted(unknown))}; there are {', '.join(sorted(named))}")
    needed = {*wanted, *(one.against for one in point.contenders if one.name in wanted)}
    kept = tuple(one for one in point.contenders if one.name in needed)
    return Group(group.name, group.title, group.axis, (groups.Point(point.label, kept),))


def _engines(wanted: Sequence[str], stack: ExitStack) -> list[Engine]:
    """A process for each engine that was asked for and is installed; a word about each that is not."""
    started = []
    for name in ENGINES:
        if wanted and name not in wanted:
            continue
        reason = missing(name)
        if reason is not None:
            Console(stderr=True).print(f"not measured: {reason}")
            continue
        engine = Engine(name)
        stack.callback(engine.close)
        started.append(engine)
    return started


def _curves(text: str) -> tuple[str, ...]:
    if text in ("all", "none"):
        return CURVES if text == "all" else ()
    names = tuple(name for name in text.split(",") if name)
    unknown = set(names) - set(CURVES)
    if unknown:
        raise typer.BadParameter(f"no curve {', '.join(sorted(unknown))}; there are {', '.join(CURVES)}")
    return names


@contextmanager
def _progress() -> Iterator[tuple[Callable[[str, int], None], Tell]]:
    """A bar on stderr: on a terminal it moves, elsewhere each step is a line."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)
        title = ""

        def begin(words: str, steps: int) -> None:
            nonlocal title
            title = f"{words}: "
            bar.update(task, total=steps, completed=0)

        def tell(words: str) -> None:
            bar.update(task, description=f"{title}{words}", advance=1)
            if not console.is_terminal:
                console.print(f"{title}{words}", highlight=False, soft_wrap=True)

        yield begin, tell


def _print(figures: Figures) -> None:
    out = Console(width=None if sys.stdout.isatty() else 180)
    for log in figures["logs"]:
        out.print(tables.on_screen(tables.times(log)))
        out.print(tables.on_screen(tables.costs(log)))
    for curve in figures["curves"]:
        out.print(tables.on_screen(tables.along(curve)))


def _all_right(figures: Figures) -> bool:
    rows = [row for log in figures["logs"] for row in log["rows"]]
    rows += [row for curve in figures["curves"] for point in curve["points"] for row in point["rows"]]
    return all(row["status"] in (EQUAL, INEXACT) for row in rows)


def _java(spark: SparkSession) -> str:
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "the session runs"
    return str(jvm.java.lang.System.getProperty("java.version"))


if __name__ == "__main__":
    typer.run(main)
