"""The documented tables of Azure Stream Analytics, event by event, and the bounds next to them."""

from __future__ import annotations

import pytest
from reference_logs import at, clock, counts, event, job, ruling, run

S1 = [
    ("device1", "12:07", "12:07"),
    ("device2", "12:08", "12:08"),
    ("device1", "12:17", "12:11"),
    ("device3", "12:08", "12:13"),
    ("device1", "12:19", "12:16"),
    ("device3", "12:12", "12:17"),
    ("device2", "12:17", "12:18"),
    ("device2", "12:20", "12:19"),
    ("device3", "12:16", "12:21"),
    ("device2", "12:23", "12:22"),
    ("device2", "12:22", "12:24"),
    ("device3", "12:21", "12:27"),
]
S1_LOG = [event(arrival, n, device=device, at=at(time)) for n, (device, time, arrival) in enumerate(S1)]


def s1_job(early="5m", action="adjust", over="", group="[device]", end="flush", window="{tumbling: {size: 5m}}"):
    return job(
        f"""
profile: stream_analytics
inputs: {{events: {{columns: "device STRING, at TIMESTAMP", timestamp_by: at{over}}}}}
ordering: {{early_arrival: {early}, late_arrival: 5m, out_of_order: 2m, action: {action}}}
query: {{from: events, group_by: {group}, window: {window}, aggregates: {{n: "count(*)"}}}}
end_of_log: {end}
"""
    )


S1_I1 = [
    "accepted - 12:07",
    "accepted - 12:08",
    "dropped early None",
    "accepted - 12:08",
    "accepted - 12:19",
    "adjusted out_of_order 12:17",
    "accepted - 12:17",
    "accepted - 12:20",
    "adjusted out_of_order 12:18",
    "accepted - 12:23",
    "accepted - 12:22",
    "adjusted late 12:22",
]
S1_I2 = [
    "accepted - 12:07",
    "accepted - 12:08",
    "accepted - 12:17",
    "adjusted out_of_order 12:15",
    "accepted - 12:19",
    "adjusted out_of_order 12:17",
    "accepted - 12:17",
    "accepted - 12:20",
    "adjusted out_of_order 12:18",
    "accepted - 12:23",
    "accepted - 12:22",
    "adjusted late 12:22",
]
S1_I3 = [
    "accepted - 12:07",
    "accepted - 12:08",
    "dropped early None",
    "accepted - 12:08",
    "accepted - 12:19",
    "accepted - 12:12",
    "accepted - 12:17",
    "accepted - 12:20",
    "accepted - 12:16",
    "accepted - 12:23",
    "accepted - 12:22",
    "adjusted late 12:22",
]
S1_COUNTS = {
    "I1": {"12:10": (1, 1, 1), "12:20": (1, 2, 2), "12:25": (0, 2, 1)},
    "I2": {"12:10": (1, 1, 0), "12:15": (0, 0, 1), "12:20": (2, 2, 2), "12:25": (0, 2, 1)},
    "I3": {"12:10": (1, 1, 1), "12:15": (0, 0, 1), "12:20": (1, 2, 1), "12:25": (0, 2, 1)},
    "I1-Drop": {"12:10": (1, 1, 1), "12:20": (1, 2, 0), "12:25": (0, 2, 0)},
    "I3-Drop": {"12:10": (1, 1, 1), "12:15": (0, 0, 1), "12:20": (1, 2, 1), "12:25": (0, 2, 0)},
}
S1_JOBS = {
    "I1": s1_job(),
    "I2": s1_job(early="off"),
    "I3": s1_job(over=", over: [device]"),
    "I1-Drop": s1_job(action="drop"),
    "I3-Drop": s1_job(action="drop", over=", over: [device]"),
}


def reported(decision):
    verdict, reasons, time = ruling(decision)
    return f"{verdict} {'+'.join(reasons) or '-'} {time}"


