"""A real master and its workers: the same results as on one machine, also where a worker or the driver is killed."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import JOB, Tailrace, finished
from standalone import BEGUN, Cluster, Worker, wait_until

from pipelines.runtime.cluster import MASTER_VARIABLE

ON_ONE_MACHINE = "0403f0824131b4144ccc03c972ed0abe44e2ddc6426728a13f2f982e66c4a915"
TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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
    application = _kill_a_busy_worker(tailrace, BEGUN, 6)
    run = finished(process)
    assert _repeated_tasks(tailrace, application)
    assert (run["status"], run["output_fingerprint"]) == ("succeeded", ON_ONE_MACHINE)
    assert run["rows_written"] == {f"verdicts/{JOB}": 166_995, f"windows/{JOB}": 103_232}


@pytest.mark.parametrize("moment", [(BEGUN, 2), ("with operation load", 1)], ids=["reading", "with its state open"])
def test_a_live_run_whose_worker_is_killed_loses_nothing(
    tailrace: Tailrace, demo: tuple[Path, Any], tmp_path: Path, moment: tuple[str, int]
) -> None:
    lakehouse, _ = demo
    copied = _copy_for_a_live_run(lakehouse, tmp_path)
    process = tailrace.start("stream", JOB, "--until-caught-up", "--lakehouse", str(copied))
    application = _kill_a_busy_worker(tailrace, *moment)
    assert sum(finished(process)["counts_by_verdict"].values()) == 328_521
    assert _repeated_tasks(tailrace, application)
    compared = tailrace.run("reconcile", JOB, "--lakehouse", str(tmp_path))
    assert (compared["equal"], compared["differing"]) == (103_232, 0)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_replay_whose_driver_ends_frees_its_executors_and_the_next_one_gives_the_same_fingerprint(
    tailrace: Tailrace, demo: tuple[Path, Any], how: signal.Signals
) -> None:
    lakehouse, _ = demo
    _end_a_busy_driver(tailrace, tailrace.start("replay", JOB, "--lakehouse", str(lakehouse)), how)
    run = tailrace.run("replay", JOB, "--lakehouse", str(lakehouse))
    assert run["output_fingerprint"] == ON_ONE_MACHINE
    before = tailrace.run("runs", JOB, "--last", "2", "--lakehouse", str(lakehouse))[0]
    assert before["status"] == {signal.SIGINT: "failed", signal.SIGKILL: "abandoned"}[how]


def test_a_live_run_whose_driver_is_killed_goes_on_in_the_next_one(
    tailrace: Tailrace, demo: tuple[Path, Any], tmp_path: Path
) -> None:
    lakehouse, _ = demo
    live_run = ("stream", JOB, "--until-caught-up", "--lakehouse", str(_copy_for_a_live_run(lakehouse, tmp_path)))
    _end_a_busy_driver(tailrace, tailrace.start(*live_run), signal.SIGKILL, "with operation load")
    assert sum(tailrace.run(*live_run)["counts_by_verdict"].values()) == 328_521
    compared = tailrace.run("reconcile", JOB, "--lakehouse", str(tmp_path))
    assert (compared["equal"], compared["differing"]) == (103_232, 0)


def _copy_for_a_live_run(lakehouse: Path, folder: Path) -> Path:
    for table in (f"windows/{JOB}", "arrivals/departures"):
        shutil.copytree(lakehouse / table, folder / table)
    return folder


def _end_a_busy_driver(
    tailrace: Tailrace, process: subprocess.Popen[str], how: signal.Signals, after: str = BEGUN
) -> None:
    """End a command by a signal once its executors have logged a text; its application must end with it."""
    cluster = tailrace.cluster
    cluster.wait_for_log(after)
    process.send_signal(how)
    process.communicate(timeout=120)
    assert process.returncode != 0
    wait_until(lambda: not cluster.applications(), "the end of the application", 60)


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
            if (log := logs[worker.folder]).count(after) >= times and log.count(BEGUN) > log.count("Finished task ")
        ]

    wait_until(lambda: bool(busy()), "a busy worker")
    busy()[0].kill()
    return application


def _repeated_tasks(tailrace: Tailrace, application: str) -> list[str]:
    """The tasks that were begun a second time, as ``task.attempt in stage stage.attempt``."""
    logs = "".join(worker.log(application) for worker in tailrace.cluster.workers)
    begun = re.findall(BEGUN + r"(\S+ in stage \S+)", logs)
    return [task for task in begun if re.search(r"\.[1-9]", task)]
