"""How far steps reach around a row, construct by construct and composed."""

from __future__ import annotations

from typing import Literal

import pytest

from pipelines.core.model import (
    AnyOf,
    Column,
    Grid,
    Input,
    Job,
    OutputRange,
    Reference,
    Session,
    Sliding,
    Snapshot,
    StreamAnalyticsOrdering,
)
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
    Step,
    StepRows,
    Steps,
    United,
    Windowed,
)
from pipelines.core.time import HOUR, MINUTE, SECOND, parse_instant
from pipelines.plan.extent import Extent, extent_of
from pipelines.plan.paths import extents
from pipelines.plan.read_range import read_range, read_ranges

NOON = parse_instant("2026-01-01T12:00:00Z")
ONE = parse_instant("2026-01-01T13:00:00Z")
CARS, TRUCKS = InputRows("cars"), InputRows("trucks")
RANGE = OutputRange(NOON, ONE)


def tumbling(size_us: int, rows: Rows = CARS) -> Windowed:
    return Windowed(rows, Grid(size_us, size_us), (), ())


def lag(within_us: int, rows: Rows = CARS) -> Analysed:
    return Analysed(rows, (Analytic("before", "lag", "speed", within_us=within_us),))


def joined(from_units: int, to_units: int, kind: Literal["inner", "left"] = "inner", right: Rows = TRUCKS) -> Joined:
    return Joined(Side("a", CARS), Side("b", right), MINUTE, from_units, to_units, kind=kind)


def job(*outputs: Rows, steps: tuple[Step, ...] = (), references: tuple[Reference, ...] = ()) -> Job:
    columns = (Column("at", "timestamp"), Column("speed", "double"))
    inputs = tuple(Input(name, columns, "at") for name in ("cars", "trucks"))
    named = tuple(Output(f"output_{number}", rows) for number, rows in enumerate(outputs))
    policies = (
        ("cars", StreamAnalyticsOrdering(5 * MINUTE, 20 * SECOND)),
        ("trucks", StreamAnalyticsOrdering(3 * MINUTE, HOUR)),
    )
    return Job("example", "stream_analytics", inputs, policies, Steps(steps, named), "flush", references=references)


@pytest.mark.parametrize(
    ("rows", "extent"),
    [
        (Filtered(CARS, "speed > 3"), Extent()),
        (Projected(CARS, (Computed("speed", "speed"),)), Extent()),
        (United((CARS, TRUCKS)), Extent()),
        (tumbling(10 * MINUTE), Extent(10 * MINUTE)),
        (tumbling(10 * MINUTE + 1), Extent(10 * MINUTE + 1)),
        (Windowed(CARS, Grid(HOUR, MINUTE), (), ()), Extent(HOUR)),
        (Windowed(CARS, Sliding(7 * SECOND), (), ()), Extent(7 * SECOND)),
        (Windowed(CARS, Snapshot(), (), ()), Extent()),
        (Windowed(CARS, Session(MINUTE, 2 * MINUTE), (), ()), Extent(5 * MINUTE)),
        (Windowed(CARS, AnyOf((("a", Grid(1, 1)), ("b", Grid(2, 2)))), (), ()), Extent(2)),
        (lag(MINUTE), Extent(MINUTE)),
        (lag(MINUTE + 1), Extent(MINUTE + 1)),
        (Analysed(CARS, (*lag(1).functions, *lag(3).functions, *lag(2).functions)), Extent(3)),
    ],
)
def test_the_extent_of_a_construct_over_its_own_rows(rows: Rows, extent: Extent) -> None:
    assert extent_of(rows) == extent


@pytest.mark.parametrize(
    ("from_units", "to_units", "inner", "left", "ahead"),
    [(0, 0, 1, 1, 1), (0, 5, 6, 6, 1), (2, 5, 6, 6, 1), (-5, 0, 6, 6, 1), (-5, 2, 6, 8, 1), (-5, -2, 6, 6, 0)],
)
def test_the_extent_of_a_join_counts_a_unit_more_than_its_boundaries(
    from_units: int, to_units: int, inner: int, left: int, ahead: int
) -> None:
    assert extent_of(joined(from_units, to_units)) == Extent(inner * MINUTE)
    assert extent_of(joined(from_units, to_units, "left")) == Extent(left * MINUTE, ahead * MINUTE)


def test_extents_add_up_along_a_path() -> None:
    rows = tumbling(HOUR, Filtered(lag(2 * MINUTE, tumbling(5 * MINUTE)), "before > 1"))
    assert extents(job(rows)) == {"cars": Extent(HOUR + 7 * MINUTE)}


def test_of_two_paths_to_an_input_each_side_takes_the_greater() -> None:
    wide, ahead = tumbling(HOUR), joined(0, 1, "left", right=CARS)
    assert extents(job(wide, ahead)) == {"cars": Extent(HOUR, MINUTE)}


def test_a_long_path_does_not_lengthen_the_reads_of_another_input() -> None:
    of = job(tumbling(HOUR), TRUCKS)
    assert extents(of) == {"cars": Extent(HOUR), "trucks": Extent()}
    found = read_ranges(of, RANGE)
    assert (found["cars"].from_us, found["cars"].to_us) == (NOON - 5 * MINUTE - HOUR, ONE + 20 * SECOND)
    assert (found["trucks"].from_us, found["trucks"].to_us) == (NOON - 3 * MINUTE - HOUR, ONE + HOUR)
    assert (read_range(of, RANGE).from_us, read_range(of, RANGE).to_us) == (NOON - 65 * MINUTE, ONE + HOUR)


def test_an_input_that_no_output_reads_is_read_for_its_verdicts() -> None:
    found = read_ranges(job(tumbling(HOUR)), RANGE)["trucks"]
    assert (found.from_us, found.to_us) == (NOON - 3 * MINUTE - HOUR, ONE + HOUR)


def test_a_step_that_several_outputs_read_counts_with_what_comes_after_it_in_each() -> None:
    step = Step("minutes", tumbling(MINUTE))
    of = job(StepRows("minutes"), tumbling(HOUR, StepRows("minutes")), steps=(step,))
    assert extents(of) == {"cars": Extent(HOUR + MINUTE)}


def test_reference_data_is_read_for_what_comes_after_its_join() -> None:
    machines = Side("m", ReferenceRows("machines"))
    of = job(tumbling(HOUR, Referenced(Side("c", tumbling(MINUTE)), machines)))
    assert extents(of) == {"cars": Extent(HOUR + MINUTE), "machines": Extent(HOUR)}


@pytest.mark.parametrize("more_us", [0, 1])
def test_what_is_read_moves_by_every_microsecond_of_a_step_on_the_way(more_us: int) -> None:
    found = read_ranges(job(tumbling(10 * MINUTE, lag(MINUTE + more_us))), RANGE)["cars"]
    assert found.from_us == NOON - 5 * MINUTE - 11 * MINUTE - more_us
    assert found.rule.startswith("[from - E - max(K, L), to + L] with E = 5m, K = 11m")


def test_a_left_join_reads_ahead_by_one_unit() -> None:
    found = read_ranges(job(joined(0, 2, "left")), RANGE)
    assert found["cars"].to_us == ONE + MINUTE + 20 * SECOND
    assert found["trucks"].to_us == ONE + MINUTE + HOUR
    assert found["cars"].rule == "[from - E - max(K, L), to + A + L] with E = 5m, K = 3m, L = 20s, A = 1m"
