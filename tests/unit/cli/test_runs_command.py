"""``tailrace runs``: what runs have cost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lakehouse_samples import JOB_TEXT

from pipelines.cli.main import run
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    """A job with two runs: one that ended, and one whose process may still run."""
    lakehouse = Lakehouse.at(tmp_path / "lakehouse")
    base: dict[str, Any] = {"job": "cars_per_booth", "kind": "replay"}
    ended = {
        "run_id": "1" * 32,
        "status": runs.SUCCEEDED,
        "started_at": datetime(2026, 1, 1, 12, tzinfo=UTC),
        "finished_at": datetime(2026, 1, 1, 12, 1, 30, tzinfo=UTC),
        "counts_by_verdict": {"accepted": 900, "dropped": 100},
        "bytes_read": {"arrivals/cars": 2048},
        "rows_written": {"windows/cars_per_booth": 5, "verdicts/cars_per_booth": 100},
        "cost": {"tasks": 7, "task_ms": 2500, "shuffle_bytes": 1024, "task_memory_bytes": 4096},
    }
    begun = {"run_id": "2" * 32, "status": runs.RUNNING, "started_at": datetime(2026, 1, 2, tzinfo=UTC)}
    for row in (ended, begun):
        runs.record(lakehouse, {**base, **row})
    file = tmp_path / "job.yaml"
    file.write_text(JOB_TEXT)
    return file


def _printed(job_file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run(["runs", str(job_file), "--lakehouse", str(job_file.with_name("lakehouse")), *options]) == 0
    return capsys.readouterr().out


def test_a_run_is_shown_with_its_cost_and_one_that_has_not_ended_without(
    job_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, begun = json.loads(_printed(job_file, capsys, "--json"))
    assert (ended["events"], ended["seconds"], ended["bytes_read"], ended["rows_written"]) == (1000, 90.0, 2048, 105)
    assert (ended["tasks"], ended["task_ms"], ended["task_memory_bytes"]) == (7, 2500, 4096)
    assert (begun["status"], begun["seconds"], begun["tasks"]) == ("running", None, None)
    _, first, second = _printed(job_file, capsys).splitlines()
    assert first.split()[2:] == ["replay", "succeeded", "1000", "90.0", "2048", "105", "7", "2500", "1024", "4096"]
    assert second.split()[2:] == ["replay", "running", "0", "0", "0"]


def test_the_newest_runs_can_be_asked_for_alone(job_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (only,) = json.loads(_printed(job_file, capsys, "--json", "--last", "1"))
    assert only["run_id"] == "2" * 32
