"""The past of a log, asked of real Delta tables without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.core.model import Job, OutputRange
from pipelines.core.time import MINUTE, format_instant, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.replay.builder import make_plan

NOON = parse_instant("2026-01-02T12:00:00Z")
RANGE = OutputRange(NOON, NOON + 60 * MINUTE)


def job(window: str, ordering: str, over: str = "[]") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: example
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, weight DOUBLE", timestamp_by: at, over: {over}}}}}
ordering: {ordering}
query: {{from: cars, window: {window}, aggregates: {{n: "count(*)"}}}}
"""
    )


def planned(of: Job, folder: Path, *pairs: tuple[str, str]) -> str | None:
    """Where the plan begins to read a log of (arrival, event time)."""
    rows = [
        {"arrival_time": arrival, "input_partition": 0, "sequence": number, "at": time}
        for number, (arrival, time) in enumerate(pairs)
    ]
    folder.mkdir(exist_ok=True)
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest(of, "cars", [file], folder / "lakehouse")
    found = make_plan(of, RANGE, folder / "lakehouse").read.from_us
    return None if found is None else format_instant(found)


UNGUARDED = job("{tumbling: {size: 10m}}", "{early_arrival: off, late_arrival: 5m}")
KEYED = job("{tumbling: {size: 10m}}", "{early_arrival: off, late_arrival: 5m}", over="[weight]")
ORDINARY = ("2026-01-01T09:00:00Z", "2026-01-01T09:00:00Z")
IN_RANGE = ("2026-01-02T12:05:00Z", "2026-01-02T12:05:00Z")


def test_an_unguarded_range_begins_with_the_day_of_the_first_stamp_in_its_reach(tmp_path: Path) -> None:
    far = ("2026-01-01T10:00:00.000001Z", "2026-01-02T11:50:00.000001Z")
    assert planned(UNGUARDED, tmp_path, ORDINARY, far, IN_RANGE) == "2026-01-01T00:00:00Z"


def test_where_keys_cannot_be_summed_up_an_unguarded_range_begins_with_that_stamp(tmp_path: Path) -> None:
    far = ("2026-01-01T10:00:00.000001Z", "2026-01-02T11:50:00.000001Z")
    assert planned(KEYED, tmp_path, ORDINARY, far, IN_RANGE) == "2026-01-01T10:00:00.000001Z"


@pytest.mark.parametrize("event_time", ["2026-01-02T11:49:59.999999Z", "2026-01-01T10:00:00Z"])
def test_stamps_out_of_reach_do_not_open_the_range(tmp_path: Path, event_time: str) -> None:
    stamp = ("2026-01-01T10:00:00Z", event_time)
    assert planned(UNGUARDED, tmp_path, ORDINARY, stamp, IN_RANGE) == "2026-01-02T00:00:00Z"
    assert planned(KEYED, tmp_path / "keyed", ORDINARY, stamp, IN_RANGE) == "2026-01-02T11:55:00Z"
