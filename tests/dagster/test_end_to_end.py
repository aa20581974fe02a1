"""Dagster as a person has it: started by ``deploy/ui.py``, asked over GraphQL, killed, and stopped. Minutes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from running import ROOT, Running, by_make, dagster_ui, free_port, until
from small_jobs import load, tolls

from assets.definitions import build
from pipelines.ingest.batch import ingest
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

_KILLED = """
import os, signal, sys
from pathlib import Path
import dagster as dg
from assets.definitions import build
from pipelines.lakehouse import write

plain = write.replace_range

def die(frame, lakehouse, name, *rest):
    if name.startswith("windows/"):
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(frame, lakehouse, name, *rest)

write.replace_range = die
defs = build(Path(sys.argv[1]), sys.argv[2])
config = {"from": "2026-03-02", "to": "2026-03-04", "reason": "a trial"}
defs.resolve_job_def("tolls_replay").execute_in_process(
    run_config={"ops": {"replay_tolls": {"config": config}}},
    resources=defs.resources,
    instance=dg.DagsterInstance.get(),
)
"""


@pytest.fixture
def ui(tmp_path: Path, jobs: Path) -> Iterator[Running]:
    with dagster_ui(tmp_path, jobs, load(tmp_path), TAILRACE_AUTOMATION="on") as found:
        yield found


def ledger(ui: Running) -> list[dict[str, Any]]:
    return runs_of(Lakehouse.at(ui.root), "tolls")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_backfill_is_one_run_a_killed_one_recovers_once_a_late_batch_is_replayed_and_ctrl_c_leaves_nothing(
    ui: Running, tmp_path: Path
) -> None:
    backfill = ui.backfill("tolls", ["2026-03-02", "2026-03-03", "2026-03-04"])
    until(lambda: ui.backfill_status(backfill) == "COMPLETED_SUCCESS", 400)
    assert ui.runs() == [("__ASSET_JOB", "SUCCESS")]
    [first] = ledger(ui)
    assert (first["status"], first["output_from"].day, first["output_to"].day) == ("succeeded", 2, 5)

    ui.backfill("tolls", ["2026-03-06", "2026-03-07"])
    running = until(lambda: [run for run in ledger(ui) if run["status"] == "running"], 200)
    os.kill(int(running[0]["process"].rpartition("/")[2]), signal.SIGKILL)
    until(lambda: [run["status"] for run in ledger(ui)] == ["succeeded", "abandoned", "succeeded"], 400)
    assert [run["output_from"].day for run in ledger(ui)] == [2, 6, 6]

    late = {"arrival_time": "2026-03-03T12:00:00Z", "input_partition": 7, "sequence": 0, "at": "2026-03-03T12:00:00Z"}
    (tmp_path / "late.jsonl").write_text(json.dumps(late) + "\n", encoding="utf-8")
    assert ingest(tolls(), "cars", [tmp_path / "late.jsonl"], ui.root, "late").appended == 1
    until(lambda: [run["status"] for run in ledger(ui)][3:] == ["succeeded"], 400)
    again = ledger(ui)[-1]
    assert (again["output_from"].day, again["output_to"].day) == (3, 4)
    assert "added by batch late in version 1" in again["reason"]
    # the sensor for lost ranges has ticked meanwhile, too, and found the retry's work done
    assert len(ledger(ui)) == 4

    assert len(ui.processes()) >= 5
    ui.process.send_signal(signal.SIGINT)
    assert ui.process.wait(60) == 0
    assert ui.processes() == []


def test_ctrl_c_on_make_ui_leaves_no_process_and_no_open_port(tmp_path: Path, jobs: Path) -> None:
    reports = free_port()
    root = load(tmp_path)
    (Path(root) / "reports").mkdir()
    (Path(root) / "reports" / "one.html").write_text("made", encoding="utf-8")
    with dagster_ui(tmp_path, jobs, root, start=by_make, TAILRACE_REPORTS_PORT=str(reports)) as running:
        with urllib.request.urlopen(f"http://127.0.0.1:{reports}/one.html", timeout=10) as answer:
            assert answer.read() == b"made"
        assert len(running.processes()) >= 5
        os.killpg(running.process.pid, signal.SIGINT)
        running.process.wait(60)
        until(lambda: running.processes() == [], 5)
        for port in (running.port, reports):
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_replay_that_was_killed_is_recognised_and_replayed_for_its_range(
    tmp_path: Path, jobs: Path, spark: SparkSession
) -> None:
    root = load(tmp_path)
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(jobs), root], cwd=ROOT, capture_output=True, timeout=500)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert not DeltaTable.is_deltatable(f"{root}/windows/tolls")
    defs = build(jobs, root)
    with dg.DagsterInstance.get() as instance:
        # Dagster itself takes it for running still
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.STARTED]
        sensor = defs.resolve_sensor_def("tolls_lost_ranges")
        context = dg.build_sensor_context(instance=instance, repository_def=defs.get_repository_def())
        [request] = sensor.evaluate_tick(context).run_requests or []
        result = defs.resolve_job_def("tolls_replay").execute_in_process(
            run_config=request.run_config, tags=request.tags, resources=defs.resources, instance=instance
        )
        assert result.success
        assert sensor.evaluate_tick(context).run_requests == []
    ledger = runs_of(Lakehouse.at(root), "tolls")
    assert [run["status"] for run in ledger] == ["abandoned", "succeeded"]
    assert (ledger[1]["output_from"], ledger[1]["output_to"]) == (ledger[0]["output_from"], ledger[0]["output_to"])
    assert "its process is gone" in ledger[1]["reason"]
    assert DeltaTable(f"{root}/windows/tolls").to_pyarrow_table().num_rows > 0
