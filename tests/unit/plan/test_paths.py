"""A plan names the steps on the way that set how far each input is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pipelines.core.model import Column, Grid, Input, Job, Reference, StreamAnalyticsOrdering
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Filtered,
    InputRows,
    Joined,
    Output,
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
from pipelines.core.time import HOUR, MINUTE, SECOND
from pipelines.job.load import parse_job
from pipelines.plan.paths import paths

READINGS, TRUCKS = InputRows("readings"), InputRows("trucks")


def hopping(size_us: int, rows: Rows = READINGS) -> Windowed:
    return Windowed(rows, Grid(size_us, MINUTE), (), ())


def lag(within_us: int, rows: Rows = READINGS) -> Analysed:
    short = Analytic("same", "last", "speed", within_us=SECOND)
    return Analysed(rows, (short, Analytic("before", "lag", "speed", within_us=within_us)))


def joined(kind: Literal["inner", "left"], left: Rows, right: Rows) -> Joined:
    return Joined(Side("a", left), Side("b", right), MINUTE, -1, 5, kind=kind)


def job(steps: dict[str, Rows], outputs: dict[str, Rows], *references: str) -> Job:
    columns = (Column("at", "timestamp"), Column("speed", "double"))
    names = ("readings", "trucks")
    tree = Steps(tuple(Step(*one) for one in steps.items()), tuple(Output(*one) for one in outputs.items()))
    inputs = tuple(Input(name, columns, "at") for name in names)
    policies = tuple((name, StreamAnalyticsOrdering()) for name in names)
    data = tuple(Reference(name, columns) for name in references)
    return Job("example", "stream_analytics", inputs, policies, tree, "flush", references=data)


def shown(of: Job) -> list[str]:
    return [str(path) for path in paths(of)]


def test_a_path_names_each_step_and_what_looks_back_in_it() -> None:
    of = job({"smoothed": hopping(10 * MINUTE)}, {"alerts": Filtered(lag(2 * MINUTE, StepRows("smoothed")), "true")})
    assert shown(of) == ["readings -> smoothed (hopping 10m) -> output alerts (lag 2m): 12m back, 0s ahead"]
    assert paths(of)[0].as_dict() == {
        "source": "readings",
        "steps": [
            {"name": "smoothed", "constructs": ["hopping 10m"]},
            {"name": "alerts", "constructs": ["lag 2m"]},
        ],
        "back_us": 12 * MINUTE,
        "ahead_us": 0,
    }


def test_of_several_paths_the_farthest_to_each_side_are_named() -> None:
    missing = joined("left", READINGS, TRUCKS)
    of = job({"minutes": hopping(HOUR)}, {"hours": hopping(HOUR, StepRows("minutes")), "missing": missing})
    assert shown(of) == [
        "readings -> minutes (hopping 1h) -> output hours (hopping 1h): 2h back, 0s ahead",
        "readings -> output missing (left join over -1 to 5 boundaries of 1m): 7m back, 1m ahead",
        "trucks -> output missing (left join over -1 to 5 boundaries of 1m): 7m back, 1m ahead",
    ]


def test_a_step_that_only_passes_rows_on_is_named_alone_and_the_greater_branch_of_a_union_is_taken() -> None:
    union = United((StepRows("kept"), lag(MINUTE), lag(2 * MINUTE, StepRows("kept"))))
    of = job({"kept": Filtered(READINGS, "speed > 1")}, {"all": union})
    assert shown(of) == ["readings -> kept -> output all (lag 2m): 2m back, 0s ahead"]


def test_of_reference_data_the_path_begins_at_its_join() -> None:
    looked_up = Referenced(Side("a", hopping(HOUR)), Side("b", ReferenceRows("limits")))
    of = job({}, {"alerts": joined("inner", looked_up, TRUCKS)}, "limits")
    join = "inner join over -1 to 5 boundaries of 1m"
    assert shown(of) == [
        f"readings -> output alerts (hopping 1h, {join}): 1h6m back, 0s ahead",
        f"limits -> output alerts ({join}): 6m back, 0s ahead",
        f"trucks -> output alerts ({join}): 6m back, 0s ahead",
    ]


def test_the_query_of_one_window_is_a_path_too_but_for_profiles_with_rules_of_their_own() -> None:
    text = """
tailrace: 1
job: tolls
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, v DOUBLE", timestamp_by: at}}
ordering: {late_arrival: 5m}
query: {from: cars, window: {session: {timeout: 5m, max_duration: 10m}}, aggregates: {n: count(*)}}
"""
    assert shown(parse_job(text)) == ["cars -> output windows (session 5m of at most 10m): 25m back, 0s ahead"]
    assert paths(replace(job({}, {"all": READINGS}), profile="atlas")) == ()
