"""Reconcile for joins, sessions, lifetimes and carried watermarks: a live run that lost an event, row by row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import parse_instant, to_datetime
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.plan.read_range import ReadRange
from pipelines.recompute.logs import Logs
from pipelines.recompute.windows import CachedEvaluator, recompute
from pipelines.reconcile.run import reconcile
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

Row = dict[str, Any]
Event = tuple[str, int, int]


def _job(profile: str, ordering: str, window: str, columns: str = "", shape: str = "") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: cars
profile: {profile}
inputs: {{cars: {{columns: "at TIMESTAMP, n INT{columns}", timestamp_by: at{shape}}}}}
ordering: {ordering}
query: {{from: cars, window: {window}, aggregates: {{cars: "count(*)", numbers: "sum(n)"}}}}
"""
    )


def _trips(kind: str) -> Job:
    return parse_job(
        f"""
tailrace: 1
job: trips
profile: stream_analytics
inputs:
  entries: {{columns: "at TIMESTAMP, plate STRING", timestamp_by: at}}
  exits: {{columns: "at TIMESTAMP, plate STRING, toll INT", timestamp_by: at}}
ordering: {{late_arrival: 5m, out_of_order: 0s, action: adjust}}
query:
  join: {{left: entries, right: exits, on: [plate], within: {{unit: minute, from: 0, to: 10}}, kind: {kind}}}
  window: {{tumbling: {{size: 10m}}}}
  aggregates: {{trips: "count(*)", tolls: "sum(exits.toll)"}}
"""
    )


def _at(minute: int, second: int = 0) -> str:
    return f"2026-01-01T12:{minute:02d}:{second:02d}Z"


TRIPS = {
    "entries": [{"arrival_time": _at(2 * i + 1), "at": _at(2 * i), "plate": f"p{i}"} for i in range(24)],
    "exits": [
        {"arrival_time": _at(2 * i + 6), "at": _at(2 * i + 5), "plate": f"p{i}", "toll": 2**i} for i in range(24)
    ],
}
"""Cars that enter every two minutes and leave five minutes later; each toll is another power of two."""

MINUTES = [0, 1, 2, 3, 10, 11, 12, 20, 21, 22, 23, 35, 36, 37, 50, 51, 52, 53, 54]
CARS = {"cars": [{"arrival_time": _at(m, 30), "at": _at(m), "n": 2**i} for i, m in enumerate(MINUTES)]}
STAYS = {"cars": [{**row, "until": _at(m + 5)} for row, m in zip(CARS["cars"], MINUTES, strict=True)]}


def _replayed(
    job: Job,
    records: Mapping[str, Sequence[Row]],
    lakehouse: Path,
    spark: SparkSession,
    output: OutputRange = EVERYTHING,
) -> Path:
    """A lakehouse that holds the records and the job's replay over them."""
    for name, rows in records.items():
        file = lakehouse.parent / f"{name}.jsonl"
        numbered = [{"input_partition": 0, "sequence": number, **row} for number, row in enumerate(rows)]
        file.write_text("".join(json.dumps(row) + "\n" for row in numbered))
        assert ingest(job, name, [file], lakehouse).quarantined == 0
    replay(job, output, lakehouse, spark=spark)
    return lakehouse


def _live(job: Job, lakehouse: Path, lost: Sequence[Event] = (), output: OutputRange = EVERYTHING) -> list[Row]:
    """What a live run of ``job`` that never saw some events would have written, by the reference engine."""
    arrivals = Logs(Lakehouse.at(lakehouse)).arrivals(job, ReadRange(None, None, "the whole log"))
    seen = [one for one in arrivals if (one.input, one.input_partition, one.sequence) not in lost]
    assert len(seen) == len(arrivals) - len(lost)
    rows = [{**row} for row in recompute(job, seen, output, CachedEvaluator()).rows]
    for row in rows:
        row |= {name: to_datetime(row[name]) for name in ("window_start", "window_end")}  # type: ignore[arg-type]
        row["output_date"] = row["window_end"].date()  # type: ignore[attr-defined]
    return rows


