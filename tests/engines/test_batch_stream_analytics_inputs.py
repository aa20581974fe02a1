"""Unions and joins of profile stream_analytics in the batch engine."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from batch_log import verdicts, windows

from pipelines.core.model import Job
from pipelines.job.load import parse_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tiny_spark")]

OPEN = "{early_arrival: off, late_arrival: unbounded, out_of_order: 9999d}"


def gates(query: str, *, ordering: str = OPEN, end_of_log: str = "flush") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: example
profile: stream_analytics
inputs:
  a: {{columns: "at TIMESTAMP, plate STRING, toll INT", timestamp_by: at}}
  b: {{columns: "at TIMESTAMP, plate STRING, toll INT", timestamp_by: at}}
ordering: {ordering}
query: {query}
end_of_log: {end_of_log}
"""
    )


def joined(
    within: str, kind: str = "inner", *, window: str = "{snapshot: {}}", rest: str = "", on: str = "[plate]"
) -> Job:
    return gates(
        f"{{join: {{left: a, right: b, on: {on}, within: {within}, kind: {kind}}}, group_by: [a.plate],"
        f' window: {window}, aggregates: {{n: "count(*)", partners: "count(b.at)", toll: "sum(a.toll + b.toll)"}}'
        f"{rest}}}"
    )


def event(source: str, at: str, plate: str | None = "p", toll: int = 1, **more: Any) -> dict[str, Any]:
    return {"input": source, "at": at, "arrival": "23:00", "plate": plate, "toll": toll, **more}


def test_a_union_counts_events_that_each_input_ordered_by_itself(spark: SparkSession) -> None:
    job = gates(
        '{union: [a, b], window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)", toll: "sum(toll)"}}',
        ordering="{a: {late_arrival: 1h}, b: {late_arrival: 2m}}",
    )
    rows = [
        event("a", "12:04", toll=1, arrival="12:04"),
        event("b", "12:01", toll=10, arrival="12:08"),  # late for b: counts at 12:06
        event("a", "12:01", toll=100, arrival="12:08"),  # out of order for a: counts at 12:04
        event("b", "12:09", toll=1000, arrival="12:09"),
    ]
    assert windows(spark, job, rows) == [("12:00", "12:05", 2, 101), ("12:05", "12:10", 2, 1010)]
    assert [(row["input"], row["sequence"], row["reasons"]) for row in verdicts(spark, job, rows)] == [
        ("a", 0, []),
        ("a", 1, ["out_of_order"]),
        ("b", 0, ["late"]),
        ("b", 1, []),
    ]


def test_events_of_a_union_with_equal_times_come_in_the_order_of_arrival_then_of_the_inputs(
    spark: SparkSession,
) -> None:
    job = gates('{union: [b, a], window: {tumbling: {size: 5m}}, aggregates: {tolls: "collect(toll)"}}')
    rows = [
        event("b", "12:01", toll=1),
        event("a", "12:01", toll=2),
        event("a", "12:01", toll=3, partition=1, arrival="22:00"),
    ]
    # at 23:00 both are first of their partition: a stands before b in the job file
    assert windows(spark, job, rows) == [("12:00", "12:05", [3, 2, 1])]


def test_a_join_counts_boundaries_and_not_elapsed_time(spark: SparkSession) -> None:
    one_minute = joined("{unit: minute, from: 1, to: 1}")
    rows = [event("a", "12:00:59"), event("b", "12:01"), event("b", "12:00:59.999999"), event("b", "12:02")]
    assert windows(spark, one_minute, rows) == [("12:01", "12:01", "p", 1, 1, 2)]
    nearly_two = [event("a", "12:00"), event("b", "12:01:59.999999")]
    assert windows(spark, one_minute, nearly_two) == [("12:01:59.999999", "12:01:59.999999", "p", 1, 1, 2)]


def test_both_ends_of_the_range_match_and_a_pair_counts_at_its_later_time(spark: SparkSession) -> None:
    job = joined("{unit: second, from: -2, to: 1}")
    rows = [event("a", "12:00:10"), *(event("b", f"12:00:{second:02}") for second in (7, 8, 10, 11, 12))]
    assert windows(spark, job, rows) == [("12:00:10", "12:00:10", "p", 2, 2, 4), ("12:00:11", "12:00:11", "p", 1, 1, 2)]


def test_a_key_of_null_matches_nothing(spark: SparkSession) -> None:
    rows = [event("a", "12:00", None), event("b", "12:00", None), event("a", "12:00", "q"), event("b", "12:00", "r")]
    assert windows(spark, joined("{unit: minute, from: 0, to: 10}"), rows) == []


