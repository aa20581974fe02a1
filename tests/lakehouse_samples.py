"""A small job and its records, for tests of the lakehouse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.core.model import Job
from pipelines.job.load import parse_job

COLUMNS = "at TIMESTAMP, booth STRING, n INT, x DOUBLE"


def job(columns: str = COLUMNS, name: str = "cars_per_booth", **more: str) -> Job:
    """Cars counted per booth, ten minutes a window; ``more`` adds keys to the input."""
    extra = "".join(f", {key}: {value}" for key, value in more.items())
    return parse_job(_job_text(columns, name, extra))


def _job_text(columns: str, name: str, extra: str) -> str:
    return f"""
tailrace: 1
job: {name}
profile: stream_analytics
inputs: {{cars: {{columns: "{columns}", timestamp_by: at{extra}}}}}
ordering: {{late_arrival: 5m, out_of_order: 0s, action: adjust}}
query: {{from: cars, group_by: [booth], window: {{tumbling: {{size: 10m}}}}, aggregates: {{cars: "count(*)"}}}}
"""


JOB_TEXT = _job_text(COLUMNS, "cars_per_booth", "")


def record(sequence: int, /, minute: int | None = None, **changed: Any) -> dict[str, Any]:
    """An event of partition 0 that arrives at 12:``minute`` and happened then; ``changed`` overrides keys."""
    at = f"2026-01-01T12:{sequence if minute is None else minute:02d}:00Z"
    base = {"arrival_time": at, "input_partition": 0, "sequence": sequence, "at": at, "booth": "a", "n": 1, "x": 0.5}
    return {**base, **changed}


def lines(path: Path, *records: dict[str, Any] | str) -> Path:
    """A file of JSON lines; text stands as it is."""
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in records))
    return path