def _write_stream(job: Job, lakehouse: Path, rows: list[Row]) -> None:
    schema = DeltaTable(str(lakehouse / "windows" / job.name)).to_pyarrow_table().schema
    write_deltalake(str(lakehouse / "stream_windows" / job.name), pa.Table.from_pylist(rows, schema=schema))


def _causes(job: Job, lakehouse: Path) -> list[tuple[str, str, str, list[str]]]:
    """Status, end (minutes and seconds), cause and lost events of each difference."""
    rows = rows_of(job, "reconciliations", lakehouse)
    assert rows is not None
    found = []
    for row in plain_rows(rows):
        lost = json.loads(row["evidence"]).get("missing_events", [])
        found.append((row["status"], row["window_end"][14:].rstrip("Z"), row["cause"], lost))
    return found


def test_an_event_that_a_join_lost_and_a_row_that_was_deleted_are_each_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = _trips("inner")
    lakehouse = _replayed(job, TRIPS, tmp_path / "house", spark)
    rows = _live(job, lakehouse, [("exits", 0, 11)])
    _write_stream(job, lakehouse, [row for row in rows if row["window_end"].minute != 50])
    reconcile(job, EVERYTHING, lakehouse, spark=spark)
    different, missing = _causes(job, lakehouse)
    # a pair that is gone may have lost either event
    assert different == ("different", "30:00", "lost_events", ["entries/0/11"])
    assert missing == ("missing_in_stream", "50:00", "row_missing_in_stream", [])
    rows = plain_rows(rows_of(job, "reconciliations", lakehouse))  # type: ignore[arg-type,assignment]
    assert json.loads(rows[0]["evidence"])["or_one_of"] == [["exits/0/11"]]


def test_an_unmatched_left_row_tells_which_event_of_the_pair_was_lost(spark: SparkSession, tmp_path: Path) -> None:
    job = _trips("left")
    lakehouse = _replayed(job, TRIPS, tmp_path / "house", spark)
    _write_stream(job, lakehouse, _live(job, lakehouse, [("exits", 0, 11)]))
    reconcile(job, EVERYTHING, lakehouse, spark=spark)
    assert _causes(job, lakehouse) == [
        ("different", "30:00", "lost_events", ["exits/0/11"]),
        ("different", "40:00", "lost_events", ["exits/0/11"]),
    ]


def test_a_join_s_value_that_no_lost_event_gives_is_unexplained(spark: SparkSession, tmp_path: Path) -> None:
    job = _trips("inner")
    lakehouse = _replayed(job, TRIPS, tmp_path / "house", spark)
    rows = _live(job, lakehouse)
    rows[2]["tolls"] = -1
    _write_stream(job, lakehouse, rows)
    assert reconcile(job, EVERYTHING, lakehouse, spark=spark).by_cause == {"unexplained": 1}


@pytest.mark.parametrize(
    "job",
    [
        _job("stream_analytics", "{late_arrival: 5m, action: adjust}", "{session: {timeout: 4m, max_duration: 30m}}"),
        _job("atlas", "{allowed_lateness: 1m}", "{session: {gap: 4m}}"),
    ],
    ids=["stream_analytics", "atlas"],
)
def test_a_session_that_ended_early_is_one_loss_though_two_rows_differ(
    job: Job, spark: SparkSession, tmp_path: Path
) -> None:
    lakehouse = _replayed(job, CARS, tmp_path / "house", spark)
    _write_stream(job, lakehouse, _live(job, lakehouse, [("cars", 0, 10)]))
    reconcile(job, EVERYTHING, lakehouse, spark=spark)
    assert _causes(job, lakehouse) == [
        ("missing_in_replay", "26:00", "lost_events", ["cars/0/10"]),
        ("missing_in_stream", "27:00", "lost_events", ["cars/0/10"]),
    ]


