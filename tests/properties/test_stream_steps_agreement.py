"""Random steps on random logs, live: whatever the commits, outputs are those of the reference engine, each row once.

No Spark: expressions are columns and fields alone, and the engine goes through its saved form between two batches.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pipelines.core.model import Arrival, Grid, Job, Session, Sliding, Snapshot
from pipelines.core.query import Aggregate, AnyOf, SimpleWindow, SortKey, Window
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Applied,
    Computed,
    Filtered,
    InputRows,
    Joined,
    Output,
    Projected,
    Rows,
    Side,
    Step,
    StepRows,
    Steps,
    United,
    Windowed,
)
from pipelines.core.time import MINUTE, SECOND, parse_instant
from pipelines.core.values import grouping_key
from pipelines.job.load import parse_job
from pipelines.lakehouse.arrival_rows import row_values
from pipelines.live.local_log import announcement, messages
from pipelines.live.spark.operator import run_batch
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Message
from pipelines.live.state.output import Slice
from pipelines.live.steps.expressions import plain
from pipelines.live.steps.outputs import outputs, shown
from pipelines.live.steps.relation import Columns
from pipelines.plan.extent import extents
from pipelines.reference.engine import run
from pipelines.transcripts.run import reference_outcome

CASES = int(os.environ.get("TAILRACE_PROPERTY_CASES", "200"))
BASE = parse_job(
    """
tailrace: 1
job: any
profile: stream_analytics
inputs:
  a: {columns: "at TIMESTAMP, k STRING, x DOUBLE, is BOOLEAN, xs ARRAY<DOUBLE>", timestamp_by: at, partitions: 2}
  b: {columns: "at TIMESTAMP, k STRING, x DOUBLE, is BOOLEAN, xs ARRAY<DOUBLE>", timestamp_by: at, partitions: 1}
ordering: {late_arrival: 20s, out_of_order: 5s, action: adjust}
query: {from: a, select: {k: k}}
"""
)
BEGIN = parse_instant("2026-01-01T00:00:00Z")


def columns(**texts: str) -> tuple[Computed, ...]:
    return tuple(Computed(*one) for one in texts.items())


class Trees:
    """Random relations whose columns are k STRING, x DOUBLE, is BOOLEAN, made of inputs and earlier steps."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.steps: list[Step] = []

    def query(self) -> Steps:
        for number in range(self.chance.randint(0, 3)):
            self.steps.append(Step(f"s{number}", self.rows(2)))
        made = [Output(f"o{number}", self.rows(3)) for number in range(self.chance.randint(1, 2))]
        return Steps(tuple(self.steps), tuple(made))

    def rows(self, depth: int) -> Rows:
        if depth == 0 or self.chance.random() < 0.2:
            names = [one.name for one in self.steps]
            if names and self.chance.random() < 0.6:
                return StepRows(self.chance.choice(names))
            return Projected(InputRows(self.chance.choice("ab")), columns(k="k", x="x", **{"is": "is"}))
        kinds = [self.filtered, self.analysed, self.windowed, self.windowed, self.joined, self.united, self.applied]
        return self.chance.choice(kinds)(depth - 1)

    def filtered(self, depth: int) -> Rows:
        return Filtered(self.rows(depth), "is")

    def analysed(self, depth: int) -> Rows:
        within_us = self.chance.choice([10, 30, 60]) * SECOND
        aggregate = self.chance.choice(
            [Aggregate("x", "sum", "x"), Aggregate("x", "max", "x"), self.top("top_one", None)]
        )
        function = self.chance.choice(
            [
                Analytic("found", "lag", "x", self.chance.choice([1, 2])),
                Analytic("found", "last", "x", when="is"),
                Analytic("found", "is_first"),
                Analytic("found", "aggregate", aggregate=aggregate),
            ]
        )
        keys = self.chance.choice([(), ("k",)])
        when = self.chance.choice([None, "is"])
        function = replace(function, partition_by=keys, when=when, within_us=within_us)
        return Projected(Analysed(self.rows(depth), (function,)), columns(k="k", x="found", **{"is": "is"}))

    def top(self, name: str, limit: int | None) -> Aggregate:
        return Aggregate("x", name, "x", order_by=(SortKey("x", self.chance.random() < 0.5),), limit=limit)

    def windowed(self, depth: int) -> Rows:
        keys = self.chance.choice([columns(k="k"), columns(k="k", more="is")])
        aggregates = (
            self.chance.choice([Aggregate("x", "count"), Aggregate("x", "avg", "x"), Aggregate("x", "last", "x")]),
            Aggregate("is", "min", "is"),
        )
        rows = Windowed(self.rows(depth), self.window(), keys, aggregates, self.chance.choice([(), (), ("is",)]))
        return Projected(rows, columns(k="k", x="x", **{"is": "is"}))

    def window(self) -> Window:
        def one() -> SimpleWindow:
            size_us = self.chance.choice([10, 30, 60]) * SECOND
            chain = self.chance.choice([(), ("k",)])
            return self.chance.choice(
                [
                    Grid(size_us, size_us),
                    Grid(size_us, self.chance.choice([10, 20, 90]) * SECOND, 3 * SECOND),
                    Sliding(size_us),
                    Session(size_us, self.chance.choice([30, 60, 90]) * SECOND, chain),
                    Snapshot(),
                ]
            )

        return one() if self.chance.random() < 0.8 else AnyOf((("one", one()), ("two", one())))

    def joined(self, depth: int) -> Rows:
        first, last = sorted(self.chance.choices([-3, -1, 0, 0, 1, 2], k=2))
        rows = Joined(
            Side("l", self.rows(depth)),
            Side("r", self.rows(depth)),
            self.chance.choice([1, 10, 30]) * SECOND,
            first,
            last,
            self.chance.choice([(), (("k", "k"),), (("k", "k"), ("x", "x"))]),
            self.chance.choice([None, "r.is"]),
            self.chance.choice(["inner", "left", "left"]),
        )
        return Projected(rows, columns(k="l.k", x="r.x", **{"is": "l.is"}))

    def united(self, depth: int) -> Rows:
        return United((self.rows(depth), self.rows(depth)))

    def applied(self, _: int) -> Rows:
        rows = Applied(InputRows(self.chance.choice("ab")), "xs", "one", outer=self.chance.random() < 0.5)
        return Projected(rows, columns(k="k", x="one.ArrayValue", **{"is": "is"}))


