"""A job folder and a Dagster home of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_jobs import TOLLS


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees this machine's Dagster, jobs or tables."""
    home = tmp_path / "dagster_home"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("TAILRACE_LAKEHOUSE", str(tmp_path / "no_lakehouse"))
    # one day the logs of these tests will be history
    monkeypatch.setenv("TAILRACE_END", "2100-01-01")
    for name in ("TAILRACE_JOBS", "TAILRACE_START", "TAILRACE_REPORTS_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A folder with the job ``tolls``."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "tolls.yaml").write_text(TOLLS, encoding="utf-8")
    return folder