def test_an_event_that_a_stream_insight_run_lost_is_named(spark: SparkSession, tmp_path: Path) -> None:
    job = _job("stream_insight", "{advance: {every: 3}, delay: 0s, action: adjust}", "{tumbling: {size: 10m}}")
    lakehouse = _replayed(job, CARS, tmp_path / "house", spark)
    rows = _live(job, lakehouse, [("cars", 0, 8)])
    _write_stream(job, lakehouse, [row for row in rows if row["window_end"].minute != 40])
    reconcile(job, EVERYTHING, lakehouse, spark=spark)
    assert _causes(job, lakehouse) == [
        ("different", "30:00", "lost_events", ["cars/0/8"]),
        ("missing_in_stream", "40:00", "row_missing_in_stream", []),
    ]


@pytest.mark.parametrize("window", ["{snapshot: {}}", "{count: {n: 3}}"])
def test_a_lost_lifetime_explains_every_window_whose_bounds_it_moved(
    window: str, spark: SparkSession, tmp_path: Path
) -> None:
    ordering = "{advance: {every: 1}, delay: 1m, action: drop}"
    job = _job("stream_insight", ordering, window, ", until TIMESTAMP", ", shape: interval, end_by: until")
    lakehouse = _replayed(job, STAYS, tmp_path / "house", spark)
    _write_stream(job, lakehouse, _live(job, lakehouse, [("cars", 0, 8)]))
    result = reconcile(job, EVERYTHING, lakehouse, spark=spark)
    causes = _causes(job, lakehouse)
    assert len(causes) == result.differing > 4
    assert {(cause, *lost) for _, _, cause, lost in causes} == {("lost_events", "cars/0/8")}


def test_a_policy_is_proved_over_a_part_of_the_log_with_the_watermark_it_begins_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    # a stamp of the fifth, received on the first, is all that the policies differ in on the third
    far = {"arrival_time": "2026-01-01T00:00:00Z", "at": "2026-01-05T00:00:00Z", "n": 0}
    third = [f"2026-01-03T{hour:02d}:30:00Z" for hour in range(24)]
    rows = [far, *({"arrival_time": at, "at": at, "n": 1} for at in third)]
    other = [{"arrival_time": at, "at": at, "n": 1, "input_partition": 1} for at in third]
    ordering = "{early_arrival: off, late_arrival: 5m, out_of_order: %s, action: drop}"
    job, ran = (_job("stream_analytics", ordering % width, "{tumbling: {size: 6h}}") for width in ("2d", "1d"))
    day = OutputRange(parse_instant("2026-01-03T00:00:00Z"), parse_instant("2026-01-04T00:00:00Z"))
    lakehouse = _replayed(job, {"cars": [*rows, *other]}, tmp_path / "house", spark, day)
    _write_stream(job, lakehouse, _live(ran, lakehouse, output=day))
    assert reconcile(job, day, lakehouse, spark=spark).by_cause == {"another_policy": 3}
    rows = plain_rows(rows_of(job, "reconciliations", lakehouse))  # type: ignore[arg-type]
    settings = json.loads(rows[0]["evidence"])["settings"]
    assert settings == {"ordering.out_of_order": {"job_file": "2d", "live_run": "1d"}}


def test_a_table_of_the_catalog_is_compared_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    job = _job("stream_insight", "{advance: {every: 1}, action: drop}", "{tumbling: {size: 10m}}")
    lakehouse = _replayed(job, CARS, tmp_path / "house", spark)
    rows = _live(job, lakehouse)
    rows[1]["numbers"] += 1
    _write_stream(job, lakehouse, rows)
    spark.sql(f"CREATE DATABASE live LOCATION '{tmp_path}/live'")
    try:
        spark.sql(f"CREATE TABLE live.cars USING delta LOCATION '{lakehouse}/stream_windows/cars'")
        result = reconcile(job, EVERYTHING, lakehouse, against="live.cars", spark=spark)
        with pytest.raises(UsageError, match=r"the catalog has no table live\.bikes"):
            reconcile(job, EVERYTHING, lakehouse, against="live.bikes", spark=spark)
    finally:
        spark.sql("DROP DATABASE live CASCADE")
    assert (result.against, result.by_status) == ("live.cars", {"different": 1})
    assert result.first is not None
    assert result.first["window_end"] == "2026-01-01T12:20:00Z"
