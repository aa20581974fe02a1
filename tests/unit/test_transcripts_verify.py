"""The command ``tailrace verify``: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli.main import run

CASE = """
name: {name}
job:
  job: example
  profile: stream_analytics
  inputs: {{cars: {{columns: "at TIMESTAMP", timestamp_by: at}}}}
  query: {{from: cars, window: {{tumbling: {{size: 1h}}}}, aggregates: {{n: "count(*)"}}}}
arrivals:
  - {{arrival: "2026-01-01T12:00:00Z", at: "2026-01-01T12:00:00Z"}}
expect: {{windows: [{{n: {n}}}]}}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(CASE.format(name="right", n=1))
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.yaml"
    path.write_text(CASE.format(name="right", n=1) + "---" + CASE.format(name="wrong", n=2))
    return path


def test_one_line_a_case_and_a_sum(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(good), "--engine", "reference"]) == 0
    assert capsys.readouterr().out == "pass right [reference]\n1 passed, 0 failed\n"


def test_a_failure_shows_its_first_difference_and_ends_with_1(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(mixed), "--engine", "reference"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pass right [reference]"
    assert lines[1].startswith("FAIL wrong [reference]: windows: row")
    assert lines[2] == "1 passed, 1 failed"


def test_json_is_a_list_of_verdicts(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(mixed), "--engine", "reference", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first == {"name": "right", "engine": "reference", "passed": True, "differences": []}
    assert second["passed"] is False
    assert len(second["differences"]) >= 1


def test_a_folder_stands_for_its_transcripts(mixed: Path, good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(mixed.parent), "--engine", "reference"]) == 1
    assert capsys.readouterr().out.endswith("2 passed, 1 failed\n")


def test_a_transcript_that_cannot_be_read_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("name: x\njobb: {}\n")
    assert run(["verify", str(path), "--engine", "reference"]) == 2
    assert "did you mean 'job'?" in capsys.readouterr().err
