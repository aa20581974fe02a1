"""A check's result as JSON-ready data, and when the keys of results are unique."""

from __future__ import annotations

import json

import pytest

from pipelines.job.load import parse_job
from pipelines.quality.check_result import CheckResult, keys_are_unique


@pytest.mark.parametrize(
    ("window", "unique"),
    [
        ("{tumbling: {size: 1h}}", True),
        ("{session: {gap: 5m}}", True),
        ("{session: {gap: 5m, partition_by: [booth]}}", True),
        ("{session: {gap: 5m, partition_by: [plate]}}", False),
    ],
)
def test_sessions_may_share_a_key_if_a_column_of_partition_by_is_no_group_key(window: str, unique: bool) -> None:
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


def test_a_result_as_json_has_its_sample_and_not_its_counts() -> None:
    result = CheckResult(
        "arrival_order", False, True, 1, ({"sequence": 7, "problem": "twice"},), "one row", {"rows": 9}
    )
    assert json.loads(json.dumps(result.as_dict())) == {
        "name": "arrival_order",
        "passed": False,
        "blocking": True,
        "failed_rows": 1,
        "sample": [{"sequence": 7, "problem": "twice"}],
        "description": "one row",
    }
