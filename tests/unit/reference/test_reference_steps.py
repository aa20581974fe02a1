"""Steps over plain columns, relation by relation, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reference_logs import at, clock, event, job

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Column, OutputRange, Reference
from pipelines.core.query import Aggregate, Grid, Session, Snapshot, SortKey
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
from pipelines.core.time import MINUTE, SECOND
from pipelines.reference.engine import run

EVENTS = InputRows("events")
JOB = job(
    """
profile: stream_analytics
inputs:
  events: {columns: "at TIMESTAMP, k STRING, v INT, ok BOOLEAN, list ARRAY<INT>", timestamp_by: at}
  others: {columns: "at TIMESTAMP, k STRING, v INT, ok BOOLEAN, list ARRAY<INT>", timestamp_by: at}
ordering: {late_arrival: unbounded, early_arrival: off, out_of_order: 0s}
query: {from: events}
"""
)
BY_K = (Computed("k", "k"),)
COUNT = Aggregate("n", "count")


def rows(relation: Rows, log, *columns: str, steps=(), references=None, job=JOB):
    """System timestamp, then the columns' values, in the order of the relation."""
    query = Steps(tuple(steps), (Output("output", relation),))
    outcome = run(replace(job, query=query), log, references=references)
    found = outcome.outputs["output"]
    return [(clock(row.at_us), *(row.values[name] for name in columns)) for row in found.rows]


def log(*times: str, input: str = "events", arrival: str = "13:00", **values):
    columns = {"k": "a", "v": 0, "ok": True, "list": None}
    return [
        event(arrival, n, input=input, at=at(time), **columns | {name: each[n] for name, each in values.items()})
        for n, time in enumerate(times)
    ]


def test_a_filter_keeps_what_is_true_and_a_projection_keeps_time_and_order():
    kept = Projected(Filtered(EVENTS, "ok"), (Computed("w", "`v`"), Computed("seen", "arrival_time")))
    given = log("12:00", "12:00", "12:01", v=[1, 2, 3], ok=[True, None, True])
    assert rows(kept, given, "w") == [("12:00", 1), ("12:01", 3)]


def test_an_expression_that_is_more_than_a_column_needs_an_evaluator():
    with pytest.raises(UsageError, match="more than a column"):
        rows(Filtered(EVENTS, "v > 1"), log("12:00"))


def test_a_step_read_twice_gives_both_readers_the_same_rows():
    both = United((StepRows("one"), StepRows("one")))
    assert rows(both, log("12:00", v=[1]), "v", steps=[Step("one", EVENTS)]) == [("12:00", 1), ("12:00", 1)]


def test_apply_gives_a_row_for_each_element_in_its_order():
    given = log("12:00", "12:00", "12:01", list=[[7, None], [], None])
    element = [("12:00", {"ArrayIndex": 0, "ArrayValue": 7}), ("12:00", {"ArrayIndex": 1, "ArrayValue": None})]
    assert rows(Applied(EVENTS, "list", "e"), given, "e") == element
    assert rows(Applied(EVENTS, "list", "e", outer=True), given, "e") == [*element, ("12:00", None), ("12:01", None)]
    values = Projected(Applied(EVENTS, "list", "e"), (Computed("v", "e.ArrayValue"), Computed("at", "e.arrayindex")))
    assert rows(values, given, "v", "at") == [("12:00", 7, 0), ("12:00", None, 1)]


LAG = Analytic("found", "lag", "v", within_us=10 * SECOND, partition_by=("k",), when="ok", default="v")


def test_lag_takes_the_newest_row_before_that_fulfils_when_and_is_in_reach():
    given = log(
        "12:00:00",
        "12:00:01",
        "12:00:01",
        "12:00:10.999999",
        "12:00:21",
        v=[1, 2, 3, 4, 5],
        ok=[True] * 2 + [False] * 3,
    )
    found = [value for _, value in rows(Analysed(EVENTS, (LAG,)), given, "found")]
    # the row at 12:00:01 is 9.999999 s away, then out of reach
    assert found == [1, 1, 2, 2, 5]


def test_the_far_end_of_reach_is_open():
    given = log("12:00:00", "12:00:10", v=[1, 2])
    assert [value for _, value in rows(Analysed(EVENTS, (LAG,)), given, "found")] == [1, 2]


def test_the_second_lag_counts_rows_after_partition_and_when():
    second = replace(LAG, offset=2, default=None)
    given = log("12:00", "12:00", "12:00", "12:00:01", v=[1, 2, 3, 4], k=["a", "b", "a", "a"])
    assert [value for _, value in rows(Analysed(EVENTS, (second,)), given, "found")] == [None, None, None, 1]


