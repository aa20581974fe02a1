"""Profile stream_analytics in the batch engine against plain loops over random logs: a walk, and all pairs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from batch_log import logs
from session_walk import walked

from pipelines.core.model import EVERYTHING, Job
from pipelines.core.time import DAY, MINUTE, SECOND, parse_duration, parse_instant
from pipelines.job.load import parse_job
from pipelines.transcripts import Outcome
from pipelines.transcripts.engines import run_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MIDNIGHT_US = parse_instant("2026-01-01")
NOON_US = parse_instant("2026-01-01T12:00:00Z")


def batch(spark: SparkSession, job: Job, rows: list[dict[str, Any]]) -> Outcome:
    return run_batch(job, logs(spark, job, rows), EVERYTHING)


def windows(spark: SparkSession, job: Job, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The values of all columns but a null id, sorted."""
    found = batch(spark, job, rows).windows
    return sorted(tuple(value for key, value in row.items() if (key, value) != ("window_id", None)) for row in found)


def ordered(early: str, late: str, out_of_order: str, action: str, over: str) -> Job:
    return parse_job(
        f"""
tailrace: 1
job: example
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, k STRING", timestamp_by: at, over: {over}}}}}
ordering: {{early_arrival: {early}, late_arrival: {late}, out_of_order: {out_of_order}, action: {action}}}
query: {{from: cars, window: {{tumbling: {{size: 5m}}}}, aggregates: {{n: "count(*)"}}}}
"""
    )


def walk(
    rows: list[dict[str, Any]], early_us: int | None, late_us: int | None, out_of_order_us: int, drop: bool, over: bool
) -> list[tuple[str, tuple[str, ...], int | None]]:
    """Verdict, reasons and system timestamp of each row; only events that count raise the watermark here."""
    highest: dict[Any, int] = {}
    decisions: list[tuple[str, tuple[str, ...], int | None]] = []
    for row in rows:
        event_us, arrival_us, key = row["at"], row["arrival"], row["k"]
        if event_us is None or (over and key is None):
            decisions.append(("dropped", ("invalid_time" if event_us is None else "invalid_key",), None))
            continue
        if early_us is not None and event_us - arrival_us > early_us:
            decisions.append(("dropped", ("early",), None))
            continue
        timeline = (row["partition"], key if over else None)
        reasons = []
        time_us = event_us
        if late_us is not None and arrival_us - event_us > late_us:
            reasons.append("late")
            time_us = arrival_us - late_us
        if timeline in highest and time_us < highest[timeline] - out_of_order_us:
            reasons.append("out_of_order")
            time_us = highest[timeline] - out_of_order_us
        if reasons and drop:
            decisions.append(("dropped", (reasons[0],), None))
            continue
        highest[timeline] = max(time_us, highest.get(timeline, time_us))
        decisions.append(("adjusted" if reasons else "accepted", tuple(reasons), time_us))
    return decisions


def random_log(chance: random.Random) -> list[dict[str, Any]]:
    """80 partitions of up to 30 events with lateness and earliness on and around the bounds."""
    rows = []
    for partition in range(80):
        arrival_us = NOON_US
        for sequence in range(chance.randrange(1, 30)):
            arrival_us += chance.choice([0, 1, SECOND, 30 * SECOND, 2 * MINUTE])
            ahead_us = chance.choice([-6, -5, -3, -2, -1, 0, 0, 1, 2, 5, 6]) * MINUTE + chance.choice([-1, 0, 0, 1])
            event_us = None if chance.random() < 0.03 else arrival_us + ahead_us
            rows.append(
                {
                    "partition": partition,
                    "sequence": sequence,
                    "arrival": arrival_us,
                    "at": event_us,
                    "k": chance.choice(["x", "x", "y", "y", "z", None]),
                }
            )
    return rows


@pytest.mark.parametrize(
    ("early", "late", "out_of_order", "action", "over"),
    [
        ("5m", "5m", "2m", "adjust", "[]"),
        ("5m", "5m", "2m", "drop", "[k]"),
        ("off", "3m", "0s", "adjust", "[k]"),
        ("off", "unbounded", "5m", "drop", "[]"),
        ("1m", "0s", "1m", "drop", "[]"),
    ],
)
def test_a_prefix_maximum_decides_as_the_walk_does(
    spark: SparkSession, early: str, late: str, out_of_order: str, action: str, over: str
) -> None:
    rows = random_log(random.Random(f"{early} {late} {out_of_order} {action} {over}"))
    us = {text: None if text in ("off", "unbounded") else parse_duration(text) for text in (early, late, out_of_order)}
    expected = walk(rows, us[early], us[late], us[out_of_order] or 0, action == "drop", over != "[]")
    assert {verdict for verdict, _, _ in expected} >= {"accepted", "dropped"}
    found = batch(spark, ordered(early, late, out_of_order, action, over), rows).verdicts
    in_order = sorted(found, key=lambda row: (row["partition"], row["sequence"]))
    assert [(row["verdict"], tuple(row["reasons"]), row["system_timestamp"]) for row in in_order] == expected


