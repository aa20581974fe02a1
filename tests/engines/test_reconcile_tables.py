"""Reconcile over tables of all sorts: other names and types, a catalog's, a part of a log, sessions. In Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from reconcile_rows import ingested, results, written

from pipelines.cli.main import run as tailrace
from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import parse_instant
from pipelines.job.load import parse_job
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.reconcile.run import reconcile
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

MINUTES = [0, 1, 2, 3, 10, 11, 12, 20, 21, 22, 23, 35, 36, 37, 50, 51, 52, 53, 54]
CARS = {
    "cars": [
        {"arrival_time": f"2026-01-01T12:{m:02d}:30Z", "at": f"2026-01-01T12:{m:02d}:00Z", "n": 2**i}
        for i, m in enumerate(MINUTES)
    ]
}


def _text(ordering: str, window: str, columns: str = "") -> str:
    return f"""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, n INT", timestamp_by: at}}}}
ordering: {ordering}
query: {{from: cars, window: {window}, aggregates: {{cars: "count(*)", numbers: "sum(n)"}}}}
stream: {{columns: {{{columns}}}}}
"""


def _job(ordering: str, window: str) -> Job:
    return parse_job(_text(ordering, window))


LATE = "{late_arrival: 5m, action: adjust}"


def _differences(job: Job, lakehouse: Path) -> list[tuple[str, str, str, list[str]]]:
    """Status, end (minutes and seconds), cause and lost events of each difference."""
    rows = rows_of(job, "reconciliations", lakehouse)
    assert rows is not None
    return [
        (row["status"], row["window_end"][14:19], row["cause"], json.loads(row["evidence"]).get("missing_events", []))
        for row in plain_rows(rows)
    ]


def test_sessions_in_a_table_of_the_catalog_are_compared_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    job = _job(LATE, "{session: {timeout: 4m, max_duration: 30m}}")
    lakehouse = ingested(job, tmp_path / "lakehouse", CARS)
    written(lakehouse, "windows/cars", results(job, lakehouse))
    written(lakehouse, "theirs", results(job, lakehouse, [("cars", 0, 10)]))
    spark.sql(f"CREATE DATABASE live LOCATION '{tmp_path}/live'")
    try:
        spark.sql(f"CREATE TABLE live.cars USING delta LOCATION '{lakehouse}/theirs'")
        result = reconcile(job, EVERYTHING, lakehouse, against="live.cars", spark=spark)
        with pytest.raises(UsageError, match=r"the catalog has no table live\.bikes"):
            reconcile(job, EVERYTHING, lakehouse, against="live.bikes", spark=spark)
    finally:
        spark.sql("DROP DATABASE live CASCADE")
    assert (result.against, result.versions_read) == ("live.cars", {"windows/cars": 0})
    # a session that ended early is one loss, though two rows differ
    assert _differences(job, lakehouse) == [
        ("missing_in_replay", "26:00", "lost_events", ["cars/0/10"]),
        ("missing_in_stream", "27:00", "lost_events", ["cars/0/10"]),
    ]


def test_a_policy_is_proved_over_a_part_of_the_log_with_the_watermark_it_begins_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    # a stamp of the fifth, received on the first, is all that the policies differ in on the third
    far = {"arrival_time": "2026-01-01T00:00:00Z", "at": "2026-01-05T00:00:00Z", "n": 0}
    third = [f"2026-01-03T{hour:02d}:30:00Z" for hour in range(24)]
    rows = [far, *({"arrival_time": at, "at": at, "n": 1} for at in third)]
    other = [{"arrival_time": at, "at": at, "n": 1, "input_partition": 1} for at in third]
    ordering = "{early_arrival: off, late_arrival: 5m, out_of_order: %s, action: drop}"
    job, ran = (_job(ordering % width, "{tumbling: {size: 6h}}") for width in ("2d", "1d"))
    day = OutputRange(parse_instant("2026-01-03T00:00:00Z"), parse_instant("2026-01-04T00:00:00Z"))
    lakehouse = ingested(job, tmp_path / "lakehouse", {"cars": [*rows, *other]})
    replay(job, day, lakehouse, spark=spark)
    written(lakehouse, "stream_windows/cars", results(ran, lakehouse, output=day))
    assert reconcile(job, day, lakehouse, spark=spark).by_cause == {"another_policy": 3}
    rows = plain_rows(rows_of(job, "reconciliations", lakehouse))  # type: ignore[arg-type]
    settings = json.loads(rows[0]["evidence"])["settings"]
    assert settings == {"ordering.out_of_order": {"job_file": "2d", "live_run": "1d"}}


def test_a_table_of_other_names_and_types_is_compared_through_the_job_s_mapping(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    window = "{tumbling: {size: 10m}}"
    text = _text(LATE, window, columns="end: window_end, c: cars")
    job = parse_job(text)
    (tmp_path / "cars.yaml").write_text(text)
    lakehouse = ingested(job, tmp_path / "lakehouse", CARS)
    rows = results(job, lakehouse)
    written(lakehouse, "windows/cars", rows)
    theirs = [{"window_end": row["window_end"], "c": float(row["cars"])} for row in rows]
    theirs[3]["c"] += 0.5
    written(lakehouse, "theirs", theirs, rename={"window_end": "end"})
    place = ["--against", "theirs", "--lakehouse", str(lakehouse), "--json"]
    code = tailrace(["reconcile", str(tmp_path / "cars.yaml"), *place])
    shown = json.loads(capsys.readouterr().out)
    assert (code, shown["by_status"], shown["against"]) == (1, {"different": 1}, "theirs")
    assert "numbers" in shown["notes"][0]
    assert shown["first"]["stream"]["cars"] == shown["first"]["replay"]["cars"] + 0.5
