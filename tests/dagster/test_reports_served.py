"""``make ui`` serves the reports of a lakehouse that is a folder, and says so where it cannot."""

from __future__ import annotations

import runpy
import socket
from http.client import HTTPConnection
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


def test_only_the_reports_are_served_and_only_under_the_name_of_this_machine(tmp_path: Path) -> None:
    reports = tmp_path / "lakehouse" / "reports"
    reports.mkdir(parents=True)
    (tmp_path / "lakehouse" / "secret.txt").write_text("secret")
    (reports / "page.html").write_text("page")
    (reports / "link.html").symlink_to(tmp_path / "lakehouse" / "secret.txt")
    (reports / "up").symlink_to(tmp_path / "lakehouse")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    served({"TAILRACE_LAKEHOUSE": str(tmp_path / "lakehouse"), "TAILRACE_REPORTS_PORT": str(port)})

    def status(path: str, host: str = f"localhost:{port}") -> int:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", path, headers={"Host": host})
            return connection.getresponse().status
        finally:
            connection.close()

    assert status("/page.html") == 200
    for path in ("/link.html", "/up/secret.txt", "/../secret.txt", "/%2e%2e/secret.txt"):
        assert status(path) == 404
    assert status("/page.html", "elsewhere.example") == 404
