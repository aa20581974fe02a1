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


def told(fate):
    verdict, reasons, time = ruling(fate)
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
    assert [told(fate) for fate in run(S1_JOBS[variant], S1_LOG).fates] == expected


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
    fates = run(S1_JOBS["I1"], S1_LOG).fates
    assert [clock(fate.watermark_us) for fate in fates] == [
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
