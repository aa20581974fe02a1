"""How far around an event or a window end a recomputation looks."""

from __future__ import annotations

import pytest

from pipelines.core.model import Decision, Job, OutputRange
from pipelines.core.time import HOUR, MINUTE, parse_instant
from pipelines.explain.recomputation import windows_after
from pipelines.job.load import parse_job
from pipelines.recompute.reads import reach_us

NOON = parse_instant("2026-01-01T12:00:00Z")
AT_NOON = Decision("cars", 0, 0, NOON, NOON, "accepted", system_timestamp_us=NOON)


def job(profile: str, window: str) -> Job:
    return parse_job(
        f"""
tailrace: 1
job: example
profile: {profile}
inputs: {{cars: {{columns: "at TIMESTAMP", timestamp_by: at}}}}
ordering: {{}}
query: {{from: cars, window: {window}, aggregates: {{n: "count(*)"}}}}
"""
    )


@pytest.mark.parametrize(
    ("of", "reach"),
    [
        (job("stream_analytics", "{hopping: {size: 1h, hop: 5m}}"), HOUR),
        (job("stream_analytics", "{snapshot: {}}"), 0),
        (job("stream_analytics", "{session: {timeout: 5m, max_duration: 10m}}"), 25 * MINUTE),
        (
            job(
                "stream_analytics",
                "{any_of: {grid: {tumbling: {size: 1m}}, visit: {session: {timeout: 5m, max_duration: 10m}}}}",
            ),
            25 * MINUTE,
        ),
        (job("atlas", "{session: {gap: 5m}}"), 5 * MINUTE),
    ],
)
def test_a_window_reaches_back_as_far_as_its_look_back_and_an_atlas_session_by_its_gap(of: Job, reach: int) -> None:
    assert reach_us(of.query.window) == reach


def test_an_event_can_be_in_windows_that_end_within_the_look_back() -> None:
    sessions = job("stream_analytics", "{session: {timeout: 5m, max_duration: 10m}}")
    assert windows_after(sessions, AT_NOON) == OutputRange(NOON, NOON + 25 * MINUTE + 1)
    assert windows_after(job("atlas", "{session: {gap: 5m}}"), AT_NOON) == OutputRange(NOON)
