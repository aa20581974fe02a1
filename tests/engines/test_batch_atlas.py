"""Dead letters of profile atlas in the batch engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from batch_log import instant, logs

from pipelines.batch.engine import run
from pipelines.core.time import from_datetime
from pipelines.job.load import parse_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JOB = parse_job("""
tailrace: 1
job: example
profile: atlas
inputs: {docs: {columns: "at TIMESTAMP, k STRING", timestamp_by: at}}
ordering: {allowed_lateness: 0s}
query: {from: docs, window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}
""")


def test_dead_letters_have_the_document_the_reason_and_the_missed_windows(spark: SparkSession) -> None:
    rows = [("12:00", "12:07", "a"), ("12:01", "12:01", "b"), ("12:02", None, "c")]
    log = [{"arrival": arrival, "at": at, "k": k} for arrival, at, k in rows]
    dead_letters = run(JOB, logs(spark, JOB, log)).dead_letters
    assert dead_letters is not None
    late, invalid = sorted(dead_letters.collect(), key=lambda row: row["sequence"])
    assert late["reason"] == "Input document arrived late."
    assert [from_datetime(start) for start in late["missed_windows"]] == [instant("12:00")]
    assert json.loads(late["doc"])["k"] == "b"
    assert (late["operator"], invalid["operator"]) == ("GroupOperator", "KafkaConsumerOperator")
    assert (late["sequence"], late["input"], late["input_partition"]) == (1, "docs", 0)
    assert (invalid["sequence"], invalid["missed_windows"]) == (2, [])
