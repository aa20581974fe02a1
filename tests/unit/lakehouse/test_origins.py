"""Where rows of different origin meet in a range, a sentence names them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pipelines.core.intervals import parse_range
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import to_datetime
from pipelines.job.load import parse_job
from pipelines.lakehouse.owned_ranges import origins

TEXT = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP", timestamp_by: at}}
query: {from: cars, window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}
"""
JOB = parse_job(TEXT)
PATIENT = parse_job(TEXT + "ordering: {late_arrival: 1m}")
FIRST, SECOND = parse_range("2026-01-01", "2026-01-02"), parse_range("2026-01-02", "2026-01-03")
DAY_1, DAY_2 = (
    "[2026-01-01T00:00:00Z, 2026-01-02T00:00:00Z)",
    "[2026-01-02T00:00:00Z, 2026-01-03T00:00:00Z)",
)


def _run(number: int, output: OutputRange, **more: Any) -> dict[str, Any]:
    return {
        "run_id": str(number),
        "kind": "replay",
        "status": "succeeded",
        "started_at": dt.datetime(2026, 2, number, tzinfo=dt.UTC),
        "output_from": None if output.from_us is None else to_datetime(output.from_us),
        "output_to": None if output.to_us is None else to_datetime(output.to_us),
        "job_fingerprint": JOB.fingerprint,
        "job_parts": JOB.part_fingerprints,
        "versions_read": {},
        "versions_written": {"verdicts/cars": number, "windows/cars": number},
        "rows_written": {},
        "counts_by_verdict": {},
        "engine": {"tailrace": "2"},
        **more,
    }


def _of(job: Any) -> dict[str, Any]:
    return {"job_fingerprint": job.fingerprint, "job_parts": job.part_fingerprints}


def test_a_range_of_one_job_file_and_one_release_has_one_origin() -> None:
    assert origins([_run(1, EVERYTHING, **_of(PATIENT)), _run(2, EVERYTHING), _run(3, FIRST)], JOB, EVERYTHING) == []


def test_another_version_of_the_job_file_is_named_with_its_part_of_the_range() -> None:
    runs = [_run(1, FIRST, **_of(PATIENT)), _run(2, SECOND, **_of(PATIENT)), _run(3, SECOND)]
    assert origins(runs, JOB, EVERYTHING) == [
        f"{DAY_1} has the results of another version of the job file, which differs in its policy"
    ]
    assert origins(runs, JOB, SECOND) == []


def test_two_releases_in_one_range_are_named() -> None:
    runs = [_run(1, FIRST, engine={"tailrace": "1"}), _run(2, SECOND)]
    assert origins(runs, JOB, EVERYTHING) == [
        f"{DAY_2} has the results of Tailrace 2",
        f"{DAY_1} has the results of Tailrace 1",
    ]
    assert origins(runs, JOB, FIRST) == []


def test_a_run_that_wrote_only_some_tables_is_named_until_its_range_is_replayed() -> None:
    half = _run(2, FIRST, status="abandoned", versions_written={"verdicts/cars": 2})
    runs = [_run(1, EVERYTHING), half, _run(3, SECOND, status="failed", versions_written={})]
    assert origins(runs, JOB, EVERYTHING) == [f"run 2 over {DAY_1} is abandoned after it has written verdicts/cars"]
    assert origins(runs, JOB, SECOND) == []
    assert origins([*runs, _run(4, FIRST)], JOB, EVERYTHING) == []


def test_a_run_that_has_not_ended_is_named() -> None:
    runs = [_run(1, EVERYTHING), _run(2, FIRST, status="running", versions_written=None)]
    assert origins(runs, JOB, EVERYTHING) == [
        f"run 2 over {DAY_1} is running or was killed: it replaces table by table"
    ]