def test_last_counts_the_row_itself_and_nulls_are_values():
    last = replace(LAG, function="last", default=None)
    given = log("12:00", "12:00", "12:00:01", v=[1, None, 3], ok=[True, True, False])
    assert [value for _, value in rows(Analysed(EVENTS, (last,)), given, "found")] == [1, None, None]


def test_is_first_looks_at_its_own_tumbling_interval():
    first = Analytic("first", "is_first", within_us=MINUTE, when="ok")
    given = log("12:01", "12:01:00.000001", "12:01:30", "12:02", "12:02:00.000001", ok=[True, False, True, True, True])
    assert [value for _, value in rows(Analysed(EVENTS, (first,)), given, "first")] == [1, 0, 1, 0, 1]


def test_an_aggregate_over_reach_counts_the_row_itself_and_no_later_row_of_its_time():
    counted = Analytic("n", "aggregate", within_us=MINUTE, aggregate=COUNT)
    given = log("12:00", "12:00", "12:01", "12:01:00.000001")
    assert [value for _, value in rows(Analysed(EVENTS, (counted,)), given, "n")] == [1, 2, 1, 2]


def test_a_window_over_windows_takes_the_row_at_its_own_end():
    five = Windowed(EVENTS, Grid(5 * MINUTE, 5 * MINUTE), BY_K, (COUNT,))
    hour = Windowed(
        five, Grid(60 * MINUTE, 60 * MINUTE), (), (Aggregate("total", "sum", "n"), Aggregate("rows", "count"))
    )
    given = log("11:59", "12:00", "12:00:00.000001", k=["a", "b", "a"])
    assert rows(hour, given, "total", "rows") == [("12:00", 2, 2), ("13:00", 1, 1)]


def test_windows_of_a_partition_are_computed_apart():
    apart = Windowed(EVENTS, Grid(MINUTE, MINUTE), (), (COUNT,), partition_by=("k",))
    assert rows(apart, log("12:00", "12:00", "12:00", k=["b", None, "b"]), "n") == [("12:00", 1), ("12:00", 2)]


def test_sessions_that_end_together_come_in_order_of_their_starts():
    session = Windowed(EVENTS, Session(MINUTE, 10 * MINUTE, ("k",)), (), (COUNT,))
    given = log("12:00:00", "12:00:30", "12:00:30", k=["a", "a", "b"])
    assert rows(session, given, "n") == [("12:01:30", 2), ("12:01:30", 1)]


def test_top_rows_are_ranked_with_ties_by_time_and_order():
    top = (
        Aggregate("best", "top_one", "k", order_by=(SortKey("v", True),)),
        Aggregate("two", "collect_top", "k", order_by=(SortKey("v"),), limit=2),
    )
    given = log("12:00", "12:00", "12:00", "12:00", v=[1, 3, 3, None], k=["a", "b", "c", "d"])
    ranked = [{"rank": 1, "value": "d"}, {"rank": 2, "value": "a"}]
    assert rows(Windowed(EVENTS, Snapshot(), (), top), given, "best", "two") == [("12:00", "b", ranked)]


def pairs(kind, first, last, left, right, **more):
    step = Joined(
        Side("a", EVENTS), Side("b", InputRows("others")), MINUTE, first, last, (("k", "k"),), kind=kind, **more
    )
    columns = (Computed("a", "a.v"), Computed("b", "b.v"), Computed("at", "b.system_timestamp"))
    return rows(Projected(step, columns), left + right, "a", "b")


def test_a_join_counts_boundaries_and_null_keys_match_nothing():
    left = log("12:00:59", "12:00:59", v=[1, 2], k=["a", None])
    right = log(
        "12:00:00",
        "12:01:00",
        "12:01:59.999999",
        "12:02:00",
        "12:01:00",
        input="others",
        v=[10, 11, 12, 13, 14],
        k=["a"] * 4 + [None],
    )
    assert pairs("inner", 0, 1, left, right) == [("12:00:59", 1, 10), ("12:01", 1, 11), ("12:01:59.999999", 1, 12)]


def test_an_unmatched_left_row_comes_when_no_partner_can_come_any_more():
    left = log("12:00:59", v=[1])
    right = log("12:03", input="others")
    assert pairs("left", -1, 2, left, right) == [("12:02:59", 1, None)]
    assert pairs("left", -2, -1, left, right) == [("12:00:59", 1, None)]
    assert pairs("left", 0, 5, left, right, condition="b.ok") == [("12:03", 1, 0)]


MACHINES = Reference(
    "machines", (Column("k", "string"), Column("name", "string"), Column("since", "timestamp")), "since"
)


