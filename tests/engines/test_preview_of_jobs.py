"""Previews of every kind of job and plan: promoted, they are the replay."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from reconcile_rows import ingested

from pipelines.core.errors import UsageError
from pipelines.core.intervals import parse_range
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.ingest.references import ingest_reference
from pipelines.job.load import parse_job
from pipelines.lakehouse.layout import result_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.reconcile.differences import changes_of_preview
from pipelines.replay.promote import promote
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

INPUTS = """
tailrace: 1
job: cars
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}
"""
SCRIPT = f"""{INPUTS}
profile: stream_analytics
ordering: {{late_arrival: 5m, out_of_order: 0s, action: adjust}}
references: {{sites: {{columns: "booth STRING, town STRING", effective: static}}}}
query:
  sql: |
    SELECT c.booth, s.town, c.n INTO big FROM cars c JOIN sites s ON c.booth = s.booth WHERE c.n > 20
    SELECT booth, COUNT(*) AS cars, SUM(n) AS n INTO counts FROM cars GROUP BY booth, TumblingWindow(minute, 10)
"""
PIPELINE = """
tailrace: 1
job: cars
profile: atlas
inputs: {cars: {columns: "at STRING, booth STRING, n INT"}}
ordering: {allowed_lateness: 1m}
end_of_log: flush
query:
  pipeline: |
    {"pipeline": [
      {"$source": {
        "connectionName": "plaza", "topic": "cars", "timeField": {"$dateFromString": {"dateString": "$at"}}
      }},
      {"$tumblingWindow": {
        "interval": {"size": 10, "unit": "minute"},
        "pipeline": [{"$group": {"_id": "$booth", "cars": {"$sum": 1}, "n": {"$sum": "$n"}}}]
      }},
      {"$merge": {"into": {"connectionName": "plaza", "db": "a", "coll": "counts"}}}
    ]}
"""
WINDOWS = f"""{INPUTS}
profile: stream_analytics
ordering: {{late_arrival: 5m, out_of_order: 0s, action: adjust}}
query:
  from: cars
  group_by: [booth]
  window: {{tumbling: {{size: 10m}}}}
  aggregates: {{cars: "count(*)", n: "sum(n)"}}
"""
NOON = parse_range("2026-01-01T12:10:00Z", "2026-01-01T13:00:00Z")
CARS = [
    # two cars come late: the one at 12:31 by 9 minutes, and the one at 12:32 after another at 12:45
    {"arrival_time": f"2026-01-01T12:{minute:02d}:30Z", "at": f"2026-01-01T12:{at:02d}:00Z", "booth": "a", "n": minute}
    for minute, at in [(1, 1), (12, 12), (13, 13), (25, 25), (40, 31), (41, 41), (45, 45), (46, 32), (59, 59)]
]


def lakehouse(job: Job, folder: Path) -> Lakehouse:
    place = ingested(job, folder / "lakehouse", {"cars": CARS})
    if job.references:
        load_sites(place, job, "Ayr")
    return Lakehouse.at(place)


def load_sites(place: Path, job: Job, town: str) -> None:
    file = place.parent / f"{town}.jsonl"
    file.write_text(json.dumps({"booth": "a", "town": town}) + "\n")
    ingest_reference(job, "sites", [file], place)


def rows(place: Lakehouse, job: Job) -> dict[str, list[dict[str, Any]]]:
    tables = {name: place.open(name) for name, _ in result_tables(job)}
    return {
        name: sorted(table.to_pyarrow_table().to_pylist(), key=str)
        for name, table in tables.items()
        if table is not None
    }


def promoted_and_replayed(
    job: Job, output: OutputRange, place: Lakehouse, spark: SparkSession, *, slices: int | None = None
) -> None:
    """Holds a promoted preview to the replay of the same range."""
    copied = Lakehouse.at(shutil.copytree(place.folder, place.folder.parent / "replayed"))
    made = replay(job, output, place, spark=spark, preview="night", slices=slices)
    row = promote(job, "night", place, spark=spark)
    expected = replay(job, output, copied, spark=spark, slices=slices)
    assert rows(place, job) == rows(copied, job)
    assert rows(place, job)
    assert row["output_fingerprint"] == made.output_fingerprint == expected.output_fingerprint
    assert row["fingerprints"] == expected.found.fingerprints
    assert row["rows_written"] == expected.rows_written
    assert len(made.plan.slices) == len(expected.plan.slices) == (slices or 0)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        pytest.param(SCRIPT, "c.n > 20", "c.n > 30", id="a script with two outputs and reference data"),
        pytest.param(PIPELINE, "allowed_lateness: 1m", "allowed_lateness: 20m", id="a pipeline with dead letters"),
    ],
)
def test_a_promoted_preview_of_a_script_or_a_pipeline_is_the_replay(
    text: str, before: str, after: str, tmp_path: Path, spark: SparkSession
) -> None:
    assert before in text
    job, changed = parse_job(text), parse_job(text.replace(before, after))
    place = lakehouse(job, tmp_path)
    replay(job, EVERYTHING, place, spark=spark)
    then = rows(place, job)
    promoted_and_replayed(changed, NOON, place, spark)
    assert rows(place, changed) != then


def test_the_differences_of_each_output_are_named(tmp_path: Path, spark: SparkSession) -> None:
    job, changed = parse_job(SCRIPT), parse_job(SCRIPT.replace("c.n > 20", "c.n > 30"))
    place = lakehouse(job, tmp_path)
    replay(job, EVERYTHING, place, spark=spark)
    replay(changed, EVERYTHING, place, spark=spark, preview="night")
    found = {one.table: one for one in changes_of_preview(spark, place, changed, "night").outputs}
    assert {name: one.by_status for name, one in found.items()} == {
        "outputs/cars/big": {"removed": 1},
        "outputs/cars/counts": {},
    }
    assert found["outputs/cars/big"].by_cause == {"query": 1}
    load_sites(place.folder, job, "Bath")
    with pytest.raises(UsageError, match="references/sites went from version 0 to version 1"):
        promote(changed, "night", place, spark=spark)


def test_a_preview_in_slices_is_promoted_as_a_whole(tmp_path: Path, spark: SparkSession) -> None:
    job = parse_job(WINDOWS)
    place = lakehouse(job, tmp_path)
    # slices of less than a day begin on the hour
    next_hour = [row | {"arrival_time": "2026-01-01T13:45:00Z", "sequence": 100 + row["n"]} for row in CARS[-2:]]
    ingested(job, place.folder, {"cars": next_hour}, "next_hour")
    replay(parse_job(WINDOWS.replace("5m, out", "20m, out")), EVERYTHING, place, spark=spark)
    promoted_and_replayed(job, parse_range("2026-01-01T12:10:00Z", "2026-01-01T14:00:00Z"), place, spark, slices=2)


@pytest.mark.parametrize("output", [EVERYTHING, parse_range("2027-01-01", "2027-01-02")], ids=["everything", "no row"])
def test_a_preview_of_results_that_were_never_written_is_promoted(
    output: OutputRange, tmp_path: Path, spark: SparkSession
) -> None:
    job = parse_job(WINDOWS)
    promoted_and_replayed(job, output, lakehouse(job, tmp_path), spark)
