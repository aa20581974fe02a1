"""A run of Dagster on a cluster: cancelling it frees the cores that it had."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import JOB, Tailrace
from running import ROOT, dagster_ui
from standalone import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_run_that_a_person_cancels_frees_its_executors(
    tailrace: Tailrace, demo: tuple[Path, Any], tmp_path: Path
) -> None:
    lakehouse, _ = demo
    cluster, jobs = tailrace.cluster, tmp_path / "jobs"
    jobs.mkdir()
    shutil.copy(ROOT / "pipelines" / "job" / "examples" / f"{JOB}.yaml", jobs)
    with dagster_ui(tmp_path, jobs, str(lakehouse), **tailrace.environment) as ui:
        run = ui.launch(f"{JOB}_replay", {}, {"ops": {f"replay_{JOB}": {"config": {"reason": "a trial"}}}})
        cluster.wait_for_log()
        ui.cancel(run)
        assert ui.ended(run, 120) == "CANCELED"
        wait_until(lambda: not cluster.applications(), "the end of the application", 60)
    (ended,) = tailrace.run("runs", JOB, "--last", "1", "--lakehouse", str(lakehouse))
    assert ended["status"] in ("failed", "abandoned")
