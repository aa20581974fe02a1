"""The commands ingest, plan and show: output, formats and exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from lakehouse_samples import lines, record

from pipelines.cli.main import run

JOB = """
tailrace: 1
job: cars_per_booth
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT, x DOUBLE", timestamp_by: at}}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 10m}}, aggregates: {cars: "count(*)"}}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TAILRACE_LAKEHOUSE", str(tmp_path / "lakehouse"))
    (tmp_path / "cars.yaml").write_text(JOB)
    return str(tmp_path / "cars.yaml")


def _ingest(job: str, *records: dict[str, object] | str, more: tuple[str, ...] = ()) -> int:
    file = lines(Path(job).parent / "cars.jsonl", *records)
    return run(["ingest", job, "--input", "cars", str(file), *more])


def test_a_clean_batch_exits_0_and_says_how_many(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ingest(job, record(1), record(2), more=("--batch", "one")) == 0
    assert capsys.readouterr().out == (
        "arrivals/cars: 2 event(s) appended, arrived 2026-01-01T12:01:00Z to 2026-01-01T12:02:00Z, batch one\n"
    )
    assert _ingest(job, record(1), record(2), more=("--batch", "one")) == 0
    assert capsys.readouterr().out == "batch one is in arrivals/cars already: nothing to do\n"


def test_refused_records_exit_3_and_are_named(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ingest(job, record(1), "oops") == 3
    reported = capsys.readouterr().err
    assert "error: 1 record(s) were refused and are in quarantine/cars; the other 1 were appended" in reported
    assert "cars.jsonl:2: malformed JSON" in reported


def test_refused_records_under_json_are_one_document_and_exit_3(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ingest(job, record(1), "oops", more=("--json",)) == 3
    data = json.loads(capsys.readouterr().out)
    assert (data["events"], data["quarantined"], data["refused"][0]["position"]) == (1, 1, 2)


def test_a_plan_is_printed_as_text_or_json_and_changes_nothing(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ingest(job, record(1), record(59)) == 0
    before = sorted(Path(job).parent.rglob("*"))
    capsys.readouterr()
    assert run(["plan", job, "--from", "2026-01-01T12:00:00Z", "--to", "2026-01-01T12:10:00Z", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["read_from"], data["read_to"]) == ("2026-01-01T11:45:00Z", "2026-01-01T12:10:05Z")
    assert data["settled"] is True
    assert run(["plan", job, "--from", "2026-01-01T12:00:00Z"]) == 0
    assert "unsettled: the read range ends with the log" in capsys.readouterr().out
    assert sorted(Path(job).parent.rglob("*")) == before


def test_a_plan_without_a_log_exits_2(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", job]) == 2
    assert "has no arrival log yet" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["x", "-1", "9", "trucks=0", "cars=", "1=cars"])
def test_a_version_that_is_none_exits_2(job: str, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    _ingest(job, record(1))
    assert run(["plan", job, f"--as-of={given}"]) == 2
    assert run(["plan", job, "--as-of", "cars=0"]) == 0


def test_rows_are_shown_as_jsonl_csv_and_table(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    _ingest(job, record(1, booth='say "a,b"', n=None), record(2))
    capsys.readouterr()
    assert run(["show", job, "arrivals", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["sequence"], row["booth"], row["n"], row["x"]) for row in rows] == [
        (1, 'say "a,b"', None, 0.5),
        (2, "a", 1, 0.5),
    ]
    assert run(["show", job, "arrivals", "--format", "csv", "--to", "2026-01-01T12:02:00Z"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["booth"], row["n"], row["arrival_time"]) == ('say "a,b"', "", "2026-01-01T12:01:00Z")
    assert run(["show", job, "arrivals/cars"]) == 0
    header, *body = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["arrival_time", "input_partition", "sequence"]
    assert [line.split()[:3] for line in body] == [
        ["2026-01-01T12:01:00Z", "0", "1"],
        ["2026-01-01T12:02:00Z", "0", "2"],
    ]


def test_a_table_not_yet_written_shows_nothing_and_exits_0(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", job, "windows"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["show", job, "runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run(["show", job, "window"]) == 2


def test_a_plan_shows_what_its_initial_state_costs(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ingest(job, record(1), record(59)) == 0
    text = JOB.replace("stream_analytics", "atlas").replace("timestamp_by: at", "timestamp_by: at, partitions: 1")
    Path(job).write_text(text)
    capsys.readouterr()
    assert run(["plan", job, "--from", "2026-01-01T12:00:00Z", "--to", "2026-01-01T12:30:00Z"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "read the arrivals [2026-01-01T00:00:00Z, 2026-01-01T23:59:59.999999Z] of arrivals/cars" in printed
    assert "initial state of cars from _cache/summaries/cars: it lacks 1 of 1 days of arrivals" in printed
    assert "settled: no later arrival changes the result" in printed
