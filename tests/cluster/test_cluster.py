"""A real master and its workers: the same results as on one machine, also where a worker is killed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import Tailrace, finished
from standalone import Cluster, Worker, wait_until

from pipelines.runtime.cluster import MASTER_VARIABLE

JOB = "departures_per_hour"
ON_ONE_MACHINE = "0403f0824131b4144ccc03c972ed0abe44e2ddc6426728a13f2f982e66c4a915"
TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"

_BEGUN = "Running task "

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def demo(tailrace: Tailrace, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The lakehouse of the demo, and what the demo printed."""
    lakehouse = tmp_path_factory.mktemp("demo")
    return lakehouse, tailrace.run("demo", "--lakehouse", str(lakehouse))


def test_the_demo_gives_the_fingerprint_of_one_machine_and_its_live_run_agrees(demo: tuple[Path, Any]) -> None:
    _, printed = demo
    assert printed["run"]["output_fingerprint"] == ON_ONE_MACHINE
    assert (printed["reconciled"]["equal"], printed["reconciled"]["differing"]) == (103_232, 0)


def test_doctor_finds_the_executors_fit(tailrace: Tailrace, tmp_path: Path) -> None:
    checked = tailrace.run("doctor", "--lakehouse", str(tmp_path))
    of_executors = {one["name"]: one["fit"] for one in checked["findings"] if "executors" in one["name"]}
    assert len(of_executors) == 5
    assert all(of_executors.values())
    assert list(tmp_path.iterdir()) == []


def test_executors_without_python_are_fit_for_replays_alone(cluster: Cluster, tmp_path: Path) -> None:
    no_python = Tailrace(cluster, {MASTER_VARIABLE: cluster.master, "PYSPARK_PYTHON": "/nonexistent"})
    checked = no_python.run("doctor", "--lakehouse", str(tmp_path))
    (finding,) = [one for one in checked["findings"] if not one["fit"]]
    assert (finding["name"], finding["required"]) == ("executors' Python", False)
    assert 'Cannot run program "/nonexistent"' in finding["seen"]
    verdicts = no_python.run("verify", str(TRANSCRIPTS / "atlas" / "late.yaml"), "--engine", "spark")
    assert all(verdict["passed"] for verdict in verdicts)


@pytest.mark.parametrize("profile", ["atlas", "stream_analytics", "stream_insight"])
def test_replays_of_transcripts_give_their_golden_tables(tailrace: Tailrace, profile: str) -> None:
    verdicts = tailrace.run("verify", str(TRANSCRIPTS / profile), "--engine", "spark")
    assert len(verdicts) > 40
    assert all(verdict["passed"] for verdict in verdicts)


def test_live_runs_of_transcripts_give_their_golden_tables(tailrace: Tailrace) -> None:
    verdicts = tailrace.run("verify", str(TRANSCRIPTS / "stream_analytics" / "windows.yaml"), "--engine", "stream")
    assert len(verdicts) > 15
    assert all(verdict["passed"] for verdict in verdicts)


def test_a_replay_whose_worker_is_killed_gives_the_same_fingerprint(tailrace: Tailrace, demo: tuple[Path, Any]) -> None:
    lakehouse, _ = demo
    process = tailrace.start("replay", JOB, "--lakehouse", str(lakehouse))
    application = _kill_a_busy_worker(tailrace, _BEGUN, 6)
    run = finished(process)
    assert _repeated_tasks(tailrace, application)
    assert (run["status"], run["output_fingerprint"]) == ("succeeded", ON_ONE_MACHINE)
    assert run["rows_written"] == {f"verdicts/{JOB}": 166_995, f"windows/{JOB}": 103_232}


@pytest.mark.parametrize("moment", [(_BEGUN, 2), ("with operation load", 1)], ids=["reading", "with its state open"])
def test_a_live_run_whose_worker_is_killed_loses_nothing(
    tailrace: Tailrace, demo: tuple[Path, Any], tmp_path: Path, moment: tuple[str, int]
) -> None:
    lakehouse, _ = demo
    for table in (f"windows/{JOB}", "arrivals/departures"):
        shutil.copytree(lakehouse / table, tmp_path / table)
    process = tailrace.start("stream", JOB, "--until-caught-up", "--lakehouse", str(tmp_path))
    application = _kill_a_busy_worker(tailrace, *moment)
    assert sum(finished(process)["counts_by_verdict"].values()) == 328_521
    assert _repeated_tasks(tailrace, application)
    compared = tailrace.run("reconcile", JOB, "--lakehouse", str(tmp_path))
    assert (compared["equal"], compared["differing"]) == (103_232, 0)


def _kill_a_busy_worker(tailrace: Tailrace, after: str, times: int) -> str:
    """Kill a worker in the middle of a task, once it has logged a text so many times; another one replaces it. The
    application."""
    cluster = tailrace.cluster
    workers = [worker for worker in cluster.workers if worker.process.poll() is None]
    wait_until(lambda: bool(cluster.applications()), "the application")
    (application,) = cluster.applications()
    cluster.add_worker()

    def busy() -> list[Worker]:
        logs = {worker.folder: worker.log(application) for worker in workers}
        return [
            worker
            for worker in workers
            if (log := logs[worker.folder]).count(after) >= times and log.count(_BEGUN) > log.count("Finished task ")
        ]

    wait_until(lambda: bool(busy()), "a busy worker")
    busy()[0].kill()
    return application


def _repeated_tasks(tailrace: Tailrace, application: str) -> list[str]:
    """The tasks that were begun a second time, as ``task.attempt in stage stage.attempt``."""
    logs = "".join(worker.log(application) for worker in tailrace.cluster.workers)
    begun = re.findall(_BEGUN + r"(\S+ in stage \S+)", logs)
    return [task for task in begun if re.search(r"\.[1-9]", task)]
