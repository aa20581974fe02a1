"""What the batch engine refuses before any row is read: it needs the types of Spark to see it."""

from __future__ import annotations

import pytest
from batch_log import logs
from pyspark.sql import SparkSession

from pipelines.batch.engine import run
from pipelines.core.errors import JobFileError, UsageError
from pipelines.core.model import Job
from pipelines.job.load import parse_job

pytestmark = pytest.mark.spark


def cars(columns: str = "at TIMESTAMP, device STRING", timestamp_by: str = "at", where: str = "true") -> Job:
    return parse_job(f"""
tailrace: 1
job: example
profile: stream_analytics
inputs: {{cars: {{columns: "{columns}", timestamp_by: {timestamp_by}}}}}
query: {{from: cars, where: "{where}", window: {{tumbling: {{size: 5m}}}}, aggregates: {{n: "count(*)"}}}}
""")


def test_a_number_is_refused_as_event_time_by_its_key_in_the_job_file(spark: SparkSession) -> None:
    job = cars(columns="at BIGINT", timestamp_by="at + 1")
    with pytest.raises(JobFileError, match=r"inputs\.cars\.timestamp_by: 'at \+ 1' is BIGINT, not an instant"):
        run(job, logs(spark, job, []))


def test_a_condition_that_is_none_is_refused_by_its_key(spark: SparkSession) -> None:
    job = cars(where="length(device)")
    with pytest.raises(JobFileError, match=r"query\.where: 'length\(device\)' is INT, not a condition"):
        run(job, logs(spark, job, []))


def test_an_input_without_arrivals_is_named() -> None:
    with pytest.raises(UsageError, match="input 'cars'"):
        run(cars(), {})