def dropped_instead(rows):
    return [f"dropped {row.split()[1]} None" if row.startswith("adjusted") else row for row in rows]


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("I1", S1_I1),
        ("I2", S1_I2),
        ("I3", S1_I3),
        ("I1-Drop", dropped_instead(S1_I1)),
        ("I3-Drop", dropped_instead(S1_I3)),
    ],
)
def test_the_twelve_events_of_the_documentation_get_the_documented_times(variant, expected):
    assert [reported(decision) for decision in run(S1_JOBS[variant], S1_LOG).decisions] == expected


@pytest.mark.parametrize("variant", S1_COUNTS)
def test_the_twelve_events_give_the_documented_five_minute_counts(variant):
    found = {}
    for row in run(S1_JOBS[variant], S1_LOG).windows:
        found.setdefault(clock(row.window_end_us), {})[row.values["device"]] = row.values["n"]
    expected = {
        end: {f"device{n}": count for n, count in enumerate(row, 1) if count} for end, row in S1_COUNTS[variant].items()
    }
    assert found == expected


def test_the_twelve_events_without_groups_give_one_row_a_window():
    assert counts(run(s1_job(group="[]"), S1_LOG), "n") == [
        ("12:05", "12:10", 3),
        ("12:15", "12:20", 5),
        ("12:20", "12:25", 3),
    ]


def test_the_watermark_column_is_the_larger_of_latest_time_and_arrival_bound_less_the_tolerance():
    decisions = run(S1_JOBS["I1"], S1_LOG).decisions
    assert [clock(decision.watermark_us) for decision in decisions] == [
        "12:00",  # nothing seen yet: arrival 12:07, less 5 min, less 2 min
        "12:05",
        "12:06",
        "12:06",  # the early event did not move it
        "12:09",  # arrival 12:16 - 5 min is later than 12:08, the latest time seen
        "12:17",
        "12:17",
        "12:17",
        "12:18",
        "12:18",
        "12:21",
        "12:21",
    ]


PLAIN = """
profile: stream_analytics
inputs: {{events: {{columns: "device STRING, at TIMESTAMP, fine BOOLEAN", timestamp_by: at{over}}}}}
ordering: {ordering}
query: {{from: events, group_by: {group}, window: {window}, {where}aggregates: {{n: "count(*)"}}}}
end_of_log: {end}
"""


def plain_job(ordering, window="{tumbling: {size: 5m}}", group="[]", where="", end="flush", over=""):
    return job(PLAIN.format(ordering=ordering, window=window, group=group, where=where, end=end, over=over))


def rows(*times, device="a", partition=0):
    """Rows of (event time, arrival time)."""
    return [
        event(arrival, n, partition, device=device, at=None if time is None else at(time), fine=True)
        for n, (time, arrival) in enumerate(times)
    ]


S3 = rows(
    ("00:00:00", "00:10:01"),
    ("00:00:01", "00:10:01"),
    ("00:10:00", "00:10:02"),
    ("00:09:00", "00:10:03"),
    ("00:06:00", "00:10:04"),
)
S4 = rows(
    ("00:10:00", "00:10:40"),
    ("00:10:30", "00:10:41"),
    ("00:10:42", "00:10:42"),
    ("00:10:38", "00:10:43"),
    ("00:10:35", "00:10:45"),
)


def test_the_example_with_ten_minutes_of_lateness_and_three_of_disorder():
    adjust = "{early_arrival: 5m, late_arrival: 10m, out_of_order: 3m, action: adjust}"
    decisions = run(plain_job(adjust), S3).decisions
    assert [reported(decision) for decision in decisions] == [
        "adjusted late 00:00:01",
        "accepted - 00:00:01",
        "accepted - 00:10",
        "accepted - 00:09",
        "adjusted out_of_order 00:07",
    ]
    dropped = run(plain_job(adjust.replace("adjust", "drop")), S3).decisions
    assert [decision.verdict for decision in dropped] == ["dropped", "accepted", "accepted", "accepted", "dropped"]


