"""Two small jobs, and nine days of arrivals for one of them."""

from __future__ import annotations

from pathlib import Path

from pipelines.core.model import Job
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job

TOLLS = """\
tailrace: 1
job: tolls
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
ordering: {early_arrival: 5m, late_arrival: 5m, out_of_order: 1m, action: adjust}
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 1h}}
  aggregates: {cars: "count(*)"}
"""
"""Reads the arrivals [from - 65m, to + 5m]."""

DOCKS = """\
tailrace: 1
job: docks
profile: atlas
inputs: {bikes: {columns: "at TIMESTAMP, dock STRING", timestamp_by: at}}
ordering: {allowed_lateness: 3s}
query:
  from: bikes
  group_by: [dock]
  window: {tumbling: {size: 1h}}
  aggregates: {bikes: "count(*)"}
"""

DAYS = [f"2026-03-{day:02d}" for day in range(1, 10)]
"""The days of the log: the first to the ninth of March."""


def tolls() -> Job:
    """The job ``tolls``."""
    return parse_job(TOLLS)


def tolls_log(folder: Path) -> Path:
    """Nine days of cars: each day and partition one on time, one 20 minutes late, and one just before midnight.

    54 events; sequences count from 0 in each of the partitions 0 and 1; the first arrives at 2026-03-01T00:02:00Z.
    """
    lines = []
    for partition in (0, 1):
        for number, day in enumerate(DAYS):
            times = [("00:02:00", "00:01:00"), ("12:30:00", "12:10:00"), ("23:59:59", "23:59:30")]
            for place, (arrival, at) in enumerate(times):
                lines.append(
                    f'{{"arrival_time": "{day}T{arrival}Z", "input_partition": {partition}, '
                    f'"sequence": {number * 3 + place}, "at": "{day}T{at}Z", "booth": "b{partition}"}}'
                )
    path = folder / "cars.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def load(folder: Path) -> str:
    """A lakehouse in ``folder`` that contains :func:`tolls_log`."""
    root = folder / "lakehouse"
    ingest(tolls(), "cars", [tolls_log(folder)], root, "first")
    return str(root)
