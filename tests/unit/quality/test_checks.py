"""When the keys of results are unique, and which failed checks block."""

from __future__ import annotations

import pytest

from pipelines.job.load import parse_job
from pipelines.quality.checks import CheckResult, blocked_by, keys_are_unique


@pytest.mark.parametrize(
    ("window", "unique"),
    [
        ("{tumbling: {size: 1h}}", True),
        ("{session: {gap: 5m}}", True),
        ("{session: {gap: 5m, partition_by: [booth]}}", True),
        ("{session: {gap: 5m, partition_by: [plate]}}", False),
    ],
)
def test_sessions_of_chains_that_no_group_key_parts_may_look_alike(window: str, unique: bool) -> None:
    job = parse_job(
        f"""
tailrace: 1
job: cars
profile: atlas
inputs: {{cars: {{columns: "at TIMESTAMP, booth STRING, plate STRING", timestamp_by: at}}}}
query: {{from: cars, group_by: [booth], window: {window}, aggregates: {{n: "count(*)"}}}}
"""
    )
    assert keys_are_unique(job) is unique


def test_only_a_failed_check_that_is_blocking_blocks() -> None:
    passed = CheckResult("a", True, True, 0, (), "")
    noted = CheckResult("b", False, False, 1, (), "")
    blocking = CheckResult("c", False, True, 1, (), "")
    assert blocked_by([passed, noted, blocking]) == [blocking]
