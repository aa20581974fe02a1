"""``make ui`` serves the reports of a lakehouse that is a folder, and says so where it cannot."""

from __future__ import annotations

import runpy
import socket
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "ui.py"


def served(environment: dict[str, str]) -> dict[str, str]:
    """The environment that Dagster would be started with."""
    script: dict[str, Any] = runpy.run_path(str(SCRIPT))
    found: dict[str, str] = script["serve_reports"](environment)
    return found


def test_a_taken_port_is_said_and_links_stay_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        given = {"TAILRACE_LAKEHOUSE": str(tmp_path), "TAILRACE_REPORTS_PORT": port}
        assert served(given) == given
    reported = capsys.readouterr().out
    assert f"reports are not served at port {port}: Address already in use" in reported
    assert "TAILRACE_REPORTS_PORT names another" in reported


@pytest.mark.parametrize(
    "given",
    [
        {"TAILRACE_LAKEHOUSE": "/lakehouse", "TAILRACE_REPORTS_URL": "https://reports.example"},
        {"TAILRACE_LAKEHOUSE": "s3://bucket/lakehouse"},
    ],
)
def test_reports_that_others_serve_or_that_lie_elsewhere_are_not_served(given: dict[str, str]) -> None:
    assert served(given) == given
