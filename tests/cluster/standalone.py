"""A standalone Spark cluster on this machine: one master, and workers that can be killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.runtime import java
from pipelines.runtime.given import spark_home

HOST = "127.0.0.1"
BEGUN = "Running task "
"""What an executor logs as a task begins."""


@dataclass
class Worker:
    """A worker of one core; ``folder`` has a folder ``app-*`` for each application, with the logs of its executors."""

    process: subprocess.Popen[bytes]
    folder: Path

    def log(self, application: str) -> str:
        """What its executors have logged for an application."""
        return "".join(log.read_text(errors="replace") for log in (self.folder / application).glob("*/stderr"))

    def kill(self) -> None:
        """Kill the worker and its executors, which are of its process group, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Cluster:
    """A running cluster; ``master`` is its URL."""

    master: str
    monitor: str
    folder: Path
    workers: list[Worker] = field(default_factory=list)

    def add_worker(self, memory: str = "3g") -> Worker:
        """Start a worker and wait until the master has it."""
        folder = self.folder / f"worker-{len(self.workers)}"
        folder.mkdir()
        options = ("--cores", "1", "--memory", memory, "--host", HOST, "--work-dir", str(folder), "--webui-port", "0")
        known = self._alive()
        process = _start(folder, "org.apache.spark.deploy.worker.Worker", *options, self.master)
        self.workers.append(Worker(process, folder))
        wait_until(lambda: self._alive() > known, f"the worker of {folder}")
        return self.workers[-1]

    def applications(self) -> list[str]:
        """The ids of the applications that run now."""
        return [application["id"] for application in self._state()["activeapps"]]

    def wait_for_log(self, text: str = BEGUN) -> None:
        """Wait until the one application is there, and an executor of it has logged ``text``."""
        wait_until(lambda: bool(self.applications()), "the application")
        (application,) = self.applications()
        wait_until(lambda: any(text in worker.log(application) for worker in self.workers), f"'{text}'")

    def _alive(self) -> int:
        return int(self._state()["aliveworkers"])

    def _state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.monitor}/json/", timeout=30) as answer:
            state: dict[str, Any] = json.load(answer)
        return state


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster with its files in ``folder``; all of its processes have ended when the block ends."""
    port, monitor = _free_port(), _free_port()
    options = ("--host", HOST, "--port", str(port), "--webui-port", str(monitor))
    master = _start(folder, "org.apache.spark.deploy.master.Master", *options)
    cluster = Cluster(f"spark://{HOST}:{port}", f"http://{HOST}:{monitor}", folder)
    try:
        wait_until(lambda: _answers(monitor), "the master")
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in (*(worker.process for worker in cluster.workers), master):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Wait for ``what``; an error after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:.0f} seconds"
        time.sleep(0.2)


def _start(folder: Path, name: str, *options: str) -> subprocess.Popen[bytes]:
    # a machine of its own, as far as that can be had: another zone, and nothing of the driver's Python
    path = [one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != Path(sys.executable).parent]
    environment = {**os.environ, "PATH": os.pathsep.join(path), "PYTHONPATH": "", "TZ": "Asia/Kolkata"}
    environment |= {"JAVA_HOME": str(java.require_home()), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "512m"}
    environment["SPARK_MASTER_OPTS"] = "-Dspark.master.rest.enabled=false"
    command = [str(spark_home() / "bin" / "spark-class"), name, *options]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((HOST, port)) == 0
