"""Windows of stream_analytics: ``(start, end]``, and what each kind makes of its rows."""

from __future__ import annotations

import pytest
from reference_logs import at, clock, counts, event, job, run


def windowed(window, group="[]", aggregates='{n: "count(*)"}'):
    return job(
        f"""
profile: stream_analytics
inputs: {{events: {{columns: "device STRING, at TIMESTAMP", timestamp_by: at}}}}
ordering: {{late_arrival: unbounded, out_of_order: 9m, early_arrival: off}}
query: {{from: events, group_by: {group}, window: {window}, aggregates: {aggregates}}}
"""
    )


def log(*times):
    return [event("18:00", n, device="a", at=at(time)) for n, time in enumerate(times)]


def spans(window, *times):
    return counts(run(windowed(window), log(*times)), "n")


def test_a_tumbling_window_holds_its_end_and_not_its_start():
    assert spans("{tumbling: {size: 5m}}", "12:00", "12:00:00.000001", "12:05") == [
        ("11:55", "12:00", 1),
        ("12:00", "12:05", 2),
    ]


def test_an_offset_of_minus_one_millisecond_takes_the_start_in_and_the_end_out():
    found = spans("{tumbling: {size: 1h, offset: -1ms}}", "12:00", "12:59:59.999", "13:00")
    assert [(end, n) for _, end, n in found] == [("12:59:59.999000", 2), ("13:59:59.999000", 1)]


def test_hopping_ends_lie_on_the_grid_also_where_the_hop_does_not_divide_the_size():
    assert spans("{hopping: {size: 5m, hop: 2m}}", "12:01") == [
        ("11:57", "12:02", 1),
        ("11:59", "12:04", 1),
    ]


@pytest.mark.parametrize(
    ("time", "number"), [("12:07", 0), ("12:07:00.000001", 1), ("12:10", 1), ("12:10:00.000001", 0)]
)
def test_hops_longer_than_the_window_leave_gaps(time, number):
    assert len(spans("{hopping: {size: 3m, hop: 10m}}", time)) == number


def test_the_grid_of_seven_minutes_begins_in_the_year_one():
    ((start, end, _),) = spans("{tumbling: {size: 7m}}", "12:00")
    assert (at(end) - at("0001-01-01T00:00")) % (7 * 60_000_000) == 0
    assert (at(end) - at("1970-01-01T00:00")) % (7 * 60_000_000) == 60_000_000 * 6
    assert at(end) - at(start) == 7 * 60_000_000


def test_align_to_moves_the_grid():
    assert spans("{tumbling: {size: 7m, align_to: 2026-01-01T00:00:00Z}}", "12:00") == [("11:54", "12:01", 1)]


def test_a_sliding_window_ends_where_a_row_enters_and_where_one_leaves():
    assert spans("{sliding: {size: 10m}}", "12:00", "12:04", "12:20") == [
        ("11:50", "12:00", 1),
        ("11:54", "12:04", 2),
        ("12:00", "12:10", 1),  # the row of 12:00 has left
        ("12:10", "12:20", 1),  # nothing at 12:14, where the last row left
    ]


def test_equal_times_give_one_sliding_window():
    assert spans("{sliding: {size: 10m}}", "12:00", "12:00") == [("11:50", "12:00", 2)]


def test_sliding_windows_are_formed_group_by_group():
    two = [event("18:00", 0, device="a", at=at("12:00")), event("18:00", 1, device="b", at=at("12:05"))]
    assert counts(run(windowed("{sliding: {size: 10m}}", "[device]"), two), "device", "n") == [
        ("11:50", "12:00", "a", 1),
        ("11:55", "12:05", "b", 1),
    ]


SESSION = "{session: {timeout: 5m, max_duration: 1h}}"


def test_a_row_exactly_a_timeout_later_extends_the_session():
    assert spans(SESSION, "12:01", "12:06") == [("12:01", "12:11", 2)]


def test_a_row_a_microsecond_after_the_timeout_opens_a_session():
    assert spans(SESSION, "12:01", "12:06:00.000001") == [
        ("12:01", "12:06", 1),
        ("12:06:00.000001", "12:11:00.000001", 1),
    ]


def test_a_session_closes_at_the_first_check_point_a_full_duration_after_it_opened():
    every_four = [f"12:{minute:02}" for minute in range(3, 35, 4)]  # 12:03, 12:07 ... 12:31
    found = spans("{session: {timeout: 5m, max_duration: 10m}}", *every_four)
    # opened 12:03: 12:10 is too soon, 12:20 closes; opened 12:20: 12:30 closes; opened 12:30: the timeout comes first
    assert found == [("12:03", "12:20", 5), ("12:23", "12:30", 2), ("12:31", "12:36", 1)]


def test_a_row_exactly_on_the_closing_check_point_is_inside():
    found = spans("{session: {timeout: 9m, max_duration: 10m}}", "12:03", "12:12", "12:20", "12:21")
    assert found == [("12:03", "12:20", 3), ("12:21", "12:30", 1)]


