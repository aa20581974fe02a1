"""Replays of queries with several outputs and reference data, into real Delta tables."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.core.errors import DataRefused
from pipelines.core.model import EVERYTHING, Aggregate, Grid, Job, OutputRange
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Computed,
    Filtered,
    InputRows,
    Output,
    Projected,
    Referenced,
    ReferenceRows,
    Rows,
    Side,
    Step,
    StepRows,
    Steps,
    Windowed,
)
from pipelines.core.time import HOUR, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.ingest.references import ingest_reference
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.layout import output_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.quality.freshness import stale_days
from pipelines.quality.reproducible import check_reproducible
from pipelines.replay import size
from pipelines.replay.run import replay
from pipelines.replay.summary import Findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("as_a_replay"),
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

T = parse_instant
PART = OutputRange(T("2026-01-01T05:30:00Z"), T("2026-01-01T09:10:00.000001Z"))
ROWS = parse_job(
    """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}
ordering: {late_arrival: 20m, out_of_order: 1m, action: adjust}
references: {sites: {columns: "booth STRING, town STRING, since TIMESTAMP", effective: since}}
query: {from: cars, select: {booth: booth, twice: "n * 2"}, where: "n % 3 = 0"}
"""
)


def with_outputs(*outputs: Output, steps: tuple[Step, ...] = ()) -> Job:
    live = tuple((one.name, f"stream_outputs/cars/{one.name}") for one in outputs)
    return dataclasses.replace(ROWS, query=Steps(steps, outputs), stream_outputs=live)


def column(*names: str) -> tuple[Computed, ...]:
    return tuple(Computed(name, name) for name in names)


HOURLY = Windowed(InputRows("cars"), Grid(HOUR, HOUR), column("booth"), (Aggregate("n", "count"),))
BEFORE = Analysed(StepRows("hourly"), (Analytic("before", "lag", "n", partition_by=("booth",), within_us=3 * HOUR),))
TOWNS = Referenced(Side("h", StepRows("hourly")), Side("s", ReferenceRows("sites")), (("booth", "booth"),), kind="left")
JOB = with_outputs(
    Output("sampled", ROWS.query.outputs[0].rows),  # type: ignore[union-attr]
    Output("changes", Filtered(BEFORE, "n <> before")),
    Output("towns", Projected(TOWNS, (Computed("town", "s.town"), Computed("n", "h.n"), Computed("nothing", "NULL")))),
    steps=(Step("hourly", HOURLY),),
)
NAMES = [f"outputs/{one.output}" for one in output_tables(JOB)]


def records(hours: int) -> list[dict[str, Any]]:
    rng = random.Random(7)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    found = []
    for sequence in range(hours * 4):
        arrival = start + dt.timedelta(minutes=15 * sequence, microseconds=sequence * 7)
        at = arrival - dt.timedelta(minutes=rng.choice([0, 0, 0, 10, 19, 40]))
        record = {"arrival_time": arrival.isoformat(), "input_partition": sequence % 2, "sequence": sequence}
        found.append({**record, "at": at.isoformat(), "booth": rng.choice("ab"), "n": sequence})
    return found


def load_site(lakehouse: Path, booth: str, town: str, since: str) -> None:
    file = lakehouse.parent / f"{town}.jsonl"
    file.write_text(json.dumps({"booth": booth, "town": town, "since": since}) + "\n")
    ingest_reference(ROWS, "sites", [file], lakehouse)


@pytest.fixture
def lakehouse(tmp_path: Path) -> Path:
    """A log of half a day, and a snapshot from the day before."""
    place = tmp_path / "lakehouse"
    file = tmp_path / "cars.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records(12)))
    assert ingest(ROWS, "cars", [file], place).quarantined == 0
    load_site(place, "a", "Aachen", "2025-12-31T00:00:00Z")
    return place


def rows(lakehouse: Path, table: str, job: Job = JOB, output: OutputRange = EVERYTHING) -> list[dict[str, Any]]:
    found = rows_of(job, table, lakehouse, output)
    assert found is not None
    return plain_rows(found)


def test_each_output_is_a_table_of_its_own_and_a_part_of_it_is_replaced_exactly(
    spark: SparkSession, lakehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = replay(JOB, EVERYTHING, lakehouse, spark=spark)
    before = {name: rows(lakehouse, name) for name in NAMES}
    sampled, changes, towns = before.values()
    assert whole.rows_written == {
        "verdicts/cars": len(rows(lakehouse, "verdicts")),
        **{f"outputs/cars/{name.partition('/')[2]}": len(found) for name, found in before.items()},
    }
    assert sampled[0] == {
        "system_timestamp": "2026-01-01T00:00:00Z",
        "booth": sampled[0]["booth"],
        "twice": 0,
        "output_date": "2026-01-01",
    }
    assert len(sampled) == 16
    assert list(changes[0]) == [
        *("system_timestamp", "window_start", "window_end", "window_id"),
        *("booth", "n", "before", "output_date"),
    ]
    assert all(row["system_timestamp"] == row["window_end"] for row in changes)
    assert {row["town"] for row in towns} == {"Aachen", None}
    assert {row["nothing"] for row in towns} == {None}
    assert len(set(whole.found.fingerprints.values())) == 3
    # by both ways to write, a part computed from its own arrivals gives what the whole log gave there
    for most in (size.MOST_ROWS, 0):
        monkeypatch.setattr(size, "MOST_ROWS", most)
        part = replay(JOB, PART, lakehouse, spark=spark)
        assert part.found.writer == ("driver" if most else "spark")
        assert part.plan.reads[0].read.from_us == PART.from_us - 5 * 60_000_000 - 4 * HOUR  # type: ignore[operator]
        assert {name: rows(lakehouse, name) for name in NAMES} == before
        assert sum(part.found.rows_written[name] for name in part.found.fingerprints) == sum(
            len(rows(lakehouse, name, output=PART)) for name in NAMES
        )
    assert part.plan.writer == "spark"


def test_reference_rows_that_a_range_looks_up_are_a_part_of_its_fingerprint_and_others_are_not(
    spark: SparkSession, lakehouse: Path
) -> None:
    def replayed_with(name: str, *sites: tuple[str, str]) -> Findings:
        shutil.copytree(lakehouse, other := lakehouse.parent / name)
        file = lakehouse.parent / f"{name}.jsonl"
        file.write_text(
            "".join(json.dumps({"booth": booth, "town": "x", "since": since}) + "\n" for booth, since in sites)
        )
        ingest_reference(ROWS, "sites", [file], other)
        return replay(JOB, PART, other, spark=spark).found

    five, later = "2026-01-01T05:00:00Z", "2026-01-02T00:00:00Z"
    first, same = replayed_with("first", ("z", five)), replayed_with("same", ("a", later), ("z", five))
    assert list(first.reference_fingerprints) == ["references/sites"]
    assert same.output_fingerprint == first.output_fingerprint
    # no event is of booth z or y: the outputs have the same rows
    changed = replayed_with("changed", ("y", five))
    assert changed.fingerprints == first.fingerprints
    assert changed.output_fingerprint != first.output_fingerprint


def test_a_step_that_several_outputs_read_adds_one_scan_of_the_log(
    spark: SparkSession, lakehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = dataclasses.replace(JOB, query=dataclasses.replace(JOB.steps, outputs=JOB.steps.outputs[1:]))
    for most in (size.MOST_ROWS, 0):
        monkeypatch.setattr(size, "MOST_ROWS", most)
        # of the verdicts, and of the windows that both outputs read
        assert replay(job, EVERYTHING, lakehouse, spark=spark).found.scans == {"arrivals/cars": 2}


def test_the_ledger_names_the_version_of_the_reference_data_and_the_run_can_be_run_again(
    spark: SparkSession, lakehouse: Path
) -> None:
    place = Lakehouse.at(lakehouse)
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    (run,) = runs.runs_of(place, "cars")
    assert dict(run["versions_read"]) == {"arrivals/cars": 0, "references/sites": 0}
    assert set(dict(run["fingerprints"])) == {one.table for one in output_tables(JOB)}
    assert stale_days(place, JOB) == []
    load_site(lakehouse, "a", "Aalen", "2026-01-01T06:00:00Z")
    assert [day.why for day in stale_days(place, JOB)] == [
        ("reference data sites was at version 0, and is at 1 now",),
    ]
    assert check_reproducible(spark, place, JOB, EVERYTHING).passed
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    towns = {(row["town"], row["system_timestamp"] < "2026-01-01T06") for row in rows(lakehouse, "outputs/towns")}
    assert towns == {("Aachen", True), ("Aalen", False), (None, True), (None, False)}
    assert stale_days(place, JOB) == []


def test_a_row_before_the_first_snapshot_ends_the_run_and_nothing_is_written(
    spark: SparkSession, lakehouse: Path
) -> None:
    late = dataclasses.replace(JOB, references=(dataclasses.replace(JOB.references[0], name="plants"),))
    looked_up = Referenced(Side("c", InputRows("cars")), Side("s", ReferenceRows("plants")), (("booth", "booth"),))
    hourly: Rows = Windowed(looked_up, Grid(HOUR, HOUR), (), (Aggregate("n", "count"),))
    job = dataclasses.replace(late, query=Steps((), (Output("counts", hourly),)), stream_outputs=())
    file = lakehouse.parent / "plants.jsonl"
    file.write_text(json.dumps({"booth": "a", "town": "x", "since": "2026-01-01T05:30:00Z"}) + "\n")
    ingest_reference(job, "plants", [file], lakehouse)
    six = T("2026-01-01T06:00:00Z")
    with pytest.raises(DataRefused, match=r"no snapshot for a row of 2026-01-01 05:.*is of 2026-01-01 05:30"):
        replay(job, OutputRange(six, six + HOUR), lakehouse, spark=spark)
    assert rows_of(job, "windows", lakehouse) is None
    assert replay(job, OutputRange(six + HOUR, None), lakehouse, spark=spark).rows_written["windows/cars"] > 0


def test_one_output_of_windows_stays_in_windows(spark: SparkSession, lakehouse: Path) -> None:
    job = with_outputs(Output("busy", Filtered(HOURLY, "n > 2")))
    replay(job, EVERYTHING, lakehouse, spark=spark)
    found = rows(lakehouse, "windows", job)
    assert list(found[0]) == ["window_start", "window_end", "window_id", "booth", "n", "output_date"]
    assert found
    assert all(row["n"] > 2 for row in found)
