"""Random steps over random rows whose times crowd around the bounds of the steps; all from one seed.

Every relation has the columns ``k STRING, v BIGINT, ok BOOLEAN``, so that any can be made of any other, and expressions
are columns alone, so that nothing but Python is needed; ``with_sql`` adds some that are more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pipelines.core.model import Arrival, Job, OutputRange, Reference
from pipelines.core.query import (
    Aggregate,
    AnyOf,
    Column,
    Grid,
    Session,
    SimpleWindow,
    Sliding,
    Snapshot,
    SortKey,
    Window,
)
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
    Referenced,
    ReferenceRows,
    Rows,
    Side,
    Step,
    StepRows,
    Steps,
    United,
    Windowed,
)
from pipelines.core.time import HOUR, SECOND, parse_instant
from pipelines.job.load import parse_job

JOB = parse_job("""
tailrace: 1
job: random
profile: stream_analytics
inputs:
  a: {columns: "at TIMESTAMP, k STRING, v BIGINT, ok BOOLEAN, l ARRAY<BIGINT>", timestamp_by: at}
  b: {columns: "at TIMESTAMP, k STRING, v BIGINT, ok BOOLEAN, l ARRAY<BIGINT>", timestamp_by: at}
ordering: {early_arrival: off, late_arrival: 1h, out_of_order: 9m}
query: {from: a}
""")
"""An hour after the events all of them have arrived; that early, none is moved."""
SNAPSHOTS = Reference(
    "r",
    (Column("since", "timestamp"), Column("k", "string"), Column("w", "bigint"), Column("fine", "boolean")),
    "since",
)
START_US = parse_instant("2026-01-01T12:00:00Z")
SPANS_US = (SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND, 7 * SECOND)
_OVER = ("count", "count_all", "sum", "min", "max", "top_one")
"""Aggregates that the language lets stand with OVER."""
_PLAIN = tuple(Computed(name, name) for name in ("k", "v", "ok"))


@dataclass(frozen=True)
class Example:
    """A job of steps, its arrivals, its reference data and a range, and the seed that gives them again."""

    seed: int
    job: Job
    log: tuple[Arrival, ...]
    references: dict[str, tuple[dict[str, object], ...]]
    output: OutputRange

    def __repr__(self) -> str:
        rows = "\n".join(f"  {one.input} {one.sequence} {one.payload}" for one in self.log)
        data = "\n".join(f"  {row}" for row in self.references["r"])
        return f"seed {self.seed}\n{self.job.steps}\nrange {self.output}\nrows\n{rows}\nreference\n{data}"


def example(seed: int, *, with_sql: bool = False) -> Example:
    """The example of that seed."""
    chance = Random(seed)
    reference = replace(SNAPSHOTS, effective=chance.choice(["since", "since", None]))
    job = replace(JOB, query=_Trees(chance, with_sql).steps(), references=(reference,))
    size = chance.choice([3, 6, 12, 20])
    ends_us = sorted(START_US + chance.randint(-3, 20) * SECOND for _ in range(2))
    return Example(
        seed,
        job,
        _log(chance, size),
        {"r": _reference_rows(chance)},
        OutputRange(ends_us[0], ends_us[1] + SECOND) if chance.random() < 0.7 else OutputRange(),
    )


def without(one: Example, dropped: range) -> Example:
    """The example without the rows at those places of its log."""
    return replace(one, log=tuple(row for index, row in enumerate(one.log) if index not in dropped))


# -- rows -------------------------------------------------------------------------------------------------------------


def _log(chance: Random, size: int) -> tuple[Arrival, ...]:
    rows = []
    at_us = arrival_us = START_US
    for number in range(size):
        # most rows stand exactly a span from others, some a microsecond more or less
        at_us += chance.choice([0, 0, SECOND, SECOND, *SPANS_US]) + chance.choice([0] * 6 + [-1, 1])
        arrival_us = max(arrival_us, at_us) + chance.choice([0, 0, SECOND])
        payload: dict[str, object] = {
            "at": at_us - chance.choice([0, 0, 0, SECOND, 3 * SECOND]),
            "k": chance.choice(["x", "x", "y", None]),
            "v": chance.choice([-1, 0, 1, 2, 3, None]),
            "ok": chance.choice([True, True, False, None]),
            "l": chance.choice([None, [], [1], [2, None, 3]]),
        }
        rows.append(Arrival(chance.choice("ab"), chance.randrange(2), number, arrival_us, payload))
    return tuple(rows)


def _reference_rows(chance: Random) -> tuple[dict[str, object], ...]:
    first = {"since": START_US - HOUR, "k": "x", "w": 0, "fine": True}
    return first, *(
        {
            "since": START_US + chance.choice([-SECOND, -SECOND, 0, 2 * SECOND, 5 * SECOND + 1]),
            "k": chance.choice(["x", "x", "y", None]),
            "w": chance.choice([1, 2, 3, None]),
            "fine": chance.choice([True, True, False]),
        }
        for _ in range(chance.randint(0, 4))
    )


# -- steps ------------------------------------------------------------------------------------------------------------


class _Trees:
    """Relations at random; ``names`` are the steps so far."""

    def __init__(self, chance: Random, with_sql: bool) -> None:
        self.chance = chance
        self.with_sql = with_sql
        self.names: list[str] = []

    def steps(self) -> Steps:
        steps = []
        for number in range(self.chance.randint(0, 2)):
            steps.append(Step(f"s{number}", self.rows(2)))
            self.names.append(f"s{number}")
        outputs = [Output("one", self.rows(3))]
        if self.chance.random() < 0.3:
            outputs.append(Output("two", self.rows(1)))
        return Steps(tuple(steps), tuple(outputs))

    def rows(self, depth: int) -> Rows:
        if depth == 0 or self.chance.random() < 0.1:
            return self.leaf()
        kinds: list[Callable[[int], Rows]] = [
            self.filtered,
            self.applied,
            self.analysed,
            self.analysed,
            self.windowed,
            self.windowed,
            self.joined,
            self.joined,
            self.referenced,
            self.united,
        ]
        return self.chance.choice(kinds)(depth - 1)

    def leaf(self) -> Rows:
        if self.names and self.chance.random() < 0.5:
            return StepRows(self.chance.choice(self.names))
        return Projected(InputRows(self.chance.choice("ab")), _PLAIN)

    def filtered(self, depth: int) -> Rows:
        return Filtered(self.rows(depth), self.condition())

    def condition(self) -> str:
        more = ["v > 0", "k IS NOT NULL", "NOT (v = 1)", "second(system_timestamp) % 2 = 0"]
        return self.chance.choice(more) if self.with_sql and self.chance.random() < 0.5 else "ok"

    def applied(self, depth: int) -> Rows:
        rows: Rows = InputRows(self.chance.choice("ab"))
        argument = "l"
        if self.chance.random() < 0.5:
            collected = Aggregate("l", "collect", "v")
            rows = Windowed(self.rows(depth), self.grid(), _PLAIN[::2], (collected,))
        element = Applied(rows, argument, "e", outer=self.chance.random() < 0.5)
        which = self.chance.choice(["e.ArrayValue", "e.ArrayIndex"])
        return Projected(element, (_PLAIN[0], Computed("v", which), _PLAIN[2]))

    def analysed(self, depth: int) -> Rows:
        pick = self.chance.choice
        reach: dict[str, Any] = {
            "partition_by": pick([(), ("k",), ("k", "ok")]),
            "when": pick([None, None, self.condition()]),
            "within_us": pick(SPANS_US),
        }
        one = pick(
            [
                Analytic("f", "lag", "v", offset=pick([1, 1, 2, 3]), default=pick([None, "v"]), **reach),
                Analytic("f", "last", "v", default=pick([None, "v"]), **reach),
                Analytic("f", "is_first", **reach),
                Analytic("f", "aggregate", aggregate=self.aggregate("f", _OVER), **reach),
            ]
        )
        return Projected(Analysed(self.rows(depth), (one,)), (_PLAIN[0], Computed("v", "f"), _PLAIN[2]))

    def aggregate(self, name: str, functions: Sequence[str] = (*_OVER, "distinct", "first", "last")) -> Aggregate:
        function = self.chance.choice(functions)
        match function:
            case "count_all":
                return Aggregate(name, "count")
            case "distinct":
                return Aggregate(name, "count", "v", distinct=True)
            case "top_one":
                keys = self.chance.sample([SortKey("v", True), SortKey("v"), SortKey("ok")], 2)
                return Aggregate(name, "top_one", "v", order_by=tuple(keys))
            case _:
                return Aggregate(name, function, "v")

    def windowed(self, depth: int) -> Rows:
        pick = self.chance.choice
        window: Window = pick(
            [
                self.grid(),
                self.grid(),
                Grid(pick(SPANS_US), pick(SPANS_US)),
                Sliding(pick(SPANS_US)),
                Snapshot(),
                self.session(),
                AnyOf((("one", self.grid()), ("two", self.session()))),
            ]
        )
        keys = pick([_PLAIN[:1], _PLAIN[::2]])
        missing = () if len(keys) == 2 else (Aggregate("ok", "max", "ok"),)
        apart = pick([(), (), ("ok",)])
        return Projected(Windowed(self.rows(depth), window, keys, (self.aggregate("v"), *missing), apart), _PLAIN)

    def grid(self) -> SimpleWindow:
        size_us = self.chance.choice(SPANS_US)
        return Grid(size_us, size_us, self.chance.choice([0, 0, SECOND, -1]))

    def session(self) -> SimpleWindow:
        longest_us, chain = self.chance.choice([5 * SECOND, 60 * SECOND]), self.chance.choice([(), ("k",), ("v",)])
        return Session(self.chance.choice(SPANS_US), longest_us, chain)

    def joined(self, depth: int) -> Rows:
        first = self.chance.randint(-3, 2)
        condition = self.chance.choice([None, "b.ok", "a.v < b.v"][: 3 if self.with_sql else 2])
        pairs = Joined(
            Side("a", self.rows(depth)),
            Side("b", self.rows(depth)),
            self.chance.choice([SECOND, SECOND, 5 * SECOND]),
            first,
            first + self.chance.randint(0, 3),
            self.chance.choice([(), (("k", "k"),), (("k", "k"),)]),
            condition,
            self.chance.choice(["inner", "left"]),
        )
        return Projected(pairs, (Computed("k", "a.k"), Computed("v", "b.v"), Computed("ok", "a.ok")))

    def referenced(self, depth: int) -> Rows:
        data: Rows = ReferenceRows("r")
        if self.chance.random() < 0.3:
            data = Filtered(data, "fine")
        pairs = Referenced(
            Side("a", self.rows(depth)),
            Side("d", data),
            self.chance.choice([(("k", "k"),), (("k", "k"),), ()]),
            self.chance.choice([None, "d.fine"]),
            self.chance.choice(["inner", "left"]),
        )
        return Projected(pairs, (Computed("k", "a.k"), Computed("v", "d.w"), Computed("ok", "a.ok")))

    def united(self, depth: int) -> Rows:
        return United(tuple(self.rows(depth) for _ in range(self.chance.randint(2, 3))))
