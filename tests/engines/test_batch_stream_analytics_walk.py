"""The batch engine's stream_analytics against a walk through the log, event by event, as the policies are told."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from batch_log import verdicts

from pipelines.core.model import Job
from pipelines.core.time import MINUTE, SECOND, format_instant, parse_instant
from pipelines.job.load import parse_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tiny_spark")]

NOON_US = parse_instant("2026-01-01T12:00:00Z")


def job(early: str, late: str, out_of_order: str, action: str, over: str) -> Job:
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
    fates: list[tuple[str, tuple[str, ...], int | None]] = []
    for row in rows:
        event_us, arrival_us, key = row["event_us"], row["arrival_us"], row["k"]
        if event_us is None or (over and key is None):
            fates.append(("dropped", ("invalid_time" if event_us is None else "invalid_key",), None))
            continue
        if early_us is not None and event_us - arrival_us > early_us:
            fates.append(("dropped", ("early",), None))
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
            fates.append(("dropped", (reasons[0],), None))
            continue
        highest[timeline] = max(time_us, highest.get(timeline, time_us))
        fates.append(("adjusted" if reasons else "accepted", tuple(reasons), time_us))
    return fates


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
                    "arrival_us": arrival_us,
                    "arrival": format_instant(arrival_us),
                    "event_us": event_us,
                    "at": None if event_us is None else format_instant(event_us),
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
    us = {text: None if text in ("off", "unbounded") else _us(text) for text in (early, late, out_of_order)}
    expected = walk(rows, us[early], us[late], us[out_of_order] or 0, action == "drop", over != "[]")
    assert {verdict for verdict, _, _ in expected} >= {"accepted", "dropped"}
    found = verdicts(spark, job(early, late, out_of_order, action, over), rows)
    judged = [(row["verdict"], tuple(row["reasons"]), row["system_timestamp"]) for row in found]
    assert judged == [(verdict, reasons, _clock(time_us)) for verdict, reasons, time_us in expected]


def _us(text: str) -> int:
    return int(text[:-1]) * (MINUTE if text.endswith("m") else SECOND)


def _clock(time_us: int | None) -> str | None:
    from batch_log import clock

    from pipelines.core.time import to_datetime

    return None if time_us is None else clock(to_datetime(time_us))
