"""Plans of jobs with several steps and outputs, and with reference data."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from lakehouse_samples import lines, record

from pipelines.core.errors import UsageError
from pipelines.core.model import Aggregate, Grid, Job, OutputRange
from pipelines.core.steps import (
    Computed,
    InputRows,
    Output,
    Projected,
    Referenced,
    ReferenceRows,
    Rows,
    Side,
    Steps,
    Windowed,
)
from pipelines.core.time import HOUR, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.ingest.references import ingest_reference
from pipelines.job.load import parse_job
from pipelines.lakehouse.show import rows_of
from pipelines.plan.definition import Plan
from pipelines.plan.stages import describe_plan
from pipelines.replay.builder import make_plan

NOON, ONE = parse_instant("2026-01-01T12:00:00Z"), parse_instant("2026-01-01T13:00:00Z")
BASE = parse_job(
    """
tailrace: 1
job: booths
profile: stream_analytics
inputs:
  cars: {columns: "at TIMESTAMP, booth STRING, n INT, x DOUBLE", timestamp_by: at}
  again: {columns: "at TIMESTAMP, booth STRING, n INT, x DOUBLE", same_log_as: cars}
ordering: {cars: {late_arrival: 5m}, again: {}}
references:
  sites: {columns: "booth STRING, since TIMESTAMP", effective: since}
query: {from: cars, select: {booth: booth}}
"""
)
ROWS = Projected(InputRows("cars"), (Computed("booth", "booth"),))
HOURLY = Windowed(InputRows("cars"), Grid(HOUR, HOUR), (Computed("booth", "booth"),), (Aggregate("n", "count"),))
LOOKED_UP = Referenced(Side("c", HOURLY), Side("s", ReferenceRows("sites")), (("booth", "booth"),))


def job(*outputs: Rows) -> Job:
    named = tuple(Output(f"output_{number}", rows) for number, rows in enumerate(outputs))
    live = tuple((one.name, f"stream_outputs/booths/{one.name}") for one in named)
    return dataclasses.replace(BASE, query=Steps((), named), stream_outputs=live)


def plan(of: Job, tmp_path: Path, output: OutputRange = OutputRange(NOON, ONE), **more: object) -> Plan:
    file = lines(tmp_path / "cars.jsonl", record(1), record(59))
    ingest(of, "cars", [file], tmp_path / "lakehouse")
    return make_plan(of, output, tmp_path / "lakehouse", **more)  # type: ignore[arg-type]


def load_sites(tmp_path: Path, since: str) -> None:
    file = lines(tmp_path / "sites.jsonl", {"booth": "a", "since": since})
    ingest_reference(BASE, "sites", [file], tmp_path / "lakehouse")


def test_one_output_of_windows_is_written_as_windows_and_any_other_under_its_own_name(tmp_path: Path) -> None:
    def written(of: Job) -> list[tuple[str, str]]:
        return [(one.table, one.column) for one in plan(of, tmp_path).writes]

    verdicts = ("verdicts/booths", "arrival_time")
    assert written(job(HOURLY)) == [verdicts, ("windows/booths", "window_end")]
    assert written(job(ROWS)) == [verdicts, ("outputs/booths/output_0", "system_timestamp")]
    names = ["outputs/booths/output_0", "outputs/booths/output_1"]
    assert written(job(HOURLY, ROWS)) == [verdicts, *((name, "system_timestamp") for name in names)]


def test_inputs_of_one_log_read_the_same_version_and_arrivals(tmp_path: Path) -> None:
    made = plan(job(HOURLY), tmp_path)
    assert [(one.input, one.table, one.version) for one in made.reads] == [
        ("cars", "arrivals/cars", 0),
        ("again", "arrivals/cars", 0),
    ]
    assert made.reads[0].read.from_us == made.reads[1].read.from_us == NOON - 65 * 60_000_000
    assert plan(job(HOURLY), tmp_path, as_of={"again": 0}).versions_by_name == {"cars": 0, "again": 0}
    with pytest.raises(UsageError, match="again reads the log of cars: both have one version"):
        plan(job(HOURLY), tmp_path, as_of={"cars": 0, "again": 1})


def test_a_plan_shows_the_path_that_sets_how_far_each_input_is_read(tmp_path: Path) -> None:
    made = plan(job(HOURLY), tmp_path)
    path = "cars -> output output_0 (tumbling 1h): 1h back, 0s ahead"
    assert list(describe_plan(made))[2] == path
    assert [one["source"] for one in made.as_dict()["read_paths"]] == ["cars"]  # type: ignore[attr-defined]


def test_a_plan_names_the_snapshots_that_the_range_looks_up_and_their_version(tmp_path: Path) -> None:
    for since in ("2026-01-01T10:00:00Z", "2026-01-01T12:30:00Z", "2026-01-01T13:00:00Z"):
        load_sites(tmp_path, since)
    made = plan(job(LOOKED_UP), tmp_path)
    assert [one.as_dict() for one in made.references] == [
        {
            "reference": "sites",
            "table": "references/sites",
            "version": 2,
            "snapshots": ["2026-01-01T10:00:00Z", "2026-01-01T12:30:00Z"],
            "rows": 2,
        }
    ]
    assert made.versions == {"arrivals/cars": 0, "references/sites": 2}
    assert (
        "read 2 snapshots of 2026-01-01T10:00:00Z to 2026-01-01T12:30:00Z of references/sites at version 2: 2 rows"
        in (list(describe_plan(made)))
    )
    before = plan(job(LOOKED_UP), tmp_path, as_of={"sites": 0})
    assert (before.references[0].version, before.references[0].rows) == (0, 1)


def test_a_range_before_the_first_snapshot_is_refused_and_one_that_begins_before_it_is_noted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the reference data sites was never loaded"):
        plan(job(LOOKED_UP), tmp_path)
    load_sites(tmp_path, "2026-01-01T12:30:00Z")
    assert plan(job(LOOKED_UP), tmp_path).notes == (
        "the first snapshot of sites is of 2026-01-01T12:30:00Z: a row that asks for an earlier one ends the run",
    )
    assert plan(job(ROWS), tmp_path).notes == ()
    with pytest.raises(UsageError, match="has no snapshot for this range: none before 2026-01-01T12:30:00Z"):
        plan(job(LOOKED_UP), tmp_path, OutputRange(NOON, parse_instant("2026-01-01T12:30:00Z")))


def test_the_driver_writes_what_certainly_is_little(tmp_path: Path) -> None:
    assert plan(job(ROWS, HOURLY), tmp_path).writer == "driver"


def test_outputs_are_shown_by_their_names_in_any_case(tmp_path: Path) -> None:
    assert rows_of(job(ROWS, HOURLY), "outputs/Output_1", tmp_path) is None
    with pytest.raises(UsageError, match="has no table 'windows'"):
        rows_of(job(ROWS, HOURLY), "windows", tmp_path)
