"""Contracts of tables, held by pandera on Spark: they follow from the job, they block, and they name the rows."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.layout import output_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.quality.contracts import Contract

pytestmark = [
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    # the checks' libraries warn about each other's future
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

T = parse_instant
HEAD = """
tailrace: 1
job: cars
profile: stream_analytics
inputs:
  cars:
    columns: "at TIMESTAMP, booth STRING, n INT, toll DECIMAL(10,2), w DOUBLE"
    timestamp_by: at
    partitions: 2
ordering: {late_arrival: 20m, out_of_order: 1m, action: adjust}
"""
JOB = parse_job(
    HEAD
    + """
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 1h}}
  aggregates:
    cars: "count(*)"
    known: "count(n)"
    least: "min(n)"
    most: "max(n)"
    total: "sum(n)"
    mean: "avg(toll)"
    spread: "stddev_samp(w)"
    all_n: "collect(n)"
"""
)
(TABLE,) = output_tables(JOB)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lakehouse with an arrival log of a day and its replay."""
    lakehouse = tmp_path_factory.mktemp("quality") / "lakehouse"
    rng = random.Random(3)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    records = []
    for sequence in range(96):
        arrival = start + dt.timedelta(minutes=15 * sequence)
        at = arrival - dt.timedelta(minutes=rng.choice([0, 0, 10, 40]))
        record = {"arrival_time": arrival.isoformat(), "input_partition": sequence % 2, "sequence": sequence}
        values = {"at": at.isoformat(), "booth": rng.choice("ab"), "n": sequence, "toll": "1.50", "w": 0.1 * sequence}
        records.append({**record, **values})
    file = lakehouse.parent / "cars.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ingest(JOB, "cars", [file], lakehouse).quarantined == 0
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    return lakehouse


@pytest.fixture
def arrivals(spark: SparkSession, whole: Path) -> DataFrame:
    return spark.read.format("delta").load(f"{whole}/arrivals/cars")


@pytest.fixture
def windows(spark: SparkSession, whole: Path) -> DataFrame:
    return spark.read.format("delta").load(f"{whole}/windows/cars")


@pytest.fixture
def of_arrivals(spark: SparkSession) -> Contract:
    from pipelines.quality.contracts import arrivals_contract

    return arrivals_contract(JOB.inputs[0])


@pytest.fixture
def of_windows(spark: SparkSession) -> Contract:
    from pipelines.quality.contracts import windows_contract

    return windows_contract(JOB, spark)


def _changed(frame: DataFrame, column: str, where: str, value: str) -> DataFrame:
    """``frame`` with ``column`` set to ``value`` in the rows ``where``."""
    return frame.withColumn(column, _expr(f"CASE WHEN {where} THEN {value} ELSE `{column}` END"))


def _expr(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)


def test_what_ingest_and_replay_wrote_keeps_its_contracts(spark: SparkSession, whole: Path) -> None:
    from pipelines.quality.contracts import check_arrivals
    from pipelines.quality.outputs import check_output

    lakehouse = Lakehouse.at(whole)
    for result in (
        check_arrivals(spark, lakehouse, JOB.inputs[0], EVERYTHING),
        check_output(spark, lakehouse, JOB, TABLE, EVERYTHING),
        check_output(spark, lakehouse, JOB, TABLE, OutputRange(T("2026-01-01T05:00:00Z"), T("2026-01-01T09:00:00Z"))),
    ):
        assert (result.passed, result.blocking, result.failed_rows, result.sample) == (True, True, 0, ())


@pytest.mark.parametrize(
    ("column", "where", "value", "problem", "sequences"),
    [
        ("kind", "sequence = 7", "'oops'", "kind breaks 'is event or punctuation'", [7]),
        ("input_partition", "sequence IN (3, 4)", "2", "is at most 1, by the job file", [3, 4]),
        ("input_partition", "sequence = 3", "NULL", "input_partition breaks 'is set for every event'", [3]),
        ("batch_id", "sequence < 30", "NULL", "batch_id breaks 'is not null'", list(range(20))),
        ("arrival_date", "sequence = 95", "DATE '2026-01-03'", "is the UTC date of arrival_time", [95]),
        ("punctuation_time", "sequence = 0", "arrival_time", "punctuation_time breaks 'is null for every event'", [0]),
    ],
)
def test_a_broken_arrival_is_counted_and_named(
    arrivals: DataFrame,
    of_arrivals: Contract,
    column: str,
    where: str,
    value: str,
    problem: str,
    sequences: list[int],
) -> None:
    from pipelines.quality.contracts import check_frame

    result = check_frame(_changed(arrivals, column, where, value), of_arrivals)
    assert not result.passed
    assert result.failed_rows == arrivals.filter(where).count()
    assert [row["sequence"] for row in result.sample] == sequences
    assert all(problem in str(row["problem"]) for row in result.sample)
    assert f"in {result.failed_rows} row(s)" in result.description


def test_a_row_that_breaks_two_rules_counts_once(arrivals: DataFrame, of_arrivals: Contract) -> None:
    from pipelines.quality.contracts import check_frame

    broken = _changed(_changed(arrivals, "batch_id", "sequence = 5", "NULL"), "input_partition", "sequence = 5", "-1")
    result = check_frame(broken, of_arrivals)
    assert result.failed_rows == 1
    assert result.sample[0]["problem"] == "batch_id breaks 'is not null'; input_partition breaks 'is not negative'"


def test_an_instant_without_a_zone_is_not_a_timestamp(arrivals: DataFrame, of_arrivals: Contract) -> None:
    from pipelines.quality.contracts import check_frame

    result = check_frame(arrivals.withColumn("at", _expr("CAST(at AS TIMESTAMP_NTZ)")), of_arrivals)
    assert (result.passed, result.failed_rows) == (False, 96)
    assert "the column at is TIMESTAMP_NTZ, not TIMESTAMP" in result.description