def test_a_left_event_without_a_partner_counts_when_the_last_could_have_come(spark: SparkSession) -> None:
    job = joined("{unit: minute, from: -2, to: 10}", "left")
    rows = [event("a", "12:00:30"), event("b", "12:11"), event("a", "12:05", "q"), event("b", "12:04", "q")]
    assert windows(spark, job, rows) == [("12:05", "12:05", "q", 1, 1, 2), ("12:10:30", "12:10:30", "p", 1, 0, None)]


def test_a_partner_that_can_only_be_past_keeps_no_one_waiting(spark: SparkSession) -> None:
    job = joined("{unit: minute, from: -10, to: -2}", "left")
    assert windows(spark, job, [event("a", "12:00")]) == [("12:00", "12:00", "p", 1, 0, None)]


def test_where_acts_on_the_pair(spark: SparkSession) -> None:
    job = joined("{unit: minute, from: 0, to: 10}", "left", rest=', where: "b.toll > 1"')
    rows = [event("a", "12:00"), event("b", "12:01", toll=1), event("b", "12:02", toll=2), event("a", "13:00")]
    assert windows(spark, job, rows) == [("12:02", "12:02", "p", 1, 1, 3)]


def test_a_refused_event_has_no_part_in_a_join(spark: SparkSession) -> None:
    job = gates(
        "{join: {left: a, right: b, on: [plate], within: {unit: minute, from: 0, to: 10}},"
        ' window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}',
        ordering="{early_arrival: 1m, late_arrival: 1m}",
    )
    rows = [
        event("a", "12:00", arrival="12:00"),
        event("b", "12:05", arrival="12:03"),
        event("b", "12:00", arrival="12:06"),  # late: counts at 12:05
    ]
    assert windows(spark, job, rows) == [("12:00", "13:00", 1)]


def test_a_join_waits_for_both_inputs_when_the_log_ends(spark: SparkSession) -> None:
    job = gates(
        "{join: {left: a, right: b, on: [plate], within: {unit: minute, from: 0, to: 10}},"
        ' window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}',
        ordering="{late_arrival: 1h, early_arrival: off}",
        end_of_log="hold",
    )
    rows = [event("a", "12:01", arrival="12:01"), event("b", "12:02", arrival="12:02")]
    rows.append(event("a", "12:30", arrival="12:30"))
    assert windows(spark, job, rows) == []
    passed = [*rows, event("b", "12:05:00.000001", "q", arrival="12:30")]
    assert windows(spark, job, passed) == [("12:00", "12:05", 1)]


def test_a_left_event_without_a_partner_is_held_until_the_right_input_has_passed(spark: SparkSession) -> None:
    job = gates(
        "{join: {left: a, right: b, on: [plate], within: {unit: minute, from: 0, to: 1}, kind: left},"
        ' window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}',
        ordering="{late_arrival: 1h, early_arrival: off}",
        end_of_log="hold",
    )
    rows = [event("a", "12:01", arrival="12:01"), event("b", "12:00", "q", arrival="12:01")]
    rows.append(event("a", "12:30", arrival="12:30"))
    assert windows(spark, job, rows) == []
    passed = [*rows, event("b", "12:05:00.000001", "q", arrival="12:30")]
    assert windows(spark, job, passed) == [("12:00", "12:05", 1)]


@pytest.mark.parametrize("on", ["[plate]", "[]"])
def test_a_join_finds_the_pairs_that_trying_all_of_them_finds(spark: SparkSession, on: str) -> None:
    chance = random.Random(on)
    low, high = -3, 2
    rows = []
    for source in "ab" * 150:
        second, fraction = chance.randrange(20), chance.choice([0, 1, 999_999])
        rows.append(event(source, f"12:00:{second:02}.{fraction:06}", chance.choice("pqr"), chance.randrange(9)))
    job = joined(f"{{unit: second, from: {low}, to: {high}}}", "left", window="{tumbling: {size: 1d}}", on=on)
    expected: dict[str, list[int]] = {}
    for left in (row for row in rows if row["input"] == "a"):
        partners = [
            right["toll"]
            for right in rows
            if right["input"] == "b"
            and (on == "[]" or right["plate"] == left["plate"])
            and low <= int(right["at"][6:8]) - int(left["at"][6:8]) <= high
        ]
        totals = expected.setdefault(left["plate"], [0, 0, 0])
        totals[0] += len(partners) or 1
        totals[1] += len(partners)
        totals[2] += sum(left["toll"] + toll for toll in partners)
    assert windows(spark, job, rows) == [
        ("00:00", "2026-01-02T00:00", plate, *totals) for plate, totals in sorted(expected.items())
    ]