def referenced(machines=MACHINES, kind="inner", keys=(("k", "k"),), reference=None):
    named = Referenced(Side("e", EVENTS), Side("m", reference or ReferenceRows("machines")), keys, kind=kind)
    given = log("12:00", "12:00:00.000001", arrival="12:30", v=[1, 2])
    snapshots = [
        {"k": "a", "name": "new", "since": at("12:00:00.000001")},
        {"k": "a", "name": "old", "since": at("11:00")},
        {"k": "b", "name": "none", "since": at("11:00")},
        {"k": "b", "name": "none", "since": at("12:10")},
    ]
    return rows(
        Projected(named, (Computed("v", "e.v"), Computed("name", "m.name"), Computed("seen", "arrival_time"))),
        given,
        "v",
        "name",
        references={"machines": snapshots},
        job=replace(JOB, references=(machines,)),
    )


def test_the_snapshot_that_holds_at_the_rows_time_serves_it():
    assert referenced() == [("12:00", 1, "old"), ("12:00:00.000001", 2, "new")]
    assert referenced(keys=()) == [("12:00", 1, "old"), ("12:00", 1, "none"), ("12:00:00.000001", 2, "new")]


def test_reference_data_may_be_looked_up_by_the_arrival():
    by_arrival = replace(MACHINES, time="arrival")
    assert referenced(by_arrival) == []
    assert referenced(by_arrival, "left") == [("12:00", 1, None), ("12:00:00.000001", 2, None)]


def test_a_row_before_the_first_snapshot_is_refused_if_the_range_asks_for_it():
    named = Projected(Referenced(Side("e", EVENTS), Side("m", ReferenceRows("machines"))), (Computed("v", "e.v"),))
    late = replace(JOB, references=(MACHINES,), query=Steps((), (Output("output", named),)))
    data = {"machines": [{"k": "a", "name": "one", "since": at("12:00")}]}
    given = log("11:59:59.999999", "12:00", v=[1, 2])
    with pytest.raises(
        DataRefused, match=r"no snapshot for a row of .*11:59:59.999999Z: the first one is of .*12:00:00Z"
    ):
        run(late, given, references=data)
    found = run(late, given, OutputRange(at("12:00")), references=data).outputs["output"]
    assert [row.values["v"] for row in found.rows] == [2]


def test_static_data_serves_all_rows_in_the_order_of_its_file():
    static = replace(MACHINES, effective=None)
    assert [name for _, v, name in referenced(static) if v == 1] == ["new", "old"]
    projected = Projected(ReferenceRows("machines"), (Computed("k", "k"), Computed("name", "k")))
    assert [name for _, v, name in referenced(static, reference=projected) if v == 1] == ["a", "a"]


def test_a_union_keeps_duplicates_and_the_first_branchs_names():
    windows = Windowed(EVENTS, Snapshot(), BY_K, (COUNT,))
    both = United((windows, Projected(EVENTS, (Computed("x", "k"), Computed("y", "v")))))
    assert rows(both, log("12:00", v=[5]), "k", "n") == [("12:00", "a", 1), ("12:00", "a", 5)]


def test_in_a_union_of_events_the_arrival_decides_first():
    given = log("12:00", "12:00", v=[1, 2])
    both = United((Filtered(EVENTS, "ok"), EVENTS))
    assert [v for _, v in rows(both, given, "v")] == [1, 1, 2, 2]
    windows = Windowed(EVENTS, Snapshot(), (Computed("v", "v"),), (COUNT,))
    assert [v for _, v in rows(United((windows, windows)), given, "v")] == [1, 2, 1, 2]


def test_pairs_of_a_time_stand_in_the_order_of_the_later_row():
    left = log("12:00", "12:00", "12:02", v=[1, 2, 3])
    right = log("12:01", "12:02", input="others", v=[10, 11])
    assert pairs("inner", -5, 5, left, right) == [
        ("12:01", 1, 10),
        ("12:01", 2, 10),
        ("12:02", 3, 10),
        ("12:02", 3, 11),
        ("12:02", 1, 11),
        ("12:02", 2, 11),
    ]


def test_the_range_is_cut_by_system_timestamp():
    query = Steps((), (Output("output", EVENTS),))
    outcome = run(
        replace(JOB, query=query), log("12:00", "12:01", "12:02"), OutputRange(at("12:00:00.000001"), at("12:02"))
    )
    assert [clock(row.at_us) for row in outcome.outputs["output"].rows] == ["12:01"]
    assert not outcome.decisions


def test_an_input_may_read_the_log_of_another():
    two = job(
        """
profile: stream_analytics
inputs:
  events: {columns: "at TIMESTAMP, k STRING, v INT, ok BOOLEAN, list ARRAY<INT>", timestamp_by: at}
  by_arrival: {columns: "at TIMESTAMP, k STRING, v INT, ok BOOLEAN, list ARRAY<INT>", same_log_as: events}
ordering: {late_arrival: 1m}
query: {from: events}
"""
    )
    assert rows(InputRows("by_arrival"), log("12:00", v=[3]), "v", job=two) == [("13:00", 3)]