def test_a_session_that_opens_on_a_check_point_may_close_at_the_next():
    found = spans("{session: {timeout: 9m, max_duration: 10m}}", "12:10", "12:19", "12:21")
    assert found == [("12:10", "12:20", 2), ("12:21", "12:30", 1)]


def test_a_chain_that_never_pauses_closes_at_every_check_point_after_the_first_close():
    seconds = [
        event("18:00", n, device="a", at=at("12:00") + second * 1_000_000) for n, second in enumerate(range(3, 80, 2))
    ]
    outcome = run(windowed("{session: {timeout: 5s, max_duration: 10s}}"), seconds)
    ends = [clock(row.window_end_us) for row in outcome.windows]
    assert ends == ["12:00:20", "12:00:30", "12:00:40", "12:00:50", "12:01", "12:01:10", "12:01:20"]


def test_a_session_opens_at_the_check_point_that_closed_the_one_before_while_its_timeout_runs():
    window = "{session: {timeout: 5m, max_duration: 10m}}"
    before = ["12:01", "12:05", "12:09", "12:13", "12:17"]
    # 12:22 is a timeout after 12:17: opened at 12:20, so 12:30 closes; a microsecond later 12:30 is too soon
    assert spans(window, *before, "12:22", "12:26", "12:30", "12:31") == [
        ("12:01", "12:20", 5),
        ("12:22", "12:30", 3),
        ("12:31", "12:36", 1),
    ]
    assert spans(window, *before, "12:22:00.000001", "12:26", "12:30", "12:31") == [
        ("12:01", "12:20", 5),
        ("12:22:00.000001", "12:36", 4),
    ]


def test_a_session_that_opened_at_a_check_point_long_before_its_first_row_closes_at_the_first_one_after_it():
    found = spans("{session: {timeout: 35m, max_duration: 10m}}", "12:05", "12:15", "12:41", "12:50", "12:51")
    assert found == [("12:05", "12:20", 2), ("12:41", "12:50", 2), ("12:51", "13:00", 1)]


def test_a_session_whose_only_row_lies_on_its_closing_check_point_begins_where_it_ends():
    assert spans("{session: {timeout: 25m, max_duration: 10m}}", "12:05", "12:30") == [
        ("12:05", "12:20", 1),
        ("12:30", "12:30", 1),
    ]


def test_align_to_moves_the_check_points():
    found = spans(
        "{session: {timeout: 9m, max_duration: 10m, align_to: 2026-01-01T00:05:00Z}}",
        "12:03",
        "12:12",
        "12:15",
        "12:16",
    )
    assert found == [("12:03", "12:15", 3), ("12:16", "12:25", 1)]


def test_sessions_are_one_chain_unless_partitioned_and_grouped_inside():
    two = [
        event("18:00", 0, device="a", at=at("12:00")),
        event("18:00", 1, device="b", at=at("12:04")),
        event("18:00", 2, device="a", at=at("12:08")),
    ]
    one_chain = run(windowed(SESSION, "[device]"), two)
    assert counts(one_chain, "device", "n") == [("12:00", "12:13", "a", 2), ("12:00", "12:13", "b", 1)]
    chains = run(windowed(SESSION.replace("1h", "1h, partition_by: [device]"), "[device]"), two)
    assert counts(chains, "device", "n") == [
        ("12:00", "12:05", "a", 1),
        ("12:04", "12:09", "b", 1),
        ("12:08", "12:13", "a", 1),
    ]


def test_a_snapshot_groups_rows_of_equal_time():
    assert spans("{snapshot: {}}", "12:01", "12:01", "12:02") == [("12:01", "12:01", 2), ("12:02", "12:02", 1)]


def test_any_of_is_the_union_of_its_windows_each_row_with_its_id():
    both = windowed("{any_of: {short: {tumbling: {size: 5m}}, long: {hopping: {size: 10m, hop: 10m}}}}")
    found = [
        (row.window_id, clock(row.window_end_us), row.values["n"]) for row in run(both, log("12:01", "12:07")).windows
    ]
    assert found == [("short", "12:05", 1), ("long", "12:10", 2), ("short", "12:10", 1)]


def test_null_is_a_group_of_its_own():
    two = [event("18:00", 0, device=None, at=at("12:01")), event("18:00", 1, device="a", at=at("12:01"))]
    assert counts(run(windowed("{tumbling: {size: 5m}}", "[device]"), two), "device", "n") == [
        ("12:00", "12:05", None, 1),
        ("12:00", "12:05", "a", 1),
    ]


def test_first_last_and_collect_follow_the_system_timestamp_then_arrival():
    three = [
        event("18:00", 0, device="x", at=at("12:02")),
        event("18:00", 1, device=None, at=at("12:01")),
        event("18:00", 2, device="z", at=at("12:02")),
    ]
    ordered = windowed(
        "{tumbling: {size: 5m}}", aggregates='{f: "first(device)", l: "last(device)", c: "collect(device)"}'
    )
    assert run(ordered, three).windows[0].values == {"f": None, "l": "z", "c": ["x", "z"]}


