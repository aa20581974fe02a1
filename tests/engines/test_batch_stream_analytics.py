"""Ordering of profile stream_analytics in the batch engine: worked tables, and bounds moved by a microsecond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from batch_log import verdicts, windows

from pipelines.core.errors import JobFileError, UsageError
from pipelines.core.model import Job, OutputRange
from pipelines.core.time import parse_instant
from pipelines.job.load import parse_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tiny_spark")]


def cars(
    ordering: str = "{late_arrival: 5m, out_of_order: 2m}",
    *,
    over: str = "[]",
    query: str = 'window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}',
    timestamp_by: str = "at",
    columns: str = "at TIMESTAMP, device STRING",
    end_of_log: str = "flush",
) -> Job:
    stamped = f"timestamp_by: {timestamp_by}, " if timestamp_by else ""
    return parse_job(
        f"""
tailrace: 1
job: example
profile: stream_analytics
inputs: {{cars: {{columns: "{columns}", {stamped}over: {over}}}}}
ordering: {ordering}
query: {{from: cars, {query}}}
end_of_log: {end_of_log}
"""
    )


def system(found: list[dict[str, Any]]) -> list[str | None]:
    return [row["system_timestamp"] for row in found]


def fates(found: list[dict[str, Any]]) -> list[str]:
    return [" ".join([row["verdict"], *row["reasons"]]) for row in found]


TWELVE = [
    {"device": f"device{device}", "at": at, "arrival": arrival}
    for device, at, arrival in [
        (1, "12:07", "12:07"),
        (2, "12:08", "12:08"),
        (1, "12:17", "12:11"),
        (3, "12:08", "12:13"),
        (1, "12:19", "12:16"),
        (3, "12:12", "12:17"),
        (2, "12:17", "12:18"),
        (2, "12:20", "12:19"),
        (3, "12:16", "12:21"),
        (2, "12:23", "12:22"),
        (2, "12:22", "12:24"),
        (3, "12:21", "12:27"),
    ]
]
ILLUSTRATION_1 = "12:07 12:08 - 12:08 12:19 12:17 12:17 12:20 12:18 12:23 12:22 12:22"
ILLUSTRATION_2 = "12:07 12:08 12:17 12:15 12:19 12:17 12:17 12:20 12:18 12:23 12:22 12:22"
ILLUSTRATION_3 = "12:07 12:08 - 12:08 12:19 12:12 12:17 12:20 12:16 12:23 12:22 12:22"


def texts(found: list[dict[str, Any]]) -> str:
    """The system timestamps of all events in one line; a dash for one that counts nowhere."""
    return " ".join(at or "-" for at in system(found))


def test_twelve_events_with_the_early_guard_count_where_the_documentation_says(spark: SparkSession) -> None:
    found = verdicts(spark, cars(), TWELVE)
    assert texts(found) == ILLUSTRATION_1
    ok = "accepted"
    expected = [ok, ok, "dropped early", ok, ok, "adjusted out_of_order", ok, ok, "adjusted out_of_order", ok, ok]
    assert fates(found) == [*expected, "adjusted late"]


def test_the_watermark_is_the_larger_of_event_and_arrival_bound_less_the_out_of_order_tolerance(
    spark: SparkSession,
) -> None:
    found = [row["watermark"] for row in verdicts(spark, cars(), TWELVE)]
    # the first has only its own arrival bound; the fifth arrives at 12:16, and 12:11 is above the 12:08 seen so far
    assert " ".join(found) == "12:00 12:05 12:06 12:06 12:09 12:17 12:17 12:17 12:18 12:18 12:21 12:21"


def test_twelve_events_without_the_early_guard_let_one_raise_the_watermark(spark: SparkSession) -> None:
    found = verdicts(spark, cars("{early_arrival: off, late_arrival: 5m, out_of_order: 2m}"), TWELVE)
    assert texts(found) == ILLUSTRATION_2


def test_twelve_events_over_the_device_have_a_watermark_each(spark: SparkSession) -> None:
    found = verdicts(spark, cars(over="[device]"), TWELVE)
    assert texts(found) == ILLUSTRATION_3
    assert found[5]["verdict"] == "accepted"
    assert found[11]["watermark"] == "12:20"


def test_drop_refuses_with_the_first_test_that_fails(spark: SparkSession) -> None:
    found = verdicts(spark, cars("{late_arrival: 5m, out_of_order: 2m, action: drop}"), TWELVE)
    refused = {row["sequence"] + 1: row["reasons"] for row in found if row["verdict"] == "dropped"}
    assert refused == {3: ["early"], 6: ["out_of_order"], 9: ["out_of_order"], 12: ["late"]}
    kept = [row for row in found if row["verdict"] == "accepted"]
    assert len(kept) == 8
    assert all(row["system_timestamp"] == row["event_time"] for row in kept)


@pytest.mark.parametrize(
    ("ordering", "over", "rows"),
    [
        ("", "[]", "12:10 3 1 1 1, 12:20 5 1 2 2, 12:25 3 0 2 1"),
        ("early_arrival: off, ", "[]", "12:10 2 1 1 0, 12:15 1 0 0 1, 12:20 6 2 2 2, 12:25 3 0 2 1"),
        ("", "[device]", "12:10 3 1 1 1, 12:15 1 0 0 1, 12:20 4 1 2 1, 12:25 3 0 2 1"),
        ("action: drop, ", "[]", "12:10 3 1 1 1, 12:20 3 1 2 0, 12:25 2 0 2 0"),
        ("action: drop, ", "[device]", "12:10 3 1 1 1, 12:15 1 0 0 1, 12:20 4 1 2 1, 12:25 2 0 2 0"),
    ],
)
def test_twelve_events_give_the_published_tumbling_counts(
    spark: SparkSession, ordering: str, over: str, rows: str
) -> None:
    query = 'group_by: [device], window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}'
    job = cars(f"{{{ordering}late_arrival: 5m, out_of_order: 2m}}", over=over, query=query)
    found = {(end, device): n for _, end, device, n in windows(spark, job, TWELVE)}
    expected = {}
    for row in rows.split(", "):
        end, total, *counts = row.split()
        assert int(total) == sum(map(int, counts))
        expected |= {(end, f"device{index}"): int(n) for index, n in enumerate(counts, 1) if int(n)}
    assert found == expected


FIVE = [
    {"at": f"00:{at}", "arrival": f"00:{arrival}"}
    for at, arrival in [
        ("00:00", "10:01"),
        ("00:01", "10:01"),
        ("10:00", "10:02"),
        ("09:00", "10:03"),
        ("06:00", "10:04"),
    ]
]


@pytest.mark.parametrize(
    ("action", "expected"),
    [("adjust", "00:00:01 00:00:01 00:10 00:09 00:07"), ("drop", "- 00:00:01 00:10 00:09 -")],
)
def test_lateness_of_exactly_the_tolerance_is_in_tolerance(spark: SparkSession, action: str, expected: str) -> None:
    job = cars(f"{{late_arrival: 10m, out_of_order: 3m, action: {action}}}")
    assert texts(verdicts(spark, job, FIVE)) == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("adjust", "00:10:25 00:10:30 00:10:42 00:10:38 00:10:37"),
        ("drop", "- 00:10:30 00:10:42 00:10:38 -"),
    ],
)
def test_seconds_late_and_seconds_out_of_order(spark: SparkSession, action: str, expected: str) -> None:
    rows = [
        {"at": f"00:10:{at}", "arrival": f"00:10:{arrival}"}
        for at, arrival in [("00", 40), ("30", 41), ("42", 42), ("38", 43), ("35", 45)]
    ]
    job = cars(f"{{late_arrival: 15s, out_of_order: 5s, action: {action}}}")
    assert texts(verdicts(spark, job, rows)) == expected


def test_each_bound_holds_to_the_microsecond(spark: SparkSession) -> None:
    # a partition a case, so that none moves another's watermark
    events = [
        (0, "12:05", "12:00"),  # exactly the guard ahead
        (1, "12:05:00.000001", "12:00"),
        (2, "11:55", "12:00"),  # exactly the tolerance late
        (3, "11:54:59.999999", "12:00"),
        (4, "12:00", "12:00"),
        (4, "11:58", "12:00"),  # exactly at the watermark
        (4, "11:57:59.999999", "12:00"),
    ]
    rows = [{"partition": partition, "at": at, "arrival": arrival} for partition, at, arrival in events]
    adjusted = verdicts(spark, cars(), rows)
    assert fates(adjusted) == [
        "accepted",
        "dropped early",
        "accepted",
        "adjusted late",
        "accepted",
        "accepted",
        "adjusted out_of_order",
    ]
    assert system(adjusted)[3:] == ["11:55", "12:00", "11:58", "11:58"]
    dropped = verdicts(spark, cars("{late_arrival: 5m, out_of_order: 2m, action: drop}"), rows)
    assert fates(dropped)[3] == "dropped late"
    assert fates(dropped)[6] == "dropped out_of_order"


def test_an_event_moved_twice_names_both_tests(spark: SparkSession) -> None:
    rows = [{"at": "12:04", "arrival": "12:00"}, {"at": "11:00", "arrival": "12:00:30"}]
    found = verdicts(spark, cars(), rows)
    assert fates(found)[1] == "adjusted late out_of_order"
    assert system(found)[1] == "12:02"
    dropped = verdicts(spark, cars("{late_arrival: 5m, out_of_order: 2m, action: drop}"), rows)
    assert fates(dropped)[1] == "dropped late"


def test_an_unbounded_tolerance_has_no_watermark_before_the_first_event(spark: SparkSession) -> None:
    rows = [{"at": "2020-01-01T00:00:00", "arrival": "12:00"}, {"at": "12:00", "arrival": "12:01"}]
    rows.append({"at": "11:00", "arrival": "12:02"})
    found = verdicts(spark, cars("{late_arrival: unbounded, out_of_order: 1m}"), rows)
    assert [row["watermark"] for row in found] == [None, "2019-12-31T23:59", "11:59"]
    assert fates(found) == ["accepted", "accepted", "adjusted out_of_order"]


def test_partitions_do_not_share_a_watermark(spark: SparkSession) -> None:
    rows = [
        {"partition": 0, "at": "12:00", "arrival": "12:00"},
        {"partition": 1, "at": "11:57", "arrival": "12:00:01"},
        {"partition": 0, "at": "11:57", "arrival": "12:00:02"},
    ]
    found = verdicts(spark, cars(), rows)
    assert [(row["input_partition"], system([row])[0]) for row in found] == [(0, "12:00"), (0, "11:58"), (1, "11:57")]


def test_missing_times_and_keys_are_refused_and_move_nothing(spark: SparkSession) -> None:
    rows = [
        {"at": "12:00", "device": "a", "arrival": "12:00"},
        {"at": None, "device": "a", "arrival": "12:00:01"},
        {"at": "12:04", "device": None, "arrival": "12:00:02"},
        {"at": None, "device": None, "arrival": "12:00:03"},
        {"at": "11:58", "device": "a", "arrival": "12:00:04"},
    ]
    found = verdicts(spark, cars(over="[device]"), rows)
    assert fates(found) == [
        "accepted",
        "dropped invalid_time",
        "dropped invalid_key",
        "dropped invalid_time",
        "accepted",
    ]
    assert [row["watermark"] for row in found[1:4]] == [None] * 3
    assert found[2]["event_time"] == "12:04"


def test_text_that_is_no_instant_is_an_invalid_time(spark: SparkSession) -> None:
    job = cars(columns="at STRING")
    rows = [{"at": text, "arrival": "12:00"} for text in ("2026-01-01T12:00:01Z", "soon", "12:00:01", "2026-02-30")]
    found = verdicts(spark, job, rows)
    assert fates(found) == ["accepted", *["dropped invalid_time"] * 3]
    assert found[0]["event_time"] == "12:00:01"


def test_a_number_is_refused_as_event_time_by_its_key_in_the_job_file(spark: SparkSession) -> None:
    job = cars(columns="at BIGINT", timestamp_by='"at + 1"')
    with pytest.raises(JobFileError, match=r"inputs\.cars\.timestamp_by: 'at \+ 1' is BIGINT, not an instant"):
        verdicts(spark, job, [])


def test_a_condition_that_is_none_is_refused_by_its_key(spark: SparkSession) -> None:
    job = cars(query='where: "length(device)", window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}')
    with pytest.raises(JobFileError, match=r"query\.where: 'length\(device\)' is INT, not a condition"):
        windows(spark, job, [])


def test_an_input_without_arrivals_is_named(spark: SparkSession) -> None:
    from pipelines.batch.engine import run

    with pytest.raises(UsageError, match="input 'cars'"):
        run(cars(), {})


def test_without_an_event_time_events_count_when_they_arrive(spark: SparkSession) -> None:
    job = cars("{late_arrival: 0s, out_of_order: 0s, action: drop}", timestamp_by="")
    rows = [{"at": "11:00", "arrival": "12:00"}, {"at": None, "arrival": "12:00"}]
    found = verdicts(spark, job, rows)
    assert fates(found) == ["accepted", "accepted"]
    assert system(found) == ["12:00", "12:00"]


def test_where_takes_an_event_out_of_its_windows_only(spark: SparkSession) -> None:
    query = 'where: "device <> \'x\'", window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}'
    rows = [
        {"at": "12:04", "device": "x", "arrival": "12:00"},
        {"at": "12:01", "device": "a", "arrival": "12:01"},
        {"at": "12:02", "device": None, "arrival": "12:02"},
    ]
    job = cars(query=query)
    found = verdicts(spark, job, rows)
    assert system(found) == ["12:04", "12:02", "12:02"]
    assert windows(spark, job, rows) == [("12:00", "12:05", 1)]


def test_punctuations_are_no_events_and_move_nothing(spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = [
        {"at": "12:00", "arrival": "12:00"},
        {"punctuation": "12:30", "cause": "idle", "arrival": "12:00:30"},
        {"at": "11:59", "arrival": "12:01"},
    ]
    found = verdicts(spark, cars(), rows)
    assert [row["sequence"] for row in found] == [0, 2]
    assert system(found) == ["12:00", "11:59"]


def test_the_output_range_takes_verdicts_by_arrival_and_windows_by_end(spark: SparkSession) -> None:
    output = OutputRange(parse_instant("2026-01-01T12:10:00"), parse_instant("2026-01-01T12:20:00"))
    assert [row["sequence"] + 1 for row in verdicts(spark, cars(), TWELVE, output)] == [3, 4, 5, 6, 7, 8]
    # half-open: the window that ends at 12:10 is in, the one that ends at 12:20 is not
    assert windows(spark, cars(), TWELVE, output) == [("12:05", "12:10", 3)]


def test_hold_emits_what_every_partition_has_passed(spark: SparkSession) -> None:
    job = cars(end_of_log="hold")
    rows = [
        {"partition": 0, "at": "12:06", "arrival": "12:06"},
        {"partition": 0, "at": "12:12:00.000001", "arrival": "12:12"},
        {"partition": 1, "at": "12:07:00.000001", "arrival": "12:12"},
    ]
    assert windows(spark, job, rows) == []
    later = [*rows, {"partition": 1, "at": "12:12", "arrival": "12:13"}]
    # partition 1 stands at exactly 12:10: an event at 12:10 may still come
    assert windows(spark, job, later) == []
    passed = [*rows, {"partition": 1, "at": "12:12:00.000001", "arrival": "12:13"}]
    assert windows(spark, job, passed) == [("12:05", "12:10", 2)]


def test_hold_over_a_key_asks_each_timeline_for_itself(spark: SparkSession) -> None:
    query = 'group_by: [device], window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}'
    job = cars(over="[device]", query=query, end_of_log="hold")
    rows = [
        {"device": "a", "at": "12:01", "arrival": "12:01"},
        {"device": "b", "at": "12:01", "arrival": "12:01"},
        {"device": "a", "at": "12:08", "arrival": "12:08"},
    ]
    assert windows(spark, job, rows) == [("12:00", "12:05", "a", 1)]


def test_a_result_that_several_timelines_feed_waits_for_the_slowest_and_never_comes_in_part(
    spark: SparkSession,
) -> None:
    job = cars(over="[device]", end_of_log="hold")
    rows = [
        {"device": "a", "at": "12:01", "arrival": "12:01"},
        {"device": "b", "at": "12:01", "arrival": "12:01"},
        {"device": "a", "at": "12:08", "arrival": "12:08"},
    ]
    assert windows(spark, job, rows) == []
    passed = [*rows, {"device": "b", "at": "12:08", "arrival": "12:09"}]
    assert windows(spark, job, passed) == [("12:00", "12:05", 2)]
