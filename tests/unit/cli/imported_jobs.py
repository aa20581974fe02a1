"""What ``tailrace import`` wrote, as tests look at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import run
from pipelines.core.model import Job
from pipelines.job.load import load_job

GROUP = {"_id": "$device", "most": {"$max": "$obs.watts"}, "n": {"$sum": 1}}
WINDOW = {"$tumblingWindow": {"interval": {"size": 10, "unit": "second"}, "pipeline": [{"$group": GROUP}]}}
SOURCE = {"$source": {"connectionName": "plant", "topic": "Solar", "timeField": {"$toDate": "$at"}}}


def imported(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[dict[str, Any]]]:
    """(exit code, the jobs)."""
    code = run(["import", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)["jobs"]


def job_in(folder: Path, name: str) -> Job:
    return load_job(folder / f"{name}.yaml")


def columns(job: Job, name: str) -> dict[str, str]:
    found = [one for one in (*job.inputs, *job.references) if one.name == name]
    return {column.name: column.type for column in found[0].columns}