def log_of(chance: Random) -> list[Arrival]:
    clock, found = BEGIN, []
    for number in range(chance.randint(3, 40)):
        clock += chance.choice([0, 1, SECOND, 7 * SECOND, 10 * SECOND, 20 * SECOND, 2 * MINUTE])
        name = chance.choice("ab")
        payload = {
            "at": clock - chance.choice([0, 0, 1, 5, 10, 30]) * SECOND,
            "k": chance.choice(["p", "q", None]),
            "x": chance.choice([0.5, -0.0, 2.0, None]),
            "is": chance.choice([True, True, False, None]),
            "xs": chance.choice([[], [1.5], [2.5, None, 0.5], None]),
        }
        found.append(Arrival(name, chance.randrange(2) if name == "a" else 0, number, clock, payload))
    return found


def evaluate(given: Columns, texts: Iterable[str]) -> dict[str, pa.ChunkedArray]:
    found = {text: plain(given, text) for text in texts}
    assert None not in found.values()
    return {text: column for text, column in found.items() if column is not None}


def live(job: Job, commits: list[list[Message]]) -> dict[str, Counter[Any]]:
    """The rows of each output after all commits, each in a batch with its announcement, or before it."""
    assert job.steps is not None
    saved: list[bytes] = []
    found: dict[str, Counter[Any]] = {one.name: Counter() for one in job.steps.outputs}
    rest: Slice | None = None
    for number, commit in enumerate(commits):
        partitions = {"a": [0, 1], "b": [0]}
        announced = announcement(number, commit, partitions, end_of_log=number == len(commits) - 1)
        output = run_batch(saved[-1] if saved else None, job, [*commit, announced], saved.append)
        if output.error is not None:
            raise output.error
        add(found, job, output.slice)
        rest = output.provisional_slice if output.advanced else rest
    add(found, job, rest)
    return found


def add(found: dict[str, Counter[Any]], job: Job, given: Slice | None) -> None:
    for name, rows in outputs(job, given, {}, evaluate).items() if given is not None else ():
        found[name].update(canonical(row) for row in row_values(shown(rows)))


def canonical(row: Mapping[str, Any]) -> Any:
    """The row as SQL compares it; -0.0 is 0.0 there."""
    return grouping_key(list(row.values()))


@pytest.mark.parametrize("seed", range(CASES))
def test_outputs_are_those_of_the_reference_engine(seed: int) -> None:
    chance = Random(seed)
    job = replace(BASE, query=Trees(chance).query())
    if len(extents(job)) == len(job.inputs):
        # the reference engine waits for inputs that no output reads, too
        job = replace(job, end_of_log=chance.choice(["flush", "hold"]))
    log = log_of(chance)
    cuts = sorted(chance.sample(range(1, len(log)), chance.randint(0, min(4, len(log) - 1))))
    *commits, _ = messages(CompiledJob(job), log, None, cuts)  # type: ignore[arg-type]
    expected = reference_outcome(job, run(job, log)).outputs
    assert live(job, commits) == {name: Counter(map(canonical, rows)) for name, rows in expected.items()}
