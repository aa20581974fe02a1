"""The job that is measured, as a person would write it."""

from __future__ import annotations

from dataclasses import dataclass

from bench.disorder import INPUT
from pipelines.core.model import Job
from pipelines.core.time import MINUTE, SECOND, format_duration
from pipelines.job.load import parse_job

EARLY_US = 5 * MINUTE
LATE_US = 5 * MINUTE
WINDOW_US = 5 * MINUTE
AGGREGATES = {"n": "count(*)", "total": "sum(reading)", "mean": "avg(reading)"}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a log. Every contender answers the same one; ``over``: each device is a timeline of its own."""

    out_of_order_us: int = 5 * SECOND
    over: bool = False
    measured: str = "reading"

    def job(self) -> Job:
        """The job file of the question."""
        return parse_job(
            f"""
tailrace: 1
job: bench
profile: stream_analytics
inputs:
  {INPUT}:
    columns: "at TIMESTAMP, device INT, reading DOUBLE, octets BIGINT"
    timestamp_by: at
    over: [{"device" if self.over else ""}]
ordering:
  early_arrival: {format_duration(EARLY_US)}
  late_arrival: {format_duration(LATE_US)}
  out_of_order: {format_duration(self.out_of_order_us)}
  action: adjust
query:
  from: {INPUT}
  group_by: [device]
  window: {{tumbling: {{size: {format_duration(WINDOW_US)}}}}}
  aggregates: {{n: "count(*)", total: "sum({self.measured})", mean: "avg({self.measured})"}}
"""
        )
