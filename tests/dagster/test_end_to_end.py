"""Dagster as a person has it: started by ``deploy/ui.py``, asked over GraphQL, killed, and stopped. Minutes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from small_jobs import load, tolls

from assets.definitions import build
from pipelines.lakehouse.ingest import ingest
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

ROOT = Path(__file__).parents[2]
PORT = 3987
_BACKFILL = """
mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
_STATE = "query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"
_RUNS = "query { runsOrError { ... on Runs { results { runId status pipelineName tags { key value } } } } }"
_KILLED = """
import os, signal, sys
from pathlib import Path
import dagster as dg
from assets.definitions import build
from pipelines.lakehouse import write

plain = write.replace_range

def die(frame, house, name, *rest):
    if name.startswith("windows/"):
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(frame, house, name, *rest)

write.replace_range = die
defs = build(Path(sys.argv[1]), sys.argv[2])
config = {"from": "2026-03-02", "to": "2026-03-04", "reason": "a trial"}
defs.resolve_job_def("tolls_replay").execute_in_process(
    run_config={"ops": {"replay_tolls": {"config": config}}},
    resources=defs.resources,
    instance=dg.DagsterInstance.get(),
)
"""


class Ui:
    """A running Dagster over the lakehouse ``root``."""

    def __init__(self, process: subprocess.Popen[bytes], root: str, home: str) -> None:
        self.process, self.root, self.home = process, root, home

    def ask(self, query: str, variables: dict[str, Any] | None = None) -> Any:
        body = json.dumps({"query": query, "variables": variables or {}}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        return found["data"]

    def backfill(self, *days: str) -> str:
        """Backfill windows and verdicts of these days; the backfill's id."""
        assets = [{"path": ["tolls", name]} for name in ("windows", "verdicts")]
        params = {"assetSelection": assets, "partitionNames": list(days)}
        launched = self.ask(_BACKFILL, {"params": params})["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return str(launched["backfillId"])

    def status(self, backfill: str) -> str:
        return str(self.ask(_STATE, {"id": backfill})["partitionBackfillOrError"]["status"])

    def runs(self) -> list[tuple[str, str]]:
        return [(run["pipelineName"], run["status"]) for run in self.ask(_RUNS)["runsOrError"]["results"]]

    def ledger(self) -> list[dict[str, Any]]:
        return runs_of(Lakehouse.at(self.root), "tolls")

    def processes(self) -> list[int]:
        """All that lives with this Dagster's home in its environment."""
        mark = f"DAGSTER_HOME={self.home}".encode()
        return [number for number in _processes() if mark in _environment(number)]


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _environment(number: int) -> list[bytes]:
    try:
        return Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def until(what: Callable[[], Any], seconds: int) -> Any:
    """What ``what`` gives once it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"nothing after {seconds} s")


@pytest.fixture
def ui(tmp_path: Path, jobs: Path) -> Iterator[Ui]:
    root, home = load(tmp_path), str(tmp_path / "ui_home")
    environment = {**os.environ, "DAGSTER_HOME": home, "TAILRACE_LAKEHOUSE": root, "TAILRACE_JOBS": str(jobs)}
    environment["TAILRACE_AUTOMATION"] = "on"
    with (tmp_path / "ui.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "deploy" / "ui.py"), "--port", str(PORT)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            # as a shell starts what it puts into the background
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        found = Ui(process, root, home)

        def up() -> bool:
            try:
                return bool(found.ask("query { version }"))
            except OSError:
                assert process.poll() is None, (tmp_path / "ui.log").read_text()
                return False

        try:
            until(up, 180)
            yield found
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_backfill_is_one_run_a_killed_one_recovers_once_a_late_batch_is_replayed_and_ctrl_c_leaves_nothing(
    ui: Ui, tmp_path: Path
) -> None:
    backfill = ui.backfill("2026-03-02", "2026-03-03", "2026-03-04")
    until(lambda: ui.status(backfill) == "COMPLETED_SUCCESS", 400)
    assert ui.runs() == [("__ASSET_JOB", "SUCCESS")]
    [first] = ui.ledger()
    assert (first["status"], first["output_from"].day, first["output_to"].day) == ("succeeded", 2, 5)

    ui.backfill("2026-03-06", "2026-03-07")
    running = until(lambda: [run for run in ui.ledger() if run["status"] == "running"], 200)
    os.kill(int(running[0]["process"].rpartition("/")[2]), signal.SIGKILL)
    until(lambda: [run["status"] for run in ui.ledger()] == ["succeeded", "abandoned", "succeeded"], 400)
    assert [run["output_from"].day for run in ui.ledger()] == [2, 6, 6]

    late = {"arrival_time": "2026-03-03T12:00:00Z", "input_partition": 7, "sequence": 0, "at": "2026-03-03T12:00:00Z"}
    (tmp_path / "late.jsonl").write_text(json.dumps(late) + "\n", encoding="utf-8")
    assert ingest(tolls(), "cars", [tmp_path / "late.jsonl"], ui.root, "late").appended == 1
    until(lambda: [run["status"] for run in ui.ledger()][3:] == ["succeeded"], 400)
    again = ui.ledger()[-1]
    assert (again["output_from"].day, again["output_to"].day) == (3, 4)
    assert "added by batch late in version 1" in again["reason"]
    # the sensor for lost ranges has ticked meanwhile, too, and found the retry's work done
    assert len(ui.ledger()) == 4

    assert len(ui.processes()) >= 5
    ui.process.send_signal(signal.SIGINT)
    assert ui.process.wait(60) == 0
    assert ui.processes() == []


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
    assert "its process ended without a word" in ledger[1]["reason"]
    assert DeltaTable(f"{root}/windows/tolls").to_pyarrow_table().num_rows > 0
