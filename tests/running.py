"""A real Dagster, started as a person starts it, and what a test asks of it over GraphQL."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_BACKFILL = """
mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
_STATE = "query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"
_RUNS = "query { runsOrError { ... on Runs { results { runId status pipelineName tags { key value } } } } }"
_LAUNCH = """
mutation ($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}"""
_CANCEL = """
mutation ($id: String!) {
  terminateRun(runId: $id) {
    __typename ... on TerminateRunFailure { message } ... on PythonError { message }
  }
}"""
_RUN = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status stepStats { stepKey status } } } }"
_TICK = """
mutation ($selector: SensorSelector!) {
  sensorDryRun(selectorData: $selector, cursor: null) {
    ... on DryRunInstigationTick { evaluationResult { skipReason runRequests { tags { key value } } } }
    ... on PythonError { message }
  }
}"""
_TICKS = """
query ($selector: SensorSelector!) {
  sensorOrError(sensorSelector: $selector) {
    ... on Sensor { sensorState { ticks(limit: 10) { timestamp status skipReason runIds } } }
  }
}"""
_DAY = """
query ($key: AssetKeyInput!, $day: String!) {
  assetNodeOrError(assetKey: $key) {
    ... on AssetNode {
      staleStatus(partition: $day)
      staleCauses(partition: $day) { reason }
      assetMaterializations(partitions: [$day]) {
        runId
        metadataEntries {
          label __typename
          ... on TextMetadataEntry { text } ... on IntMetadataEntry { intRepr } ... on FloatMetadataEntry { floatValue }
          ... on BoolMetadataEntry { boolValue } ... on UrlMetadataEntry { url } ... on PathMetadataEntry { path }
        }
      }
    }
  }
}"""


