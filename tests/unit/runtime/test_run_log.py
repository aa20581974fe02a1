"""The log of runs as JSON lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.runtime.run_log import log_event

RUN = {
    "run_id": "1",
    "job": "cars",
    "kind": "replay",
    "status": runs.RUNNING,
    "started_at": datetime(2026, 1, 1, tzinfo=UTC),
}


def test_each_row_of_the_ledger_is_a_line_with_the_id_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_LOG", str(tmp_path / "log"))
    lakehouse = Lakehouse.at(tmp_path / "lakehouse")
    runs.record(lakehouse, RUN)
    log_event("1", "cars", "stage", stage="read the arrivals")
    runs.record(lakehouse, {**RUN, "status": runs.FAILED, "error": "disk full"})
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(line["run_id"], line["job"], line["event"]) for line in lines] == [
        ("1", "cars", "running"),
        ("1", "cars", "stage"),
        ("1", "cars", "failed"),
    ]
    assert (lines[1]["stage"], lines[2]["error"]) == ("read the arrivals", "disk full")
    assert "error" not in lines[0]


def test_lines_go_to_stderr_and_without_the_variable_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TAILRACE_LOG", raising=False)
    log_event("1", "cars", "running")
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("TAILRACE_LOG", "-")
    log_event("1", "cars", "running")
    assert json.loads(capsys.readouterr().err)["event"] == "running"
