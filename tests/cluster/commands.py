"""Commands of Tailrace with the cluster as master."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from standalone import Cluster

JOB = "departures_per_hour"
"""The job of the demo."""


@dataclass
class Tailrace:
    """Runs ``tailrace`` with the cluster as master."""

    cluster: Cluster
    environment: dict[str, str]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command; its stdout is one JSON document."""
        command = [sys.executable, "-m", "pipelines.cli", *arguments, "--json"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **self.environment})

    def run(self, *arguments: str) -> Any:
        """What a command prints that succeeds."""
        return finished(self.start(*arguments))


def finished(process: subprocess.Popen[str]) -> Any:
    """What a command that was started prints; it must succeed."""
    out, errors = process.communicate(timeout=900)
    assert process.returncode == 0, f"{out[-2000:]}\n{errors[-4000:]}"
    return json.loads(out)
