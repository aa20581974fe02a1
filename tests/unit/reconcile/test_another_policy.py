"""Another policy: the settings that give the live run's rows at a few window ends. No Spark."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from pipelines.core.model import EVERYTHING, Job
from pipelines.core.time import MINUTE
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.read_range import read_range
from pipelines.recompute.logs import Logs
from pipelines.recompute.windows import CachedEvaluator, recompute
from pipelines.reconcile.causes.another_policy.search import Found, Sample, Search

NAMES = ["window_start", "window_end", "window_id", "cars", "numbers"]


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


def _found(tmp_path: Path) -> Found | None:
    """The change for a live run under a late tolerance of 10 minutes, of which the job file says 20."""
    job, ran = _job("20m"), _job("10m")
    # two events happened a quarter of an hour before they arrived, with the end of a window
    minutes = [(n, n - 15 if n in (75, 195) else n) for n in range(15, 360, 5)]
    rows = [
        {"arrival_time": _instant(arrival), "input_partition": 0, "sequence": n, "at": _instant(at), "n": n}
        for n, (arrival, at) in enumerate(minutes)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert ingest(job, "cars", [log], tmp_path / "lakehouse").quarantined == 0
    logs, evaluate = Logs(Lakehouse.at(tmp_path / "lakehouse")), CachedEvaluator()
    arrivals = logs.arrivals(job, read_range(job, EVERYTHING))
    replay, live = (recompute(one, arrivals, EVERYTHING, evaluate).rows for one in (job, ran))
    samples = [Sample(int(str(row["window_end"])), [row], row in replay) for row in live]
    assert {sample.equal for sample in samples} == {True, False}
    return Search(job, logs, evaluate, NAMES, samples).find(())


def _instant(minute: int) -> str:
    return f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"


def test_the_changed_tolerance_is_found(tmp_path: Path) -> None:
    found = _found(tmp_path)
    assert found is not None
    assert [key for key, _, _ in found.change.settings] == ["ordering.late_arrival"]
    # an event that is a quarter of an hour late counts in the next window under any tolerance below that
    assert found.between_us == (0, 15 * MINUTE - 1)


def test_a_machine_whose_clock_races_finds_the_same_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr("time.monotonic", lambda: next(hours))
    found = _found(tmp_path)
    assert found is not None
    assert found.between_us == (0, 15 * MINUTE - 1)