class Running:
    """A webserver at ``port``, and the Dagster behind it, over the lakehouse ``root``."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, root: str, home: str) -> None:
        self.process, self.port, self.root, self.home = process, port, root, home

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def ask(self, query: str, variables: dict[str, Any] | None = None) -> Any:
        body = json.dumps({"query": query, "variables": variables or {}}).encode()
        request = urllib.request.Request(self.url("/graphql"), body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        return found["data"]

    def is_up(self) -> bool:
        try:
            return bool(self.ask("query { version }"))
        except OSError:
            assert self.process.poll() is None
            return False

    def backfill(self, job: str, days: Sequence[str]) -> str:
        """Backfill windows and verdicts of these days; the backfill's id."""
        assets = [{"path": [job, name]} for name in ("windows", "verdicts")]
        params = {"assetSelection": assets, "partitionNames": list(days)}
        launched = self.ask(_BACKFILL, {"params": params})["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return str(launched["backfillId"])

    def backfill_status(self, backfill: str) -> str:
        return str(self.ask(_STATE, {"id": backfill})["partitionBackfillOrError"]["status"])

    def launch(self, job: str, tags: Mapping[str, str], config: Mapping[str, Any] | None = None) -> str:
        """Start a run of a job, as the launchpad does; its id."""
        params = {
            "selector": {**_REPOSITORY, "pipelineName": job},
            "runConfigData": config or {},
            "mode": "default",
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        launched = self.ask(_LAUNCH, {"params": params})["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def cancel(self, run: str) -> None:
        """Ask a run to end, as the button of the page does."""
        answered = self.ask(_CANCEL, {"id": run})["terminateRun"]
        assert answered["__typename"] == "TerminateRunSuccess", answered

    def days(self, job: str, first: str, last: str) -> str:
        """Everything of these days with all checks, in one run; its id."""
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        return self.launch(f"{job}_days", tags)

    def ended(self, run: str, seconds: int = 500) -> str:
        """The status with which a run ends."""
        return str(until(lambda: (status := self.run(run)["status"]) in ENDED and status, seconds))

    def run(self, run: str) -> dict[str, Any]:
        """A run's ``status``, and the steps that began by key with theirs."""
        found = self.ask(_RUN, {"id": run})["runOrError"]
        return {
            "status": found["status"],
            "steps": {step["stepKey"]: step["status"] for step in found["stepStats"]},
        }

    def runs(self) -> list[tuple[str, str]]:
        return [(run["pipelineName"], run["status"]) for run in self.ask(_RUNS)["runsOrError"]["results"]]

    def tick(self, sensor: str) -> tuple[str | None, list[dict[str, str]]]:
        """What a sensor would do now: why it does nothing, or the tags of the runs that it would start."""
        result = self.ask(_TICK, {"selector": {**_REPOSITORY, "sensorName": sensor}})["sensorDryRun"]
        found = result["evaluationResult"]
        requests = [{tag["key"]: tag["value"] for tag in one["tags"]} for one in found["runRequests"] or []]
        return found["skipReason"], requests

    def ticks(self, sensor: str) -> list[dict[str, Any]]:
        """The sensor's last ticks by the daemon, newest first."""
        found = self.ask(_TICKS, {"selector": {**_REPOSITORY, "sensorName": sensor}})["sensorOrError"]
        ticks: list[dict[str, Any]] = found["sensorState"]["ticks"]
        return ticks

    def day(self, asset: str, day: str) -> dict[str, Any]:
        """What Dagster knows of one partition: ``stale``, ``causes``, and its runs' ``metadata``, newest first."""
        node = self.ask(_DAY, {"key": {"path": asset.split("/")}, "day": day})["assetNodeOrError"]
        return {
            "stale": node["staleStatus"],
            "causes": [cause["reason"] for cause in node["staleCauses"]],
            "runs": [one["runId"] for one in node["assetMaterializations"]],
            "metadata": [_values(one["metadataEntries"]) for one in node["assetMaterializations"]],
        }

    def processes(self) -> list[int]:
        """All that lives with this Dagster's home in its environment."""
        mark = f"DAGSTER_HOME={self.home}".encode()
        return [number for number in _processes() if mark in _environment(number)]


_REPOSITORY = {"repositoryLocationName": "tailrace", "repositoryName": "__repository__"}


def in_background(port: int) -> dict[str, Any]:
    """What ``make ui`` starts, as a shell puts it into the background: Ctrl-C means nothing there."""
    command = [sys.executable, str(ROOT / "deploy" / "ui.py"), "--port", str(port)]
    return {"args": command, "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}


def by_make(port: int) -> dict[str, Any]:
    """``make ui`` itself, as the leader of a group, which a terminal would send Ctrl-C to."""
    # the environment that runs the tests is the one to use, as it is
    given = [f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.ready", f"ARGS=--port {port}"]
    return {"args": ["make", "-C", str(ROOT), *given, "ui"], "start_new_session": True}


@contextmanager
def dagster_ui(
    folder: Path,
    jobs: Path,
    root: str,
    *,
    start: Callable[[int], dict[str, Any]] = in_background,
    **environment: str,
) -> Iterator[Running]:
    """Dagster's webserver, daemon and code over a lakehouse, in a home in ``folder``; stopped at the end."""
    home, port = str(folder / "ui_home"), free_port()
    given = {"DAGSTER_HOME": home, "TAILRACE_LAKEHOUSE": root, "TAILRACE_JOBS": str(jobs)}
    given["TAILRACE_REPORTS_PORT"] = str(free_port())
    with (folder / "ui.log").open("wb") as log:
        process = subprocess.Popen(
            env={**os.environ, **given, **environment}, stdout=log, stderr=subprocess.STDOUT, **start(port)
        )
        found = Running(process, port, root, home)
        try:
            until(found.is_up, 180)
            yield found
        except BaseException:
            sys.stderr.write((folder / "ui.log").read_text(errors="replace")[-20_000:])
            raise
        finally:
            process.terminate()
            process.wait(90)


def until(what: Callable[[], Any], seconds: int) -> Any:
    """What ``what`` gives once it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"nothing after {seconds} s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _values(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = {}
    for entry in entries:
        values = [value for name, value in entry.items() if name not in ("label", "__typename")]
        number = entry["__typename"] == "IntMetadataEntry"
        found[entry["label"]] = int(values[0]) if number else values[0] if values else None
    return found


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _environment(number: int) -> list[bytes]:
    try:
        return Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
