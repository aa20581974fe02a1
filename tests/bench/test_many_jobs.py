"""The bench of many jobs: sensors understand its lakehouse, and what a tick opens does not grow with the runs."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from bench.many_jobs import write_jobs, write_lakehouse
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.freshness import stale_days


@pytest.mark.parametrize("days", [3, 30])
def test_a_look_for_stale_days_opens_as_many_tables_however_many_runs_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    jobs = write_jobs(tmp_path / "jobs", 2)
    lakehouse = Lakehouse.at(tmp_path / "lakehouse")
    write_lakehouse(lakehouse, jobs, days)
    opened = []

    class Counted(deltalake.DeltaTable):
        def __init__(self, *args: object, **more: object) -> None:
            opened.append(args)
            super().__init__(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("pipelines.lakehouse.root.DeltaTable", Counted)
    assert [stale_days(lakehouse, job) for job in jobs] == [[], []]
    assert len(opened) == 6