def test_missing_foreign_and_mistyped_columns_are_named(arrivals: DataFrame, of_arrivals: Contract) -> None:
    from pipelines.quality.contracts import check_frame

    broken = arrivals.drop("cause").withColumn("extra", _expr("1")).withColumn("toll", _expr("CAST(toll AS DOUBLE)"))
    result = check_frame(broken, of_arrivals)
    assert "the column cause is missing" in result.description
    assert "the column toll is DOUBLE, not DECIMAL(10,2)" in result.description
    assert "the column extra is not in the contract" in result.description


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("window_start", "window_start - INTERVAL 1 MINUTE", "window_end breaks 'is 1h after window_start'"),
        ("cars", "0L", "cars breaks 'is at least 1: a group without events has no row'"),
        ("known", "NULL", "known breaks 'is not null'"),
        ("window_id", "'short'", "window_id breaks 'is null: the job has one window'"),
        ("output_date", "DATE '2025-12-31'", "output_date breaks 'is the UTC date of window_end'"),
    ],
)
def test_a_broken_window_is_named_by_its_key(
    windows: DataFrame, of_windows: Contract, column: str, value: str, problem: str
) -> None:
    from pipelines.quality.contracts import check_frame

    where = "booth = 'a' AND window_end = TIMESTAMP '2026-01-01T12:00:00Z'"
    result = check_frame(_changed(windows, column, where, value), of_windows)
    assert (result.passed, result.failed_rows) == (False, 1)
    assert result.sample[0]["window_end"] == "2026-01-01T12:00:00Z"
    assert result.sample[0]["booth"] == "a"
    assert result.sample[0]["problem"] == problem


def test_a_window_off_the_grid_is_found(windows: DataFrame, of_windows: Contract) -> None:
    from pipelines.quality.contracts import check_frame

    moved = windows.withColumn("window_start", _expr("window_start + INTERVAL 1 MICROSECOND"))
    moved = moved.withColumn("window_end", _expr("window_end + INTERVAL 1 MICROSECOND"))
    result = check_frame(moved, of_windows)
    assert result.failed_rows == windows.count()
    assert "is on the grid 0001-01-01T00:00:00Z + k * 1h" in result.description


def test_a_window_that_is_there_twice_fails_both_rows(windows: DataFrame, of_windows: Contract) -> None:
    from pipelines.quality.contracts import check_frame

    result = check_frame(windows.unionAll(windows.filter("booth = 'b'").orderBy("window_end").limit(1)), of_windows)
    assert (result.passed, result.failed_rows) == (False, 2)
    assert all("is unique" in str(row["problem"]) for row in result.sample)


def test_pandera_itself_decides_even_where_its_switch_is_off(
    arrivals: DataFrame, of_arrivals: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pandera.config import CONFIG

    from pipelines.quality.contracts import check_frame

    monkeypatch.setattr(CONFIG, "validation_enabled", False)
    assert not check_frame(_changed(arrivals, "sequence", "sequence = 5", "-5L"), of_arrivals).passed


@pytest.mark.parametrize(
    ("profile", "ordering", "window", "aggregates"),
    [
        ("stream_analytics", "{}", "{sliding: {size: 10m}}", 'x: "sum(w)"'),
        ("stream_analytics", "{}", "{session: {timeout: 5m, max_duration: 1h}}", 'x: "last(booth)"'),
        # each instant is a check point, so sessions begin where they end
        ("stream_analytics", "{}", "{session: {timeout: 1h, max_duration: 1us}}", 'x: "last(booth)"'),
        ("stream_analytics", "{}", "{snapshot: {}}", 'x: "avg(n)"'),
        (
            "stream_analytics",
            "{}",
            "{any_of: {short: {tumbling: {size: 15m}}, long: {hopping: {size: 1h, hop: 30m}}}}",
            'x: "sum(toll)", y: "percentile_cont(n, 0.5)"',
        ),
        ("atlas", "{allowed_lateness: 1h}", "{session: {gap: 20m}}", 'x: "avg(toll)"'),
        ("atlas", "{allowed_lateness: 1h}", "{hopping: {size: 1h, hop: 20m}}", 'x: "collect(booth)"'),
    ],
)
def test_every_kind_of_window_keeps_the_contract_that_its_job_gives(
    arrivals: DataFrame, spark: SparkSession, profile: str, ordering: str, window: str, aggregates: str
) -> None:
    from pipelines.batch.engine import run
    from pipelines.lakehouse.layout import WINDOWS
    from pipelines.quality.contracts import check_frame, windows_contract
    from pipelines.replay.write import with_day

    job = parse_job(
        f"""
job: other
tailrace: 1
profile: {profile}
inputs: {{cars: {{columns: "at TIMESTAMP, booth STRING, n INT, toll DECIMAL(10,2), w DOUBLE", timestamp_by: at}}}}
ordering: {ordering}
query: {{from: cars, group_by: [booth], window: {window}, aggregates: {{n: "count(*)", {aggregates}}}}}
"""
    )
    windows = with_day(run(job, {"cars": arrivals}).windows, WINDOWS)
    result = check_frame(windows, windows_contract(job, spark))
    assert result.passed, result.description
    assert windows.count() > 10


def test_a_table_not_written_has_nothing_to_break(spark: SparkSession, tmp_path: Path) -> None:
    from pipelines.quality.outputs import check_output

    result = check_output(spark, Lakehouse.at(tmp_path), JOB, TABLE, EVERYTHING)
    assert (result.passed, result.failed_rows) == (True, 0)
    assert "not written yet" in result.description
