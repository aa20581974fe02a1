"""Another policy: the settings that give the live run's rows, searched at a few window ends. No Spark."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest
from reconcile_rows import ingested, policy, results

from pipelines.core.model import Grid, Job
from pipelines.core.time import HOUR, MINUTE
from pipelines.job.load import parse_job


def _job(late: str) -> Job:
    return parse_job(
        f"""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, n INT", timestamp_by: at}}}}
ordering: {{late_arrival: {late}, out_of_order: 1h, action: adjust}}
query: {{from: cars, window: {{tumbling: {{size: 1h}}}}, aggregates: {{cars: "count(*)", numbers: "sum(n)"}}}}
"""
    )


@pytest.fixture
def lakehouse(tmp_path: Path) -> Path:
    """Two events happened a quarter of an hour before they arrived, with the end of a window."""
    minutes = [(n, n - 15 if n in (75, 195) else n) for n in range(15, 360, 5)]
    rows = [{"arrival_time": _instant(one), "at": _instant(at), "n": n} for n, (one, at) in enumerate(minutes)]
    return ingested(_job("20m"), tmp_path / "lakehouse", {"cars": rows})


def _instant(minute: int) -> str:
    return f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"


def test_a_changed_tolerance_is_found_with_all_values_that_do_as_well(lakehouse: Path) -> None:
    found = policy(_job("20m"), lakehouse, results(_job("10m"), lakehouse))
    assert found is not None
    assert found.change.keys == ("ordering.late_arrival",)
    # an event that is a quarter of an hour late counts in the next window under any tolerance below that
    assert found.between_us == (0, 15 * MINUTE - 1)


def test_a_machine_whose_clock_races_finds_the_same_change(lakehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr("time.monotonic", lambda: next(hours))
    found = policy(_job("20m"), lakehouse, results(_job("10m"), lakehouse))
    assert found is not None
    assert found.between_us == (0, 15 * MINUTE - 1)


def test_windows_of_another_size_are_found(lakehouse: Path) -> None:
    job = _job("20m")
    wider = dataclasses.replace(job, query=dataclasses.replace(job.window_query, window=Grid(2 * HOUR, 2 * HOUR)))
    found = policy(job, lakehouse, results(wider, lakehouse))
    assert found is not None
    assert found.change.settings[0] == ("query.window.size", "1h", "2h")


def test_two_settings_that_changed_together_are_found(lakehouse: Path) -> None:
    job = _job("20m")
    (name, ordering), *_ = job.orderings
    both = dataclasses.replace(ordering, late_arrival_us=10 * MINUTE, action="drop")
    live = results(dataclasses.replace(job, orderings=((name, both),)), lakehouse)
    found = policy(job, lakehouse, live)
    assert found is not None
    assert found.change.keys == ("ordering.action", "ordering.late_arrival")


def test_rows_that_no_policy_gives_have_none(lakehouse: Path) -> None:
    live = [{**row, "numbers": -1} for row in results(_job("20m"), lakehouse)]
    assert policy(_job("20m"), lakehouse, live) is None
