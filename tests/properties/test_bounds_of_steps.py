"""What a row depends on ends at the bound of its steps to the microsecond: events at it matter, events beyond do not.

``extent_of`` states bounds in the units of the query. Those of most constructs are open: the last microsecond of a
window's size is no part of it. :func:`closed` takes that microsecond away, and what is left is the least bound.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Literal

import pytest
from random_steps import JOB, SNAPSHOTS, START_US, Example, example
from test_steps_agreement import batch, reference

from pipelines.core.errors import DataRefused
from pipelines.core.model import EVERYTHING, Arrival, Job, OutputRange
from pipelines.core.query import Aggregate, AnyOf, Grid, Session, Sliding, Snapshot, Window
from pipelines.core.steps import (
    Analysed,
    Analytic,
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
    StepRows,
    Steps,
    United,
    Windowed,
    children_of,
    walk,
)
from pipelines.core.time import SECOND
from pipelines.plan import paths
from pipelines.plan.extent import Extent, extent_of, look_back
from pipelines.plan.snapshots import lookups, snapshots_read
from pipelines.transcripts.engines import tiny_programs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = SECOND
CASES = int(os.environ.get("TAILRACE_PROPERTY_CASES", "50"))
_COLUMNS = ("k", "v", "ok")


def closed(rows: Rows) -> Extent:
    """The least bounds of a construct: of open ones, a microsecond less."""
    extent = extent_of(rows)
    assert extent.back_us is not None
    match rows:
        case Windowed(window=window):
            return Extent(extent.back_us - _open_us(window), extent.ahead_us)
        case Analysed() | Joined():
            return Extent(extent.back_us - 1, max(extent.ahead_us - 1, 0))
        case _:
            return extent


def _open_us(window: Window) -> int:
    match window:
        case Sliding() | Snapshot():
            # a sliding window ends when the event at its start leaves, a snapshot at its only instant
            return 0
        case AnyOf(members=members):
            return _back_us(window) - max(_back_us(one) - _open_us(one) for _, one in members)
        case _:
            return 1


def _back_us(window: Window) -> int:
    back_us = look_back(window)
    assert back_us is not None
    return back_us


# -- cases: the rows of an output at one time, and events at the bounds of their steps ---------------------------------


def plain(rows: Rows) -> Projected:
    return Projected(rows, tuple(Computed(name, name) for name in _COLUMNS))


A, B = plain(InputRows("a")), plain(InputRows("b"))


def windowed(window: Window, rows: Rows = A) -> Rows:
    keys = (Computed("k", "k"),)
    return Windowed(rows, window, keys, (Aggregate("v", "sum", "v"), Aggregate("ok", "max", "ok")))


def analysed(function: Literal["lag", "last", "is_first"], span_us: int, rows: Rows = A, of: str = "v") -> Rows:
    when = "ok" if function == "last" else None
    one = Analytic("f", function, of, partition_by=("k",), when=when, within_us=span_us)
    names = {"v": "v", "ok": "ok", of: "f"}
    columns = tuple(Computed(name, names.get(name, name)) for name in _COLUMNS)
    return Projected(Analysed(rows, (one,)), columns)


def running_sum(span_us: int) -> Rows:
    one = Analytic("f", "aggregate", within_us=span_us, aggregate=Aggregate("f", "sum", "v"))
    return Projected(Analysed(A, (one,)), (Computed("k", "k"), Computed("v", "f"), Computed("ok", "ok")))


def joined(
    kind: Literal["inner", "left"], from_units: int, to_units: int, left: Rows = A, right: Rows = B, unit_us: int = S
) -> Rows:
    pairs = Joined(Side("a", left), Side("b", right), unit_us, from_units, to_units, (("k", "k"),), None, kind)
    return Projected(pairs, (Computed("k", "a.k"), Computed("v", "b.v"), Computed("ok", "a.ok")))


@dataclass(frozen=True)
class Case:
    """``rows`` at ``at_us`` after the start depend on each of ``events``, given in microseconds from that time.

    ``sides``: where one of the events is at the bound of the steps.
    """

    rows: Rows
    events: Sequence[tuple[str, int] | tuple[str, int, bool]]
    at_us: int = 0
    sides: tuple[Literal["back", "ahead"], ...] = ("back",)


def runs(first_us: int, step_us: int, count: int) -> list[tuple[str, int]]:
    return [("a", first_us + number * step_us) for number in range(count)]


_LONG_SLIDE = Sliding(3 * S)
CONSTRUCTS = {
    "filter": Case(Filtered(A, "ok"), [("a", 0)], sides=("back", "ahead")),
    "union": Case(United((A, B)), [("b", 0)], sides=("back", "ahead")),
    "tumbling": Case(windowed(Grid(4 * S, 4 * S)), [("a", 1 - 4 * S)]),
    "tumbling, at its end": Case(windowed(Grid(4 * S, 4 * S)), [("a", -S), ("a", 0)], sides=("ahead",)),
    "hopping": Case(windowed(Grid(4 * S, S)), [("a", 1 - 4 * S)]),
    "hopping with gaps": Case(windowed(Grid(2 * S, 4 * S)), [("a", 1 - 2 * S)]),
    "sliding": Case(windowed(Sliding(4 * S)), [("a", -4 * S), ("a", -S)]),
    # the event before the run puts a check point between its segments
    "session": Case(windowed(Session(2 * S, 6 * S)), [("a", 1 - 14 * S), *runs(1 - 12 * S, 2 * S, 6)]),
    "snapshot": Case(windowed(Snapshot()), [("a", 0)], sides=("back", "ahead")),
    "any_of": Case(windowed(AnyOf((("n", Grid(2 * S, 2 * S)), ("m", Sliding(4 * S))))), [("a", -4 * S), ("a", -S)]),
    "lag": Case(analysed("lag", 4 * S), [("a", 1 - 4 * S), ("a", 0)]),
    "last": Case(analysed("last", 4 * S), [("a", 1 - 4 * S, True), ("a", 0, False)]),
    "is_first": Case(analysed("is_first", 4 * S), [("a", 1 - 4 * S), ("a", 0)]),
    "running sum": Case(running_sum(4 * S), [("a", 1 - 4 * S), ("a", 0)], sides=("back", "ahead")),
    "inner join of 0 to 2": Case(joined("inner", 0, 2), [("a", 1 - 3 * S), ("b", 0)], -1),
    "inner join of 1 to 2": Case(joined("inner", 1, 2), [("a", 1 - 3 * S), ("b", 0)], -1),
    "inner join of -2 to 0": Case(joined("inner", -2, 0), [("b", 1 - 3 * S), ("a", 0)], -1),
    "inner join of -2 to 1": Case(joined("inner", -2, 1), [("b", 1 - 3 * S), ("a", 0)], -1),
    "inner join of -3 to -2": Case(joined("inner", -3, -2), [("b", 1 - 4 * S), ("a", 0)], -1, ("back", "ahead")),
    "left join of -1 to 2": Case(joined("left", -1, 2), [("b", 1 - 4 * S), ("a", -2 * S)], -1),
    "left join of 0 to 2, ahead": Case(joined("left", 0, 2), [("a", -2 * S), ("b", S - 1)], 0, ("ahead",)),
    "left join of 0 to 0, ahead": Case(joined("left", 0, 0), [("a", 0), ("b", S - 1)], 0, ("ahead",)),
    "left join of -2 to 0, ahead": Case(joined("left", -2, 0), [("a", 0), ("b", S - 1)], 0, ("ahead",)),
    "left join of -3 to -1": Case(joined("left", -3, -1), [("b", 1 - 4 * S), ("a", 0)], -1, ("back", "ahead")),
}
CHAINS = {
    "tumbling over lag": Case(
        windowed(Grid(4 * S, 4 * S), analysed("lag", 2 * S)), [("a", 2 - 6 * S), ("a", 1 - 4 * S)]
    ),
    "hopping over sliding": Case(
        windowed(Grid(4 * S, S), windowed(Sliding(S))), [("a", 1 - 5 * S), ("a", 1 - 4 * S - S // 2)]
    ),
    "lag over sliding": Case(
        analysed("lag", 2 * S, windowed(_LONG_SLIDE)), [("a", 1 - 5 * S), ("a", -3 * S), ("a", 0)]
    ),
    "sliding over rows that a lag keeps": Case(
        windowed(_LONG_SLIDE, Filtered(analysed("lag", 2 * S, of="ok"), "ok")),
        [("a", 1 - 5 * S), ("a", -3 * S), ("a", -S), ("a", -S // 2)],
    ),
    "left join with rows that a lag keeps": Case(
        joined("left", -1, 2, right=Filtered(analysed("lag", 2 * S, B, of="ok"), "ok")),
        [("b", 2 - 6 * S), ("b", 1 - 4 * S), ("a", -2 * S)],
        -1,
    ),
    "union of a left join with a window, ahead": Case(
        United((windowed(Grid(S, S)), joined("left", 0, 1))), [("a", -S), ("b", S - 1)], 0, ("ahead",)
    ),
    # exact, not least: the units of the two joins never leave the whole of both to a row
    "left join of rows of a left join, ahead": Case(
        joined("left", 0, 0, right=joined("left", 0, 0, left=Filtered(A, "ok"), unit_us=3 * S), unit_us=2 * S),
        [("a", 0, False), ("a", 2 * S - 1, True), ("b", 4 * S - 1)],
        2 * S,
        (),
    ),
    "sliding over a left join, ahead": Case(
        windowed(_LONG_SLIDE, joined("left", 0, 1)), [("a", -S), ("b", S - 1)], 0, ("ahead",)
    ),
}
ALL = CONSTRUCTS | CHAINS


# -- what the rows at that time are, from a part of the log ------------------------------------------------------------

Reach = dict[str, Extent]


def reach_of(job: Job, monkeypatch: pytest.MonkeyPatch, bounds: Callable[[Rows], Extent] = closed) -> Reach:
    with monkeypatch.context() as patch:
        patch.setattr(paths, "extent_of", bounds)
        return paths.extents(job)


def as_example(case: Case, reach: Reach) -> Example:
    """The events of the case, and for each input one a microsecond beyond either bound, which nothing depends on."""
    events = [(*one, True)[:3] for one in case.events]
    for name, extent in reach.items():
        assert extent.back_us is not None
        events += [(name, -extent.back_us - 1, True), (name, extent.ahead_us + 1, True)]
    at_us = START_US + case.at_us
    log = []
    for number, (name, us, ok) in enumerate(sorted(events, key=lambda one: one[1])):
        payload = {"at": at_us + us, "k": "x", "v": 1 << number, "ok": ok, "l": None}
        log.append(Arrival(name, 0, number, at_us + us, payload))
    return Example(0, job_of(case), tuple(log), {"r": ()}, OutputRange(at_us, at_us + 1))


def job_of(case: Case) -> Job:
    return replace(JOB, query=Steps((), (Output("one", case.rows),)))


def cut(one: Example, reach: Reach) -> Example:
    """The example with the events that are read for its range alone."""
    from_us, to_us = one.output.from_us, one.output.to_us
    assert from_us is not None
    assert to_us is not None

    def is_read(row: Arrival) -> bool:
        at_us, extent = row.payload["at"], reach.get(row.input)
        assert isinstance(at_us, int)
        if extent is None:
            return False
        assert extent.back_us is not None
        return from_us - extent.back_us <= at_us <= to_us - 1 + extent.ahead_us

    return replace(one, log=tuple(filter(is_read, one.log)))


def changed(extent: Extent, side: Literal["back", "ahead"], by_us: int) -> Extent:
    assert extent.back_us is not None
    if side == "back":
        return Extent(extent.back_us + by_us, extent.ahead_us)
    return Extent(extent.back_us, extent.ahead_us + by_us)


def examine(case: Case, reach: Reach) -> None:
    """What is in reach gives the rows, and a microsecond less to either side does not."""
    one = as_example(case, reach)
    whole = reference(one)
    assert reference(cut(one, reach)) == whole
    for side in case.sides:
        less = {name: changed(extent, side, -1) for name, extent in reach.items()}
        assert reference(cut(one, less)) != whole, f"not least: {side}"


@pytest.mark.parametrize("name", ALL)
def test_the_bounds_of_a_construct_are_exact_and_least(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    examine(ALL[name], reach_of(job_of(ALL[name]), monkeypatch))


@pytest.mark.parametrize("by_us", [-1, 1])
@pytest.mark.parametrize(("name", "side"), [(name, side) for name, case in ALL.items() for side in case.sides])
def test_a_bound_that_is_a_microsecond_off_is_noticed(
    name: str, side: Literal["back", "ahead"], by_us: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = ALL[name]
    kind = type(reaching(case.rows, side))

    def mutant(rows: Rows) -> Extent:
        extent = closed(rows)
        return changed(extent, side, by_us) if type(rows) is kind else extent

    with pytest.raises(AssertionError):
        examine(case, reach_of(job_of(case), monkeypatch, mutant))


def reaching(rows: Rows, side: Literal["back", "ahead"]) -> Rows:
    """The construct with the greatest bound on that side."""
    return max(walk(rows), key=lambda one: (closed(one).back_us or 0) if side == "back" else closed(one).ahead_us)


@pytest.mark.parametrize("seed", range(max(200, CASES)))
def test_a_cut_at_the_least_bounds_of_random_steps_is_the_cut_of_the_whole(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, one = Random(seed), example(seed)
    reach, offsets = reach_of(one.job, monkeypatch), sorted(offsets_of(one.job))
    for _ in range(5):
        at_us = START_US + chance.choice([-1, 0, 0, S])
        output = OutputRange(at_us, at_us + 1)
        ranged = replace(one, log=at_bounds(chance, at_us, offsets), output=output)
        assert reference(cut(ranged, reach)) == reference(ranged), ranged


def offsets_of(job: Job) -> set[int]:
    """Where the bounds of the steps are, seen from a row of an output: on each path the sums up to each construct."""
    assert job.steps is not None
    steps, found = job.steps, set()

    def visit(rows: Rows, offsets: frozenset[int]) -> None:
        extent = closed(rows)
        assert extent.back_us is not None
        reached = frozenset(at_us + by_us for at_us in offsets for by_us in (0, -extent.back_us, extent.ahead_us))
        found.update(reached)
        for child in (steps.step(rows.step),) if isinstance(rows, StepRows) else children_of(rows):
            visit(child, reached)

    for output in steps.outputs:
        visit(output.rows, frozenset({0}))
    return found


def at_bounds(chance: Random, at_us: int, offsets: Sequence[int]) -> tuple[Arrival, ...]:
    """Random events exactly at bounds, a microsecond to either side of them, and a few elsewhere."""
    times_us = [at_us + offsets[0], at_us + offsets[-1], at_us]
    times_us += [at_us + chance.choice(offsets) + chance.choice([0, 0, -1, 1]) for _ in range(9)]
    times_us += [at_us - chance.randint(0, 8) * S // 2 for _ in range(3)]
    log = []
    for number, us in enumerate(sorted(times_us)):
        payload = {
            "at": us,
            "k": chance.choice(["x", "x", "x", "y"]),
            "v": number,
            "ok": chance.random() < 0.8,
            "l": chance.choice([[number], [number], [], None]),
        }
        log.append(Arrival(chance.choice("ab"), 0, number, us, payload))
    return tuple(log)


def test_snapshots_of_reference_data_are_read_from_bound_to_bound() -> None:
    looked_up = Referenced(Side("a", A), Side("d", ReferenceRows("r")), (("k", "k"),))
    rows = Projected(looked_up, tuple(Computed(name, f"a.{name}") for name in _COLUMNS))
    case = Case(windowed(Sliding(4 * S), rows), [("a", -4 * S), ("a", -S), ("a", 0)])
    one = as_example(case, {})
    job = replace(one.job, references=(SNAPSHOTS,))
    # x is in the snapshots of the first event and of the second, not in that of the third
    keys = {START_US - 60 * S: "x", START_US - 4 * S + 1: "y", START_US - 2 * S: "x", START_US: "y"}
    data = {us: {"since": us, "k": key, "w": 1, "fine": True} for us, key in keys.items()}

    def found(times: OutputRange) -> object:
        read = tuple(data[us] for us in snapshots_read(times, tuple(data)))
        try:
            return reference(replace(one, job=job, references={"r": read}))
        except DataRefused as error:
            return str(error)

    (lookup,) = lookups(job)
    times = lookup.times(one.output)
    assert times.from_us is not None
    assert times.to_us is not None
    whole = found(EVERYTHING)
    assert found(times) == whole
    assert found(OutputRange(times.from_us + 1, times.to_us)) != whole
    assert found(OutputRange(times.from_us, times.to_us - 1)) != whole


@pytest.mark.spark
def test_the_batch_engine_gives_the_rows_from_what_is_in_reach(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, expected = {}, {}
    for name, case in ALL.items():
        reach = reach_of(job_of(case), monkeypatch)
        one = as_example(case, reach)
        expected[name] = reference(one)["one"]
        parts[name] = cut(one, reach)
    with tiny_programs(spark):
        assert {name: batch(spark, one)["one"] for name, one in parts.items()} == expected
