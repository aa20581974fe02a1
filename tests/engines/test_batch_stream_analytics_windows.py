"""Windows of profile stream_analytics in the batch engine; events are in order, so they count at their own time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from batch_log import windows
from session_walk import walked

from pipelines.core.model import Job
from pipelines.job.load import parse_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tiny_spark")]


def ticks(
    window: str, *, group_by: str = "[]", where: str = "true", aggregates: str = '{n: "count(*)"}', hold: bool = False
) -> Job:
    """A job that takes every event at its own time, whatever its arrival."""
    return parse_job(
        f"""
tailrace: 1
job: example
profile: stream_analytics
inputs: {{ticks: {{columns: "at TIMESTAMP, k STRING", timestamp_by: at, over: [k]}}}}
ordering: {{early_arrival: off, late_arrival: unbounded, out_of_order: 9999d}}
query: {{from: ticks, where: "{where}", group_by: {group_by}, window: {window}, aggregates: {aggregates}}}
end_of_log: {"hold" if hold else "flush"}
"""
    )


def at(*times: str, k: str = "a") -> list[dict[str, Any]]:
    return [{"at": time, "k": k, "arrival": "12:00"} for time in times]


def test_a_tumbling_window_holds_its_end_and_not_its_start(spark: SparkSession) -> None:
    rows = at("12:00", "12:00:00.000001", "12:05", "12:05:00.000001")
    found = windows(spark, ticks("{tumbling: {size: 5m}}"), rows)
    assert found == [("11:55", "12:00", 1), ("12:00", "12:05", 2), ("12:05", "12:10", 1)]


def test_an_offset_of_minus_one_millisecond_moves_the_boundaries_down(spark: SparkSession) -> None:
    job = ticks("{tumbling: {size: 1h, offset: -1ms}}")
    found = windows(spark, job, at("12:00", "12:59:59.999", "13:00"))
    assert found == [
        ("11:59:59.999000", "12:59:59.999000", 2),
        ("12:59:59.999000", "13:59:59.999000", 1),
    ]


def test_a_grid_that_divides_no_day_begins_in_the_year_one_unless_aligned(spark: SparkSession) -> None:
    # 0001-01-01 was a Monday: weeks end on Mondays; 2026-01-01 is a Thursday
    monday = windows(spark, ticks("{tumbling: {size: 7d}}"), at("12:00"))
    assert monday == [("2025-12-29T00:00", "2026-01-05T00:00", 1)]
    thursday = windows(spark, ticks('{tumbling: {size: 7d, align_to: "1970-01-01T00:00:00Z"}}'), at("12:00"))
    assert thursday == [("00:00", "2026-01-08T00:00", 1)]


def test_times_before_1970_fall_in_the_windows_of_the_same_grid(spark: SparkSession) -> None:
    rows = at("1969-12-31T23:59:59.999999", "1969-12-31T23:50", "1969-12-31T23:45")
    found = windows(spark, ticks('{tumbling: {size: 10m, align_to: "2000-01-01T00:05:00Z"}}'), rows)
    assert found == [
        ("1969-12-31T23:35", "1969-12-31T23:45", 1),
        ("1969-12-31T23:45", "1969-12-31T23:55", 1),
        ("1969-12-31T23:55", "1970-01-01T00:05", 1),
    ]


def test_an_event_is_in_every_hopping_window_that_ends_from_its_time_on(spark: SparkSession) -> None:
    found = windows(spark, ticks("{hopping: {size: 10m, hop: 5m}}"), at("12:00", "12:02"))
    assert found == [("11:50", "12:00", 1), ("11:55", "12:05", 2), ("12:00", "12:10", 1)]


def test_a_hop_that_does_not_divide_the_size_keeps_window_ends_on_the_grid(spark: SparkSession) -> None:
    found = windows(spark, ticks("{hopping: {size: 7m, hop: 5m}}"), at("12:02", "12:03"))
    assert found == [("11:58", "12:05", 2)]


def test_a_hop_longer_than_the_size_leaves_gaps(spark: SparkSession) -> None:
    rows = at("12:08", "12:08:00.000001", "12:10", "12:10:00.000001")
    found = windows(spark, ticks("{hopping: {size: 2m, hop: 10m}}"), rows)
    assert found == [("12:08", "12:10", 2)]


def test_a_sliding_window_ends_when_an_event_enters_or_leaves(spark: SparkSession) -> None:
    found = windows(spark, ticks("{sliding: {size: 10s}}"), at("12:00:01", "12:00:05", "12:00:05"))
    # at 12:00:11 the first has left, at 12:00:15 nothing is left
    assert found == [
        ("11:59:51", "12:00:01", 1),
        ("11:59:55", "12:00:05", 3),
        ("12:00:01", "12:00:11", 2),
    ]


def test_sliding_windows_are_formed_for_each_group_null_included(spark: SparkSession) -> None:
    rows = at("12:00:01") + at("12:00:03", k="b")
    job = ticks("{sliding: {size: 10s}}", group_by="[k]")
    assert windows(spark, job, rows) == [("11:59:51", "12:00:01", "a", 1), ("11:59:53", "12:00:03", "b", 1)]


def test_a_snapshot_groups_equal_system_timestamps_and_lasts_no_time(spark: SparkSession) -> None:
    found = windows(spark, ticks("{snapshot: {}}"), at("12:00", "12:00:00.000001", "12:00"))
    assert found == [("12:00", "12:00", 2), ("12:00:00.000001", "12:00:00.000001", 1)]


def test_any_of_gives_the_results_of_each_window_under_its_name(spark: SparkSession) -> None:
    job = ticks("{any_of: {short: {tumbling: {size: 1m}}, long: {hopping: {size: 1h, hop: 1h}}, now: {snapshot: {}}}}")
    assert windows(spark, job, at("12:00:30", "12:01:30")) == [
        ("long", "12:00", "13:00", 2),
        ("now", "12:00:30", "12:00:30", 1),
        ("now", "12:01:30", "12:01:30", 1),
        ("short", "12:00", "12:01", 1),
        ("short", "12:01", "12:02", 1),
    ]


# -- sessions -------------------------------------------------------------------------------------------------------

SESSION = "{session: {timeout: 5s, max_duration: 10s}}"


def test_a_pause_of_exactly_the_timeout_extends_a_session_and_a_microsecond_more_ends_it(spark: SparkSession) -> None:
    job = ticks("{session: {timeout: 5s, max_duration: 1h}}")
    assert windows(spark, job, at("12:00:01", "12:00:06")) == [("12:00:01", "12:00:11", 2)]
    assert windows(spark, job, at("12:00:01", "12:00:06.000001")) == [
        ("12:00:01", "12:00:06", 1),
        ("12:00:06.000001", "12:00:11.000001", 1),
    ]


def test_a_session_is_closed_at_the_first_check_point_at_least_its_longest_duration_away(spark: SparkSession) -> None:
    rows = at(*(f"12:00:{second:02}" for second in range(3, 60, 2)))
    # opened at 3: check point 10 is too near, 20 closes; the next ones opened at a check point and close at the next
    assert windows(spark, ticks(SESSION), rows) == [
        ("12:00:03", "12:00:20", 9),
        ("12:00:21", "12:00:30", 5),
        ("12:00:31", "12:00:40", 5),
        ("12:00:41", "12:00:50", 5),
        ("12:00:51", "12:01", 5),
    ]


def test_an_event_on_the_closing_check_point_belongs_to_the_session_that_closes(spark: SparkSession) -> None:
    found = windows(spark, ticks(SESSION), at("12:00:08", "12:00:13", "12:00:17", "12:00:20", "12:00:20.000001"))
    assert found == [("12:00:08", "12:00:20", 4), ("12:00:20.000001", "12:00:25.000001", 1)]


def test_a_session_that_opens_on_a_check_point_is_closed_at_the_next(spark: SparkSession) -> None:
    found = windows(spark, ticks(SESSION), at("12:00:10", "12:00:15", "12:00:20", "12:00:21"))
    assert found == [("12:00:10", "12:00:20", 3), ("12:00:21", "12:00:26", 1)]


def test_a_session_ends_at_its_timeout_before_the_check_point_that_would_close_it(spark: SparkSession) -> None:
    found = windows(spark, ticks(SESSION), at("12:00:11", "12:00:14"))
    assert found == [("12:00:11", "12:00:19", 2)]


def test_check_points_count_from_the_alignment(spark: SparkSession) -> None:
    job = ticks('{session: {timeout: 5s, max_duration: 10s, align_to: "2026-01-01T12:00:03Z"}}')
    found = windows(spark, job, at("12:00:03", "12:00:08", "12:00:13", "12:00:14"))
    assert found == [("12:00:03", "12:00:13", 3), ("12:00:14", "12:00:19", 1)]


def test_sessions_without_a_partition_are_one_chain_that_is_grouped_afterwards(spark: SparkSession) -> None:
    rows = at("12:00:01", "12:00:09") + at("12:00:05", k="b")
    chained = ticks("{session: {timeout: 5s, max_duration: 1h}}", group_by="[k]")
    assert windows(spark, chained, rows) == [("12:00:01", "12:00:14", "a", 2), ("12:00:01", "12:00:14", "b", 1)]
    apart = ticks("{session: {timeout: 5s, max_duration: 1h, partition_by: [k]}}", group_by="[k]")
    assert windows(spark, apart, rows) == [
        ("12:00:01", "12:00:06", "a", 1),
        ("12:00:05", "12:00:10", "b", 1),
        ("12:00:09", "12:00:14", "a", 1),
    ]


def test_an_event_that_where_removes_extends_no_session(spark: SparkSession) -> None:
    rows = at("12:00:01", "12:00:09") + at("12:00:05", k="b")
    job = ticks("{session: {timeout: 5s, max_duration: 1h}}", where="k = 'a'")
    assert windows(spark, job, rows) == [("12:00:01", "12:00:06", 1), ("12:00:09", "12:00:14", 1)]


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize(("timeout", "longest"), [(3, 7), (7, 7), (9, 4), (40, 10)])
def test_sessions_by_arithmetic_are_the_sessions_of_a_walk(
    spark: SparkSession, partitioned: bool, timeout: int, longest: int
) -> None:
    chance = random.Random(f"{timeout}/{longest}/{partitioned}")
    rows: list[dict[str, Any]] = []
    expected = []
    for case in range(60):
        # cases apart by far more than any session, so that one chain can hold them all
        base = case * longest * 1000
        mean = chance.choice([1, timeout // 2, timeout])
        times = [base + chance.randrange(longest)]
        for _ in range(chance.randrange(30)):
            times.append(times[-1] + chance.randrange(2 * mean + 1))
        rows += at(*(clock_of(second) for second in times), k=str(case))
        expected += [
            (clock_of(start), clock_of(end), str(case), n) for start, end, n in walked(times, timeout, longest)
        ]
    chain = ", partition_by: [k]" if partitioned else ""
    window = f'{{session: {{timeout: {timeout}s, max_duration: {longest}s, align_to: "2026-01-01T00:00:00Z"{chain}}}}}'
    found = windows(spark, ticks(window, group_by="[k]"), rows)
    assert sorted(found) == sorted(expected)


def test_sliding_windows_are_those_of_all_pairs(spark: SparkSession) -> None:
    chance = random.Random(7)
    rows: list[dict[str, Any]] = []
    expected = []
    for case in range(60):
        times = [chance.randrange(40) for _ in range(chance.randrange(1, 12))]
        rows += at(*(clock_of(second) for second in times), k=str(case))
        for end in {*times, *(time + 6 for time in times)}:
            n = sum(end - 6 < time <= end for time in times)
            if n:
                expected.append((clock_of(end - 6), clock_of(end), str(case), n))
    found = windows(spark, ticks("{sliding: {size: 6s}}", group_by="[k]"), rows)
    assert sorted(found) == sorted(expected)


def clock_of(second: int) -> str:
    """Seconds since 2026-01-01 as the text that logs and results use."""
    from pipelines.core.time import SECOND, format_instant, parse_instant

    text = format_instant(parse_instant("2026-01-01") + second * SECOND).removesuffix("Z")
    text = text.removeprefix("2026-01-01T")
    return text.removesuffix(":00") if text.count(":") == 2 else text