def test_the_example_with_fifteen_seconds_of_lateness_and_five_of_disorder():
    adjust = "{late_arrival: 15s, out_of_order: 5s, action: adjust}"
    decisions = run(plain_job(adjust), S4).decisions
    assert [reported(decision) for decision in decisions] == [
        "adjusted late 00:10:25",
        "accepted - 00:10:30",
        "accepted - 00:10:42",
        "accepted - 00:10:38",
        "adjusted out_of_order 00:10:37",
    ]
    assert [one.sequence + 1 for one in sorted(decisions, key=lambda one: one.system_timestamp_us)] == [1, 2, 5, 4, 3]
    dropped = run(plain_job(adjust.replace("adjust", "drop")), S4).decisions
    assert [decision.verdict for decision in dropped] == ["dropped", "accepted", "accepted", "accepted", "dropped"]


@pytest.mark.parametrize(
    ("time", "verdict"),
    [
        ("12:15", "accepted"),  # exactly five minutes ahead
        ("12:15:00.000001", "dropped"),
        ("12:05", "accepted"),  # exactly the late tolerance
        ("12:04:59.999999", "adjusted"),
    ],
)
def test_the_bounds_themselves_are_in_tolerance(time, verdict):
    ordering = "{early_arrival: 5m, late_arrival: 5m, out_of_order: 0s}"
    assert run(plain_job(ordering), rows((time, "12:10"))).decisions[0].verdict == verdict


@pytest.mark.parametrize(("time", "verdict"), [("12:08", "accepted"), ("12:07:59.999999", "adjusted")])
def test_an_event_at_the_watermark_is_in_order(time, verdict):
    ordering = "{late_arrival: 5m, out_of_order: 2m}"
    assert run(plain_job(ordering), rows(("12:10", "12:10"), (time, "12:10"))).decisions[1].verdict == verdict


def test_an_adjustment_names_every_test_that_moved_the_event_and_a_refusal_the_first():
    log = rows(("12:10", "12:10"), ("12:00", "12:11"))
    ordering = "{late_arrival: 5m, out_of_order: 1m, action: adjust}"
    assert reported(run(plain_job(ordering), log).decisions[1]) == "adjusted late+out_of_order 12:09"
    assert reported(run(plain_job(ordering.replace("adjust", "drop")), log).decisions[1]) == "dropped late None"


def test_an_early_event_is_dropped_under_adjust_and_moves_nothing():
    log = rows(("12:30", "12:10"), ("12:10", "12:11"))
    assert [reported(decision) for decision in run(plain_job("{late_arrival: 5m}"), log).decisions] == [
        "dropped early None",
        "accepted - 12:10",
    ]


def test_without_the_guard_a_far_future_event_moves_all_that_follow():
    log = rows(("12:30", "12:10"), ("12:10", "12:11"))
    decisions = run(plain_job("{early_arrival: off, late_arrival: 5m}"), log).decisions
    assert [reported(decision) for decision in decisions] == ["accepted - 12:30", "adjusted out_of_order 12:30"]


def test_unbounded_lateness_makes_nothing_late_and_has_no_watermark_before_the_first_event():
    log = rows(("09:00", "12:10"), ("11:00", "12:11"))
    decisions = run(plain_job("{late_arrival: unbounded}"), log).decisions
    assert [reported(decision) for decision in decisions] == ["accepted - 09:00", "accepted - 11:00"]
    assert [clock(decision.watermark_us) for decision in decisions] == [None, "09:00"]


def test_an_event_without_a_time_is_refused_and_has_no_watermark():
    decisions = run(plain_job("{late_arrival: 5m}"), rows((None, "12:10"), ("12:10", "12:10"))).decisions
    assert [reported(decision) for decision in decisions] == ["dropped invalid_time None", "accepted - 12:10"]
    assert (decisions[0].event_time_us, decisions[0].watermark_us) == (None, None)


def test_an_event_without_its_key_is_refused_after_its_time_was_looked_at():
    keyed = plain_job("{late_arrival: 5m}", over=", over: [device]")
    no_key = event("12:10", 0, device=None, at=at("12:10"), fine=True)
    neither = event("12:10", 1, device=None, at=None, fine=True)
    decisions = run(keyed, [no_key, neither]).decisions
    assert [decision.reasons for decision in decisions] == [("invalid_key",), ("invalid_time",)]
    assert (clock(decisions[0].event_time_us), decisions[0].watermark_us) == ("12:10", None)


