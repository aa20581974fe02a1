"""What a replay costs at 1, 10 and 100 times the demo, and what the cost model of docs/cost.md makes of it.

The model has two numbers, of the machine that it runs on: the seconds of a run that reads nothing much, and those of an
event. The two smallest sizes give them, and every size is compared with what they predict.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.groups import of_size
from bench.logs import generated, with_own_results
from bench.questions import READINGS
from pipelines.core.model import EVERYTHING
from pipelines.core.time import SECOND
from pipelines.plan.stages import format_bytes
from pipelines.replay.run import replay

DEMO_EVENTS = 328_521
_WARM_UP_EVENTS = 50_000


@dataclass(frozen=True)
class Measured:
    """One replay of a whole log: everything but ``slices`` and ``events`` is what it took."""

    events: int
    slices: int
    seconds: float
    task_seconds: float
    tasks: int
    input_bytes: int
    shuffle_bytes: int
    spilled_bytes: int
    task_memory_bytes: int


def measure(events: int, cache: Path, slices: int | None = None) -> Measured:
    """Replay a generated log of so many events into an empty lakehouse."""
    with with_own_results(generated(of_size(events), cache)) as lakehouse:
        run = replay(READINGS.job(), EVERYTHING, lakehouse, slices=slices)
    spent = run.found.cost
    return Measured(
        events,
        len(run.plan.parts),
        (run.finished_us - run.started_us) / SECOND,
        spent["task_ms"] / 1000,
        *(spent[name] for name in ("tasks", "input_bytes", "shuffle_bytes", "spilled_bytes", "task_memory_bytes")),
    )


def model(small: Measured, big: Measured) -> tuple[float, float]:
    """Seconds of a run and of an event, from two sizes."""
    an_event = (big.seconds - small.seconds) / (big.events - small.events)
    return small.seconds - an_event * small.events, an_event


def main(
    size: Annotated[str, typer.Option(help="Multiples of the demo's events, with commas.")] = "1,10,30",
    slices: Annotated[int | None, typer.Option(help="Run each in so many slices.")] = None,
    cache: Annotated[Path, typer.Option(envvar="TAILRACE_BENCH_CACHE")] = Path("/tmp/tailrace-bench"),
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    measure(_WARM_UP_EVENTS, cache)
    rows = [measure(int(multiple) * DEMO_EVENTS, cache, slices) for multiple in size.split(",")]
    if as_json:
        sys.stdout.write(json.dumps([row.__dict__ for row in rows]) + "\n")
        return
    Console().print(table_of(rows))


def table_of(rows: list[Measured]) -> Table:
    """The sizes, a line each, with the seconds that the model of the first two predicts."""
    of_a_run, of_an_event = model(*rows[:2]) if len(rows) > 1 else (0.0, rows[0].seconds / rows[0].events)
    table = Table(title=f"{of_a_run:.1f} s a run, {of_an_event * 1e6:.2f} s a million events", title_justify="left")
    for name in [
        "events",
        "slices",
        "seconds",
        "predicted",
        "task_s",
        "tasks",
        "read",
        "shuffled",
        "spilled",
        "a_task",
    ]:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        sizes = (row.input_bytes, row.shuffle_bytes, row.spilled_bytes, row.task_memory_bytes)
        predicted = of_a_run + of_an_event * row.events
        numbers = (f"{row.seconds:.1f}", f"{predicted:.1f}", f"{row.task_seconds:.1f}", str(row.tasks))
        table.add_row(f"{row.events:,}", str(row.slices), *numbers, *map(format_bytes, sizes))
    return table


if __name__ == "__main__":
    typer.run(main)
