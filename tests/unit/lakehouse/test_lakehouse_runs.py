"""The run ledger: one row a run, and a dead run is recognised."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import RUNS

JOB = parse_job("""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP", timestamp_by: at}}
query: {from: cars, window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}
""")
T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def _row(run_id: str, status: str = runs.RUNNING, job: str = "cars", **more: Any) -> dict[str, Any]:
    started = T0 + dt.timedelta(minutes=int(run_id))
    return {
        "run_id": run_id,
        "job": job,
        "kind": "replay",
        "status": status,
        "started_at": started,
        "process": runs.this_process(),
        "versions_read": {"arrivals/cars": 3},
        "engine": {"tailrace": "0"},
        **more,
    }


def test_a_run_that_ends_replaces_its_own_row_and_no_other(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    for row in (_row("1"), _row("2"), _row("3", job="trucks"), _row("2", runs.SUCCEEDED, rows_written={"w": 5})):
        runs.record(lakehouse, row)
    reported = runs.runs_of(lakehouse, "cars")
    assert [(run["run_id"], run["status"], run["rows_written"]) for run in reported] == [
        ("1", "running", None),
        ("2", "succeeded", {"w": 5}),
    ]
    assert reported[0]["versions_read"] == {"arrivals/cars": 3}
    assert DeltaTable(tmp_path / "runs").metadata().partition_columns == ["job"]


def test_the_last_run_that_succeeded_is_found(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    assert runs.last_succeeded(lakehouse, "cars") is None
    for row in (_row("1", runs.SUCCEEDED), _row("2", runs.SUCCEEDED), _row("3", runs.FAILED)):
        runs.record(lakehouse, row)
    last = runs.last_succeeded(lakehouse, "cars")
    assert last is not None
    assert last["run_id"] == "2"


def test_a_running_run_whose_process_is_gone_is_abandoned(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    host = runs.this_process().rpartition("/")[0]
    for row in (
        _row("1", process=f"{host}/{gone.pid}"),
        _row("2"),
        _row("3", process=f"elsewhere/{gone.pid}"),
    ):
        runs.record(lakehouse, row)
    assert runs.abandon_dead(lakehouse, JOB) == ["1"]
    assert [run["status"] for run in runs.runs_of(lakehouse, "cars")] == ["abandoned", "running", "running"]


def test_an_abandoned_run_has_the_tables_that_it_committed(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    host = runs.this_process().rpartition("/")[0]
    runs.record(lakehouse, _row("1", process=f"{host}/{gone.pid}"))
    for run_id in ("0", "1", "2"):
        about = CommitProperties(custom_metadata={"userMetadata": json.dumps({"run_id": run_id})})
        write_deltalake(lakehouse.uri("verdicts/cars"), pa.table({"a": [1]}), mode="append", commit_properties=about)
    runs.abandon_dead(lakehouse, JOB)
    (run,) = runs.runs_of(lakehouse, "cars")
    assert run["versions_written"] == {"verdicts/cars": 1}
    assert run["error"].endswith("which replaces what it left; it has written verdicts/cars (version 1)")


def test_a_ledger_of_before_goes_on_with_columns_that_it_lacks(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    new = ("files_planned", "files_read", "bytes_planned", "bytes_read", "scans", "warnings")
    before = pa.schema([field for field in RUNS if field.name not in new])
    rows = pa.Table.from_pylist([{name: _row("1").get(name) for name in before.names}], schema=before)
    write_deltalake(lakehouse.uri("runs"), rows, partition_by=["job"])
    runs.record(lakehouse, _row("2", files_planned={"arrivals/cars": 1}))
    runs.record(lakehouse, _row("2", runs.SUCCEEDED, files_read={"arrivals/cars": 1}, warnings=["odd"]))
    runs.record(lakehouse, _row("1", runs.ABANDONED))
    assert [(run["status"], run["files_read"], run["warnings"]) for run in runs.runs_of(lakehouse, "cars")] == [
        ("abandoned", None, None),
        ("succeeded", {"arrivals/cars": 1}, ["odd"]),
    ]


def test_a_long_ledger_lies_in_few_files_and_keeps_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_MOST_FILES", 6)
    lakehouse = Lakehouse.at(tmp_path)
    runs.record(lakehouse, _row("1", job="trucks"))
    for number in range(1, 11):
        runs.record(lakehouse, _row(str(number)))
        runs.record(lakehouse, _row(str(number), runs.SUCCEEDED))
    assert [run["run_id"] for run in runs.runs_of(lakehouse, "cars")] == [str(number) for number in range(1, 11)]
    assert {run["status"] for run in runs.runs_of(lakehouse, "cars")} == {"succeeded"}
    assert len(DeltaTable(tmp_path / "runs").file_uris()) == 5
    runs.record(lakehouse, _row("1", runs.FAILED, job="trucks"))
    assert [run["status"] for run in runs.runs_of(lakehouse, "trucks")] == ["failed"]