def test_each_input_partition_is_a_timeline_of_its_own():
    log = rows(("12:10", "12:10"), partition=0) + rows(("12:06", "12:10"), partition=1)
    decisions = run(plain_job("{late_arrival: 5m}"), log).decisions
    assert [reported(decision) for decision in decisions] == ["accepted - 12:10", "accepted - 12:06"]


def test_the_same_key_in_two_partitions_is_two_timelines():
    keyed = plain_job("{late_arrival: 5m}", over=", over: [device]")
    log = rows(("12:10", "12:10"), partition=0) + rows(("12:06", "12:10"), partition=1)
    assert [decision.verdict for decision in run(keyed, log).decisions] == ["accepted", "accepted"]


def test_without_timestamp_by_an_event_counts_when_it_arrives_and_no_policy_applies():
    by_arrival = job(
        """
profile: stream_analytics
inputs: {events: {columns: "device STRING"}}
ordering: {late_arrival: 0s, out_of_order: 0s, action: drop}
query: {from: events, window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}
"""
    )
    outcome = run(by_arrival, [event("12:05", 0, device="a"), event("12:05:00.000001", 1, device="a")])
    assert [reported(decision) for decision in outcome.decisions] == ["accepted - 12:05", "accepted - 12:05:00.000001"]
    assert [decision.watermark_us for decision in outcome.decisions] == [None, None]
    assert counts(outcome, "n") == [("12:00", "12:05", 1), ("12:05", "12:10", 1)]


def test_where_acts_after_ordering_and_null_does_not_pass():
    log = [
        event("12:01", 0, device="a", at=at("12:01"), fine=True),
        event("12:04", 1, device="a", at=at("12:04"), fine=False),
        event("12:04", 2, device="a", at=at("12:03"), fine=True),
        event("12:04", 3, device="a", at=at("12:04"), fine=None),
    ]
    outcome = run(plain_job("{late_arrival: 5m}", where="where: fine, "), log)
    assert [reported(one) for one in outcome.decisions][1:3] == ["accepted - 12:04", "adjusted out_of_order 12:04"]
    assert counts(outcome, "n") == [("12:00", "12:05", 2)]


# -- hold -------------------------------------------------------------------------------------------------------------


def test_hold_emits_windows_that_end_strictly_before_the_watermark():
    under_hold = plain_job("{late_arrival: 5m, out_of_order: 1m}", end="hold")
    assert run(under_hold, rows(("12:01", "12:01"), ("12:06", "12:06"))).windows == ()
    assert len(run(under_hold, rows(("12:01", "12:01"), ("12:06:00.000001", "12:07"))).windows) == 1


def test_hold_waits_for_the_slowest_partition():
    under_hold = plain_job("{late_arrival: 5m}", end="hold")
    fast = rows(("12:01", "12:01"), ("12:30", "12:30"), partition=0)
    assert len(run(under_hold, fast).windows) == 1
    assert run(under_hold, fast + rows(("12:04", "12:06"), partition=1)).windows == ()
    assert run(under_hold, fast + rows((None, "12:06"), partition=1)).windows == ()


def test_hold_with_substreams_lets_each_go_ahead_alone():
    under_hold = plain_job("{late_arrival: 5m}", group="[device]", end="hold", over=", over: [device]")
    log = [
        event("12:01", 0, device="a", at=at("12:01"), fine=True),
        event("12:02", 1, device="b", at=at("12:02"), fine=True),
        event("12:07", 2, device="a", at=at("12:07"), fine=True),
    ]
    assert [row.values["device"] for row in run(under_hold, log).windows] == ["a"]


def test_hold_without_timestamp_by_waits_for_arrivals_and_no_tolerance():
    under_hold = job(
        """
profile: stream_analytics
inputs: {events: {columns: "device STRING"}}
ordering: {out_of_order: 9m}
query: {from: events, window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}
end_of_log: hold
"""
    )
    assert run(under_hold, [event("12:04", 0, device="a"), event("12:05", 1, device="a")]).windows == ()
    later = [event("12:04", 0, device="a"), event("12:05:00.000001", 1, device="a")]
    assert counts(run(under_hold, later), "n") == [("12:00", "12:05", 1)]
