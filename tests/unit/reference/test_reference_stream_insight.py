"""StreamInsight's application time: when CTIs are issued, what they refuse or clip, and windows over lifetimes."""

from __future__ import annotations

import pytest
from reference_logs import at, clock, event, job, punctuation, ruling, run

from pipelines.core.model import Arrival


def si_job(
    ordering,
    shape="point",
    window="{tumbling: {size: 10us}}",
    end="flush",
    group="[]",
    where="",
    columns="id STRING, at TIMESTAMP, ends TIMESTAMP, edge STRING, fine BOOLEAN",
):
    said = {"point": "", "interval": ", end_by: ends", "edge": ", end_by: ends, edge_by: edge, match_on: [id]"}[shape]
    return job(
        f"""
profile: stream_insight
inputs: {{events: {{columns: "{columns}", timestamp_by: at, shape: {shape}{said}}}}}
ordering: {ordering}
query: {{from: events, group_by: {group}, window: {window}, {where}aggregates: {{n: "count(*)", ids: "collect(id)"}}}}
end_of_log: {end}
"""
    )


def item(n, start, ends=None, edge=None, id=None, fine=True):
    """An item with times in plain microseconds since the epoch; it arrives ``n`` minutes past noon."""
    return event(f"12:{n:02}", n, id=id or f"e{n + 1}", at=start, ends=ends, edge=edge, fine=fine)


def cti(n, time):
    return Arrival("events", 0, n, at(f"12:{n:02}"), {}, time, "cti")


def points(*starts):
    return [item(n, start) for n, start in enumerate(starts)]


def verdicts_of(outcome):
    """Per event: verdict, first reason or -, lifetime."""
    return [
        (decision.verdict, "+".join(decision.reasons) or "-", decision.system_timestamp_us, decision.lifetime_end_us)
        for decision in outcome.decisions
    ]


def test_si_01_one_cti_an_event_with_no_delay_leaves_the_newest_point_unreleased():
    settings = "{advance: {every: 1}, delay: 0s, action: drop}"
    outcome = run(si_job(settings), points(10, 20, 30))
    assert verdicts_of(outcome) == [
        ("accepted", "-", 10, 11),
        ("accepted", "-", 20, 21),
        ("accepted", "-", 30, 31),
    ]
    assert [decision.watermark_us for decision in outcome.decisions] == [None, 10, 20]


def test_si_01_holds_what_the_last_cti_has_not_passed():
    settings = "{advance: {every: 1}, delay: 0s, action: drop}"
    snapshots = si_job(settings, window="{snapshot: {}}", end="hold")
    assert [row.window_start_us for row in run(snapshots, points(10, 20, 30)).windows] == [10, 20]


def test_si_02_a_delay_of_minus_one_releases_every_point_at_once():
    settings = "{advance: {every: 1}, delay: -1us, action: drop}"
    outcome = run(si_job(settings, window="{snapshot: {}}", end="hold"), points(10, 20, 30))
    assert [decision.watermark_us for decision in outcome.decisions] == [None, 11, 21]
    assert [row.window_start_us for row in outcome.windows] == [10, 20, 30]


def test_si_03_ten_events_a_cti_and_a_delay_of_five():
    settings = "{advance: {every: 10}, delay: 5us, action: drop}"
    outcome = run(si_job(settings), points(100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 104, 103, 112))
    assert [decision.watermark_us for decision in outcome.decisions] == [None] * 10 + [104] * 3
    assert verdicts_of(outcome)[10:] == [
        ("accepted", "-", 104, 105),
        ("dropped", "before_current_time", None, None),
        ("accepted", "-", 112, 113),
    ]


@pytest.mark.parametrize(
    ("advance", "second", "verdict"),
    [
        ("increasing_start_time", 20, "accepted"),
        ("increasing_start_time", 19, "dropped"),
        ("strictly_increasing_start_time", 21, "accepted"),
        ("strictly_increasing_start_time", 20, "dropped"),
        ("{unordered_start_time: 5us}", 15, "accepted"),
        ("{unordered_start_time: 5us}", 14, "dropped"),
    ],
)
def test_the_helpers_tolerate_exactly_what_they_say(advance, second, verdict):
    decisions = run(si_job(f"{{advance: {advance}}}"), points(20, second)).decisions
    assert decisions[1].verdict == verdict


def test_a_dropped_event_counts_towards_the_next_cti():
    settings = "{advance: {every: 2}, delay: 0s, action: drop}"
    outcome = run(si_job(settings), points(10, 20, 15, 30, 25))
    # the CTI of the fourth event received is 30, though the third was dropped
    assert [one.verdict for one in outcome.decisions] == ["accepted", "accepted", "dropped", "accepted", "dropped"]


