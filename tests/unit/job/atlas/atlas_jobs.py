"""Job files with a pipeline, for the tests of them."""

from __future__ import annotations

import json
from typing import Any

from pipelines.core.model import Job
from pipelines.core.steps import Rows, walk
from pipelines.job.load import parse_job

TIME = {"$dateFromString": {"dateString": "$at"}}
SOURCE = {"$source": {"connectionName": "plant", "topic": "readings", "timeField": TIME}}
MERGE = {"$merge": {"into": {"connectionName": "store", "db": "plant", "coll": "Alerts"}}}
COLUMNS = (
    "at STRING, machine STRING, watts BIGINT, temp DOUBLE, tags ARRAY<STRING>, place STRUCT<hall: STRING, row: BIGINT>"
)


def job_text(pipeline: str, columns: str = COLUMNS, rest: str = "") -> str:
    """A job file with this pipeline in it."""
    inline = "\n".join(f"    {line}" for line in pipeline.splitlines())
    return (
        f'tailrace: 1\njob: alerts\nprofile: atlas\ninputs: {{readings: {{columns: "{columns}"}}}}\n'
        f"{rest}query:\n  pipeline: |\n{inline}\n"
    )


def job_of(*stages: Any, columns: str = COLUMNS, rest: str = "") -> Job:
    """A job whose pipeline has these stages between its source and its output."""
    return parse_job(job_text(json.dumps([SOURCE, *stages, MERGE]), columns, rest), file="alerts.yaml")


def relations(job: Job) -> list[Rows]:
    """The relations of the one output, from the last to the first."""
    assert job.steps is not None
    (output,) = job.steps.outputs
    return list(walk(output.rows))


def tumbling(*pipeline: Any, **settings: Any) -> dict[str, Any]:
    """A window stage of ten seconds."""
    interval = {"size": 10, "unit": "second"}
    return {"$tumblingWindow": {"interval": interval, **settings, "pipeline": list(pipeline)}}