JOINED = """
profile: stream_analytics
inputs:
  ins: {{columns: "plate STRING, at TIMESTAMP", timestamp_by: at}}
  outs: {{columns: "plate STRING, at TIMESTAMP, toll INT", timestamp_by: at}}
ordering: {{late_arrival: unbounded, early_arrival: off, out_of_order: 9m}}
query:
  join: {{left: ins, right: outs, on: [plate], within: {{unit: minute, from: {low}, to: {high}}}, kind: {kind}}}
  group_by: [ins.plate]
  window: {{snapshot: {{}}}}
  aggregates: {{n: "count(*)", tolls: "collect(outs.toll)"}}
"""


def joined(ins, outs, kind="inner", low=0, high=10):
    left = [event("18:00", n, input="ins", plate=plate, at=at(time)) for n, (plate, time) in enumerate(ins)]
    right = [
        event("18:00", n, 1, input="outs", plate=plate, at=at(time), toll=n) for n, (plate, time) in enumerate(outs)
    ]
    found = run(job(JOINED.format(kind=kind, low=low, high=high)), left + right).windows
    return [(clock(row.window_end_us), row.values["ins_plate"], row.values["tolls"]) for row in found]


@pytest.mark.parametrize(
    ("left", "right", "matches"),
    [
        ("12:00:00", "12:10:59.999999", 1),  # ten boundaries, almost eleven minutes
        ("12:00:59.999999", "12:11:00", 0),  # eleven boundaries, ten minutes
        ("12:00:59", "12:00:00", 1),  # no boundary, and the right one came before
        ("12:01:00", "12:00:59", 0),
    ],
)
def test_datediff_counts_boundaries_and_not_elapsed_time(left, right, matches):
    assert len(joined([("p", left)], [("p", right)])) == matches


def test_a_pair_counts_at_the_later_of_its_times():
    assert joined([("p", "12:00")], [("p", "12:04")]) == [("12:04", "p", [0])]
    assert joined([("p", "12:04")], [("p", "12:00")], low=-5) == [("12:04", "p", [0])]


def test_every_match_makes_a_pair_and_null_keys_match_nothing():
    assert joined([("p", "12:00"), (None, "12:00")], [("p", "12:01"), ("p", "12:02"), (None, "12:01")]) == [
        ("12:01", "p", [0]),
        ("12:02", "p", [1]),
    ]


def test_a_left_row_without_a_match_counts_when_one_was_last_possible():
    assert joined([("p", "12:00:30")], [("q", "12:01")], kind="left", low=-2) == [("12:10:30", "p", [])]
    assert joined([("p", "12:00:30")], [], kind="left", low=-9, high=-2) == [("12:00:30", "p", [])]


def test_a_left_row_with_a_match_has_no_row_without():
    assert joined([("p", "12:00")], [("p", "12:01")], kind="left") == [("12:01", "p", [0])]


def test_a_union_orders_each_input_by_its_own_policy():
    union = job(
        """
profile: stream_analytics
inputs:
  north: {columns: "at TIMESTAMP", timestamp_by: at}
  south: {columns: "at TIMESTAMP", timestamp_by: at}
ordering: {north: {late_arrival: 1m}, south: {late_arrival: 1h, action: drop}}
query: {union: [north, south], window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}
"""
    )
    rows = [event("12:20", 0, input="north", at=at("12:01")), event("12:20", 0, input="south", at=at("12:01"))]
    assert counts(run(union, rows), "n") == [("12:00", "12:05", 1), ("12:15", "12:20", 1)]


def test_the_output_range_cuts_decisions_by_arrival_and_windows_by_end():
    from pipelines.core.model import OutputRange

    rows = [event(time, n, device="a", at=at(time)) for n, time in enumerate(["12:05", "12:06", "12:10", "12:11"])]
    outcome = run(windowed("{tumbling: {size: 5m}}"), rows, OutputRange(at("12:06"), at("12:15")))
    assert [decision.sequence for decision in outcome.decisions] == [1, 2, 3]
    assert [clock(row.window_end_us) for row in outcome.windows] == ["12:10"]


def test_pairs_of_equal_time_come_in_the_order_in_which_the_later_event_arrived():
    rows = [
        event("17:00", 0, 1, input="outs", plate="p", at=at("12:05"), toll=1),
        event("17:01", 0, 2, input="outs", plate="p", at=at("12:05"), toll=2),
        event("17:02", 0, input="ins", plate="p", at=at("12:00")),
        event("17:03", 1, input="ins", plate="p", at=at("12:01")),
        event("17:04", 1, 1, input="outs", plate="p", at=at("12:05"), toll=3),
    ]
    body = JOINED.format(kind="inner", low=0, high=10)
    (row,) = run(job(body), rows).windows
    assert row.values["tolls"] == [1, 2, 1, 2, 3, 3]