def test_a_cti_is_stamped_by_the_last_event_received_and_never_goes_back():
    settings = "{advance: {every: 1}, delay: 0s, action: drop}"
    outcome = run(si_job(settings), points(30, 10, 20, 30))
    assert [decision.watermark_us for decision in outcome.decisions] == [None, 30, 30, 30]


@pytest.mark.parametrize(("third", "watermark"), [(19, 10), (20, 20)])
def test_an_application_time_period_is_over_when_it_has_passed_since_the_event_that_ended_the_last(third, watermark):
    settings = "{advance: {every: 10us}, delay: 0s, action: drop}"
    outcome = run(si_job(settings), points(10, 15, third, 40))
    assert [decision.watermark_us for decision in outcome.decisions] == [None, 10, 10, watermark]


def test_an_enqueued_cti_refuses_what_starts_before_it_and_takes_what_starts_at_it():
    outcome = run(si_job("{action: drop}"), [item(0, 10), cti(1, 20), item(2, 20), item(3, 19)])
    assert [decision.verdict for decision in outcome.decisions] == ["accepted", "accepted", "dropped"]
    assert [decision.watermark_us for decision in outcome.decisions] == [None, 20, 20]


@pytest.mark.parametrize(
    ("action", "end", "expected"),
    [
        ("adjust", 31, ("adjusted", "before_current_time", 20, 31)),
        ("adjust", 21, ("adjusted", "before_current_time", 20, 21)),
        ("adjust", 20, ("dropped", "before_current_time", None, None)),
        ("adjust", 19, ("dropped", "before_current_time", None, None)),
        ("drop", 31, ("dropped", "before_current_time", None, None)),
    ],
)
def test_a_late_interval_is_clipped_only_where_something_of_it_is_left(action, end, expected):
    outcome = run(si_job(f"{{action: {action}}}", "interval"), [cti(0, 20), item(1, 15, end)])
    assert verdicts_of(outcome) == [expected]


def test_a_late_point_is_dropped_even_under_adjust():
    assert verdicts_of(run(si_job("{action: adjust}"), [cti(0, 20), item(1, 19)]))[0][0] == "dropped"


@pytest.mark.parametrize("end", [15, 14, None])
def test_an_interval_that_does_not_end_after_its_start_is_invalid(end):
    outcome = run(si_job("{action: adjust}", "interval"), [cti(0, 10), item(1, 15, end)])
    assert verdicts_of(outcome) == [("dropped", "invalid_time", None, None)]
    assert outcome.decisions[0].watermark_us is None


def edge_log(*rows):
    """Rows of ("s", id, start), ("e", id, start, end) and ("c", time)."""
    found = []
    for n, row in enumerate(rows):
        if row[0] == "c":
            found.append(cti(n, row[1]))
        elif row[0] == "s":
            found.append(item(n, row[2], edge="start", id=row[1]))
        else:
            found.append(item(n, row[2], row[3], "end", id=row[1]))
    return found


def edges(action, *rows, **settings):
    return run(si_job(f"{{action: {action}}}", "edge", **settings), edge_log(*rows))


def test_an_end_edge_ends_its_start_edge_and_carries_its_end():
    assert verdicts_of(edges("drop", ("s", "a", 10), ("e", "a", 10, 30))) == [
        ("accepted", "-", 10, 30),
        ("accepted", "-", 30, None),
    ]


def test_a_start_edge_without_an_end_stays_open():
    assert verdicts_of(edges("drop", ("s", "a", 10))) == [("accepted", "-", 10, None)]


def test_an_end_edge_is_judged_by_its_end_alone():
    assert verdicts_of(edges("drop", ("s", "a", 10), ("c", 20), ("e", "a", 10, 20)))[1][0] == "accepted"
    assert verdicts_of(edges("drop", ("s", "a", 10), ("c", 20), ("e", "a", 10, 19)))[1] == (
        "dropped",
        "before_current_time",
        None,
        None,
    )


def test_a_late_end_edge_is_dropped_under_adjust_too_and_its_start_stays_open():
    assert verdicts_of(edges("adjust", ("s", "a", 10), ("c", 20), ("e", "a", 10, 19))) == [
        ("accepted", "-", 10, None),
        ("dropped", "before_current_time", None, None),
    ]


def test_an_end_edge_whose_start_was_dropped_is_an_orphan():
    assert [row[:2] for row in verdicts_of(edges("drop", ("c", 20), ("s", "a", 10), ("e", "a", 10, 30)))] == [
        ("dropped", "before_current_time"),
        ("dropped", "orphan_end"),
    ]


def test_a_late_end_edge_whose_start_is_gone_is_both():
    assert verdicts_of(edges("drop", ("c", 20), ("e", "a", 10, 15)))[0][1] == "before_current_time+orphan_end"


