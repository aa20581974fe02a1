"""Where a range begins to read once the log is asked, and what one microsecond more or less would do."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.model import Arrival, Job, OutputRange, WindowRow
from pipelines.core.time import MINUTE, format_instant, parse_instant
from pipelines.job.load import parse_job
from pipelines.plan.read_range import narrowed
from pipelines.reference.engine import run
from pipelines.transcripts.listed_history import ListedHistory

NOON = parse_instant("2026-01-01T12:00:00Z")
RANGE = OutputRange(NOON, NOON + 60 * MINUTE)


def job(window: str, ordering: str) -> Job:
    return parse_job(
        f"""
tailrace: 1
job: example
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP", timestamp_by: at}}}}
ordering: {ordering}
query: {{from: cars, window: {window}, aggregates: {{n: "count(*)"}}}}
"""
    )


def log(*pairs: tuple[int, int]) -> list[Arrival]:
    """Arrivals from (arrival, event time) in microseconds after noon."""
    return [
        Arrival("cars", 0, number, NOON + arrival, {"at": NOON + time}) for number, (arrival, time) in enumerate(pairs)
    ]


def begin(of: Job, arrivals: Sequence[Arrival]) -> str | None:
    found = narrowed(of, RANGE, ListedHistory(of, arrivals)).from_us
    return None if found is None else format_instant(found)


def windows_from(of: Job, arrivals: Sequence[Arrival], from_us: int) -> tuple[WindowRow, ...]:
    return run(of, [one for one in arrivals if one.arrival_time_us >= from_us], RANGE).windows


UNGUARDED = job("{tumbling: {size: 10m}}", "{early_arrival: off, late_arrival: 5m}")


def test_without_a_guard_an_ordinary_log_is_read_from_just_before_the_range() -> None:
    arrivals = log((-90 * MINUTE, -90 * MINUTE), (5 * MINUTE, 5 * MINUTE))
    assert begin(UNGUARDED, arrivals) == "2026-01-01T11:55:00Z"


def test_without_a_guard_a_far_stamp_is_read_however_early_it_arrived() -> None:
    arrivals = log((-90 * MINUTE, -90 * MINUTE), (-60 * MINUTE, 30 * MINUTE), (5 * MINUTE, 5 * MINUTE))
    assert begin(UNGUARDED, arrivals) == "2026-01-01T11:00:00Z"
    whole = run(UNGUARDED, arrivals, RANGE).windows
    assert [row.values["n"] for row in whole] == [2]
    assert windows_from(UNGUARDED, arrivals, NOON - 60 * MINUTE) == whole
    assert windows_from(UNGUARDED, arrivals, NOON - 60 * MINUTE + 1) != whole


def test_without_a_guard_the_stamp_at_the_reach_is_read_and_the_one_before_it_is_not() -> None:
    at_it = log((-90 * MINUTE, -10 * MINUTE))
    before_it = log((-90 * MINUTE, -10 * MINUTE - 1))
    assert begin(UNGUARDED, at_it) == "2026-01-01T10:30:00Z"
    assert begin(UNGUARDED, before_it) == "2026-01-01T11:55:00Z"


def test_without_a_guard_sessions_read_from_two_segments_and_a_timeout_before_the_range() -> None:
    sessions = job("{session: {timeout: 5m, max_duration: 10m}}", "{early_arrival: off, late_arrival: 5m}")
    at_it = log((-90 * MINUTE, -25 * MINUTE))
    before_it = log((-90 * MINUTE, -25 * MINUTE - 1))
    assert begin(sessions, at_it) == "2026-01-01T10:30:00Z"
    assert begin(sessions, before_it) == "2026-01-01T11:40:00Z"