# -- windows and joins ------------------------------------------------------------------------------------------------


def unordered(inputs: str, query: str) -> Job:
    """A job that takes every event at its own time, whatever its arrival."""
    columns = '{columns: "at TIMESTAMP, k STRING, toll INT", timestamp_by: at, over: [k]}'
    return parse_job(
        f"""
tailrace: 1
job: example
profile: stream_analytics
inputs: {{{", ".join(f"{name}: {columns}" for name in inputs)}}}
ordering: {{early_arrival: off, late_arrival: unbounded, out_of_order: 9999d}}
query: {{{query}}}
"""
    )


def at(*seconds: int, k: str = "a") -> list[dict[str, Any]]:
    return [{"at": second_of(second), "k": k, "arrival": "12:00"} for second in seconds]


def second_of(second: int) -> int:
    return MIDNIGHT_US + second * SECOND


@pytest.mark.parametrize("partitioned", [True, False])
def test_sessions_by_arithmetic_are_the_sessions_of_a_walk(spark: SparkSession, partitioned: bool) -> None:
    chance = random.Random(f"sessions {partitioned}")
    sizes = [(3, 7), (7, 7), (9, 4), (40, 10)]
    rows: list[dict[str, Any]] = []
    expected = []
    for case in range(120):
        # cases apart by far more than any session, so that one chain can contain them all
        timeout, longest = chance.choice(sizes)
        mean = chance.choice([1, timeout // 2, timeout])
        times = [case * 100_000 + chance.randrange(longest)]
        for _ in range(chance.randrange(30)):
            times.append(times[-1] + chance.randrange(2 * mean + 1))
        rows += at(*times, k=str(case))
        expected += [
            (second_of(start), second_of(end), f"{timeout} {longest}", str(case), n)
            for timeout, longest in sizes
            for start, end, n in walked(times, timeout, longest)
        ]
    chain = ", partition_by: [k]" if partitioned else ""
    windows_of_each = ", ".join(
        f'"{timeout} {longest}": {{session: {{timeout: {timeout}s, max_duration: {longest}s, '
        f'align_to: "2026-01-01T00:00:00Z"{chain}}}}}'
        for timeout, longest in sizes
    )
    query = f'from: a, group_by: [k], window: {{any_of: {{{windows_of_each}}}}}, aggregates: {{n: "count(*)"}}'
    assert windows(spark, unordered("a", query), rows) == sorted(expected)


def test_sliding_windows_are_those_of_all_pairs(spark: SparkSession) -> None:
    chance = random.Random(7)
    rows: list[dict[str, Any]] = []
    expected = []
    for case in range(60):
        times = [chance.randrange(40) for _ in range(chance.randrange(1, 12))]
        rows += at(*times, k=str(case))
        for end in {*times, *(time + 6 for time in times)}:
            n = sum(end - 6 < time <= end for time in times)
            if n:
                expected.append((second_of(end - 6), second_of(end), str(case), n))
    job = unordered("a", 'from: a, group_by: [k], window: {sliding: {size: 6s}}, aggregates: {n: "count(*)"}')
    assert windows(spark, job, rows) == sorted(expected)


@pytest.mark.parametrize("on", ["[k]", "[]"])
def test_a_join_finds_the_pairs_that_trying_all_of_them_finds(spark: SparkSession, on: str) -> None:
    chance = random.Random(on)
    low, high = -3, 2
    rows = []
    for source in "ab" * 150:
        second, fraction = chance.randrange(20), chance.choice([0, 1, 999_999])
        payload = {"at": f"12:00:{second:02}.{fraction:06}", "k": chance.choice("pqr"), "toll": chance.randrange(9)}
        rows.append({"input": source, "arrival": "23:00", **payload})
    job = unordered(
        "ab",
        f"join: {{left: a, right: b, on: {on}, within: {{unit: second, from: {low}, to: {high}}}, kind: left}},"
        " group_by: [a.k], window: {tumbling: {size: 1d}},"
        ' aggregates: {n: "count(*)", partners: "count(b.at)", toll: "sum(a.toll + b.toll)"}',
    )
    expected: dict[str, list[int]] = {}
    for left in (row for row in rows if row["input"] == "a"):
        partners = [
            right["toll"]
            for right in rows
            if right["input"] == "b"
            and (on == "[]" or right["k"] == left["k"])
            and low <= int(right["at"][6:8]) - int(left["at"][6:8]) <= high
        ]
        totals = expected.setdefault(left["k"], [0, 0, 0])
        totals[0] += len(partners) or 1
        totals[1] += len(partners)
        totals[2] += sum(left["toll"] + toll for toll in partners)
    assert windows(spark, job, rows) == [
        (MIDNIGHT_US, MIDNIGHT_US + DAY, k, *totals) for k, totals in sorted(expected.items())
    ]