def test_a_second_end_edge_is_an_orphan():
    assert verdicts_of(edges("drop", ("s", "a", 10), ("e", "a", 10, 30), ("e", "a", 10, 40))) == [
        ("accepted", "-", 10, 30),
        ("accepted", "-", 30, None),
        ("dropped", "orphan_end", None, None),
    ]


def test_an_end_edge_finds_a_start_edge_that_was_moved():
    assert verdicts_of(edges("adjust", ("c", 20), ("s", "a", 10), ("e", "a", 10, 30))) == [
        ("adjusted", "before_current_time", 20, 30),
        ("accepted", "-", 30, None),
    ]


def test_an_end_equal_to_the_moved_start_cancels_both():
    assert [row[:2] for row in verdicts_of(edges("adjust", ("c", 20), ("s", "a", 10), ("e", "a", 10, 20)))] == [
        ("dropped", "cancelled"),
        ("dropped", "cancelled"),
    ]


def test_an_end_equal_to_its_start_cancels_both_and_neither_counts():
    outcome = edges("drop", ("s", "a", 10), ("e", "a", 10, 10))
    assert [row[:2] for row in verdicts_of(outcome)] == [("dropped", "cancelled"), ("dropped", "cancelled")]
    assert outcome.windows == ()


def test_equal_start_edges_are_ended_in_order_of_arrival():
    assert verdicts_of(edges("drop", ("s", "a", 10), ("s", "a", 10), ("e", "a", 10, 30), ("e", "a", 10, 40)))[:2] == [
        ("accepted", "-", 10, 30),
        ("accepted", "-", 10, 40),
    ]


def test_end_edges_issue_no_cti_and_do_not_count():
    settings = "{advance: {every: 2}, delay: 0s, action: drop}"
    rows = edge_log(("s", "a", 10), ("e", "a", 10, 15), ("s", "b", 20), ("s", "c", 30))
    assert [one.watermark_us for one in run(si_job(settings, "edge"), rows).decisions] == [None, None, None, 20]


def test_an_unknown_kind_of_edge_is_invalid():
    assert verdicts_of(run(si_job("{action: drop}", "edge"), [item(0, 10, edge="begin")])) == [
        ("dropped", "invalid_time", None, None)
    ]


def test_edges_without_match_on_must_agree_in_every_other_column():
    loose = job(
        """
profile: stream_insight
inputs:
  events:
    columns: "id STRING, at TIMESTAMP, ends TIMESTAMP, edge STRING, fine BOOLEAN"
    timestamp_by: at
    shape: edge
    end_by: ends
    edge_by: edge
ordering: {action: drop}
query: {from: events, window: {snapshot: {}}, aggregates: {n: "count(*)"}}
"""
    )
    start = item(0, 10, edge="start", id="a")
    assert run(loose, [start, item(1, 10, 30, "end", id="a")]).decisions[1].reasons == ()
    assert run(loose, [start, item(1, 10, 30, "end", id="a", fine=False)]).decisions[1].reasons == ("orphan_end",)


def test_an_interval_is_in_every_window_that_it_overlaps_and_not_in_the_one_that_starts_at_its_end():
    outcome = run(si_job("{action: drop}", "interval"), [item(0, 5, 20)])
    assert [(row.window_start_us, row.window_end_us) for row in outcome.windows] == [(0, 10), (10, 20)]


def test_hopping_windows_take_a_lifetime_once_each():
    outcome = run(si_job("{action: drop}", "interval", "{hopping: {size: 10us, hop: 5us}}"), [item(0, 7, 11)])
    assert [row.window_start_us for row in outcome.windows] == [0, 5, 10]


def test_the_grid_of_days_begins_at_midnight_and_that_of_weeks_on_a_monday():
    weekly = si_job("{action: drop}", window="{tumbling: {size: 7d}}")
    outcome = run(weekly, [event("12:00", 0, id="a", at=at("2026-01-01T12:00"), ends=None, edge=None, fine=True)])
    assert [clock(row.window_start_us) for row in outcome.windows] == ["2025-12-29T00:00"]


def test_snapshots_lie_between_neighbouring_endpoints():
    outcome = run(
        si_job("{action: drop}", "interval", "{snapshot: {}}"), [item(0, 10, 30), item(1, 20, 40), item(2, 50, 60)]
    )
    assert [(row.window_start_us, row.window_end_us, row.values["ids"]) for row in outcome.windows] == [
        (10, 20, ["e1"]),
        (20, 30, ["e1", "e2"]),
        (30, 40, ["e2"]),
        (50, 60, ["e3"]),
    ]


def test_a_snapshot_that_never_ends_has_no_row():
    outcome = edges("drop", ("s", "a", 10), ("s", "b", 20), ("e", "b", 20, 30), window="{snapshot: {}}")
    assert [(row.window_start_us, row.window_end_us, row.values["n"]) for row in outcome.windows] == [
        (10, 20, 1),
        (20, 30, 2),
    ]


def test_an_open_edge_counts_up_to_the_window_that_holds_the_largest_endpoint_or_cti():
    rows = (("s", "a", 5), ("s", "b", 12), ("e", "b", 12, 25))
    assert [row.window_start_us for row in edges("drop", *rows).windows] == [0, 10, 20]
    assert [row.window_start_us for row in edges("drop", *rows, ("c", 30)).windows] == [0, 10, 20, 30]
    assert [row.window_start_us for row in edges("drop", *rows, ("c", 30), end="hold").windows] == [0, 10, 20]
    assert [row.window_start_us for row in edges("drop", *rows, ("c", 29), end="hold").windows] == [0, 10]


def test_hold_without_any_cti_emits_nothing():
    assert run(si_job("{action: drop}", end="hold"), points(10, 20)).windows == ()


def test_count_windows_run_over_distinct_starts_and_hold_every_event_that_overlaps():
    outcome = run(si_job("{action: drop}", window="{count: {n: 2}}"), points(10, 10, 20, 35))
    assert [(row.window_start_us, row.window_end_us, row.values["n"]) for row in outcome.windows] == [
        (10, 21, 3),
        (20, 36, 2),
    ]


def test_count_windows_need_as_many_starts():
    assert run(si_job("{action: drop}", window="{count: {n: 3}}"), points(10, 10, 20)).windows == ()


def test_where_acts_after_ordering():
    settings = "{advance: {every: 1}, delay: 0s, action: drop}"
    outcome = run(si_job(settings, where="where: fine, "), [item(0, 10), item(1, 20, fine=False), item(2, 15)])
    assert [decision.verdict for decision in outcome.decisions] == ["accepted", "accepted", "dropped"]
    assert [row.values["n"] for row in outcome.windows] == [1]


IMPORTING = """
profile: stream_insight
inputs:
  events: {columns: "id STRING, at TIMESTAMP", timestamp_by: at}
  clock: {columns: "id STRING, at TIMESTAMP", timestamp_by: at}
ordering:
  events: {import_from: clock, action: drop}
  clock: {advance: {every: 1}, action: drop}
query: {from: events, window: {snapshot: {}}, aggregates: {n: "count(*)"}}
"""


def both(*rows):
    """Rows of (input, arrival, start)."""
    return [event(arrival, n, input=name, id="a", at=start) for n, (name, arrival, start) in enumerate(rows)]


def test_an_imported_cti_refuses_own_items_that_lie_before_it():
    rows = both(("events", "12:00", 10), ("clock", "12:01", 20), ("events", "12:02", 19), ("events", "12:03", 20))
    decisions = {decision.sequence: decision for decision in run(job(IMPORTING), rows).decisions}
    assert ruling(decisions[2]) == ("dropped", ("before_current_time",), None)
    assert (decisions[3].verdict, decisions[3].watermark_us) == ("accepted", 20)


@pytest.mark.parametrize(("sequence", "verdict"), [(6, "accepted"), (7, "dropped"), (8, "dropped")])
def test_an_imported_cti_stands_before_the_own_item_of_the_same_place_in_the_arrival_order(sequence, verdict):
    rows = [
        event("12:01", sequence, input="events", id="a", at=19),
        event("12:01", 7, input="clock", id="a", at=20),
    ]
    decisions = {decision.input: decision.verdict for decision in run(job(IMPORTING), rows).decisions}
    assert decisions == {"events": verdict, "clock": "accepted"}


def test_own_items_do_not_advance_an_input_that_only_imports():
    rows = both(("events", "12:00", 50), ("events", "12:01", 10))
    assert [decision.verdict for decision in run(job(IMPORTING), rows).decisions] == ["accepted", "accepted"]


def test_a_union_is_settled_up_to_its_slower_input():
    body = IMPORTING.replace(
        "events: {import_from: clock, action: drop}", "events: {advance: {every: 1}, action: drop}"
    )
    union = job(body.replace("from: events", "union: [events, clock]") + "end_of_log: hold\n")
    rows = both(("events", "12:00", 10), ("events", "12:01", 40), ("clock", "12:02", 15), ("clock", "12:03", 16))
    assert [row.window_end_us for row in run(union, rows).windows] == [11, 16]


def test_an_explicit_cti_for_all_partitions_acts_before_items_of_its_arrival_time():
    rows = [item(0, 10), punctuation("12:01", 0, "12:00", None), item(1, 20)]
    assert [decision.verdict for decision in run(si_job("{action: drop}"), rows).decisions] == ["accepted", "dropped"]
