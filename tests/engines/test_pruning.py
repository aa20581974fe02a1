"""A replay opens the files of its read range and no others, however long the log is and however it came in."""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import parse_instant
from pipelines.core.verdicts import VERDICT_FIELDS
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.arrival_log import log_files
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.plan.watermark_strategy import WatermarkStrategy
from pipelines.replay import builder, size
from pipelines.replay.builder import make_plan
from pipelines.replay.run import execute, replay
from pipelines.replay.summary import RunSummary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("as_a_replay"),
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

T = parse_instant
DAY_OF_YEAR = OutputRange(T("2026-07-10T00:00:00Z"), T("2026-07-11T00:00:00Z"))
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


JOB = parse_job(
    """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}
ordering: {late_arrival: 20m, out_of_order: 1m, action: adjust}
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 1h}}
  aggregates: {cars: "count(*)", mean: "avg(n)"}
"""
)


def _arrivals(path: Path, first_minute: int, minutes: int, step: int) -> Path:
    """One event every ``step`` minutes, in two input partitions, some of them late."""
    places = range(first_minute, first_minute + minutes, step)
    times = [START + dt.timedelta(minutes=minute, microseconds=minute) for minute in places]
    late = [time - dt.timedelta(minutes=(0, 0, 10, 40)[place % 4]) for place, time in enumerate(times)]
    rows = {
        "arrival_time": pa.array(times, pa.timestamp("us", "UTC")),
        "input_partition": pa.array([minute // step % 2 for minute in places], pa.int32()),
        "sequence": pa.array(list(places), pa.int64()),
        "at": pa.array(late, pa.timestamp("us", "UTC")),
        "booth": pa.array(["ab"[minute // step % 3 % 2] for minute in places]),
        "n": pa.array([minute % 97 for minute in places], pa.int32()),
    }
    pq.write_table(pa.table(rows), path)
    return path


def _rows(lakehouse: Path, table: str) -> list[dict[str, Any]]:
    rows = rows_of(JOB, table, lakehouse)
    assert rows is not None
    return plain_rows(rows)


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lakehouse with a log of 366 days, an event every half hour."""
    folder = tmp_path_factory.mktemp("year")
    ingest(JOB, "cars", [_arrivals(folder / "year.parquet", 0, 366 * 1440, 30)], folder / "lakehouse")
    return folder / "lakehouse"


@pytest.fixture(scope="module")
def day_of_year(spark: SparkSession, year: Path) -> tuple[Path, RunSummary]:
    """The same after a replay of one day of it."""
    lakehouse = year.parent / "replayed"
    shutil.copytree(year, lakehouse)
    return lakehouse, replay(JOB, DAY_OF_YEAR, lakehouse, spark=spark)


def test_a_day_of_a_year_opens_the_files_of_its_days_and_the_ledger_says_so(
    day_of_year: tuple[Path, RunSummary],
) -> None:
    lakehouse, summary = day_of_year
    log = Lakehouse.at(lakehouse).open("arrivals/cars")
    assert log is not None
    own = [file for file in log_files(log) if file.may_contain(summary.plan.read.from_us, summary.plan.read.to_us)]
    assert len(own) == 3
    assert summary.found.bytes_read["arrivals/cars"] <= 1.1 * sum(file.size_bytes for file in own)
    (run,) = runs.runs_of(Lakehouse.at(lakehouse), "cars")
    assert run["files_planned"] == run["files_read"] == {"arrivals/cars": 3}
    assert run["bytes_planned"] == run["bytes_read"] == summary.found.bytes_read
    assert run["scans"] == summary.found.scans
    assert (run["warnings"], summary.found.warnings) == ([], [])


def test_a_log_ten_times_as_long_gives_the_same_day_from_the_same_files(
    spark: SparkSession, year: Path, day_of_year: tuple[Path, RunSummary], tmp_path: Path
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(year, lakehouse)
    ingest(JOB, "cars", [_arrivals(tmp_path / "more.parquet", 366 * 1440, 3294 * 1440, 360)], lakehouse)
    summary = replay(JOB, DAY_OF_YEAR, lakehouse, spark=spark)
    assert summary.plan.reads[0].files_total == 3660
    assert summary.plan.reads[0].paths == day_of_year[1].plan.reads[0].paths
    assert summary.found.bytes_read == day_of_year[1].found.bytes_read
    assert summary.output_fingerprint == day_of_year[1].output_fingerprint


def test_much_data_goes_spark_s_own_way_to_the_same_rows_and_the_same_files(
    spark: SparkSession,
    day_of_year: tuple[Path, RunSummary],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(day_of_year[0], lakehouse)
    monkeypatch.setattr(size, "MOST_ROWS", 0)
    monkeypatch.setattr(builder, "NAMED_FILES", 0)
    inside = OutputRange(T("2026-07-09T12:00:00Z"), T("2026-07-10T12:30:00Z"))
    # what was written without Spark is replaced by it, then what it wrote itself
    for output in (inside, DAY_OF_YEAR):
        summary = replay(JOB, output, lakehouse, spark=spark)
        assert summary.found.warnings == []
    assert summary.plan.reads[0].paths == ()
    assert (summary.found.files_read, summary.found.bytes_read) == (
        day_of_year[1].found.files_read,
        day_of_year[1].found.bytes_read,
    )
    assert summary.output_fingerprint == day_of_year[1].output_fingerprint
    assert summary.found.counts_by_verdict == day_of_year[1].found.counts_by_verdict
    assert summary.rows_written == day_of_year[1].rows_written
    days = [row for row in _rows(lakehouse, "windows") if row["window_end"] >= "2026-07-10T00:00:00Z"]
    assert days == _rows(day_of_year[0], "windows")
    monkeypatch.undo()
    # what Spark wrote is replaced without it
    again = replay(JOB, inside, lakehouse, spark=spark)
    assert again.found.warnings == []
    days = [row for row in _rows(lakehouse, "windows") if row["window_end"] >= "2026-07-10T00:00:00Z"]
    assert days == _rows(day_of_year[0], "windows")


@pytest.mark.parametrize("named_files", [0, 32])
def test_a_pass_made_before_anything_is_decided_counts_as_a_scan(
    named_files: int,
    spark: SparkSession,
    year: Path,
    day_of_year: tuple[Path, RunSummary],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lakehouse = tmp_path / f"{'long' * 30}_house"
    shutil.copytree(year, lakehouse)
    monkeypatch.setattr(size, "MOST_ROWS", 0)
    monkeypatch.setattr(builder, "NAMED_FILES", named_files)
    usual = spark.conf.get("spark.sql.maxMetadataStringLength")
    packed = dataclasses.replace(
        make_plan(JOB, DAY_OF_YEAR, lakehouse), strategy=WatermarkStrategy("packed", "packed", "asked for")
    )
    summary = execute(packed, JOB, Lakehouse.at(lakehouse), spark=spark)
    # one to bound the watermarks while frames are only being built, and the two that frames show in the end
    assert summary.found.scans == {"arrivals/cars": 3}
    assert (summary.found.files_read, summary.found.bytes_read) == (
        day_of_year[1].found.files_read,
        day_of_year[1].found.bytes_read,
    )
    assert summary.output_fingerprint == day_of_year[1].output_fingerprint
    assert summary.found.warnings == []
    assert spark.conf.get("spark.sql.maxMetadataStringLength") == usual


def test_every_type_of_column_is_written_alike_with_and_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    from pipelines.batch.engine import Result
    from pipelines.lakehouse.layout import WINDOWS
    from pipelines.replay.collect import computed
    from pipelines.replay.fingerprint import fingerprint
    from pipelines.replay.write import replace_range

    frame = spark.sql(
        """
        SELECT TIMESTAMP '2026-07-10T12:00:00.000001Z' AS window_start, TIMESTAMP '2026-07-10T13:00:00Z' AS window_end,
          CAST(NULL AS STRING) AS window_id, id, CAST(id AS BYTE) AS b, CAST(id AS SHORT) AS s, CAST(id AS INT) AS i,
          CASE id WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D ELSE 0.1D END AS x, CAST(0.1 AS FLOAT) AS f,
          CAST(1.25 AS DECIMAL(12,3)) AS d, DATE '2026-07-10' AS day, id = 1 AS yes, X'00ff' AS raw,
          array(named_struct('k', 'a', 'v', id), NULL) AS structs, map('k', array(id)) AS maps,
          array(TIMESTAMP '2026-07-10T12:00:00.000001Z') AS times
        FROM range(3)
        """
    )
    lakehouse = Lakehouse.at(tmp_path)
    verdicts = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in VERDICT_FIELDS))
    result = Result(verdicts, frame, None, {}, ())
    found = fingerprint(frame).fingerprint
    for writer in ("spark", "driver"):
        with computed(JOB, result, writer) as results:
            fingerprints = results.counted[f"windows/{JOB.name}"].fingerprint
            assert (fingerprints, results.rows[f"windows/{JOB.name}"]) == (found, 3)
            for output in (EVERYTHING, DAY_OF_YEAR):
                rows = results.tables[f"windows/{JOB.name}"]
                replace_range(rows, lakehouse, f"windows/{writer}", WINDOWS, output, {"of": str(output)})
    tables = [spark.read.format("delta").load(lakehouse.uri(name)) for name in ("windows/spark", "windows/driver")]
    assert tables[0].schema == tables[1].schema
    assert [fingerprint(table.drop("output_date")).fingerprint for table in tables] == [found, found]


def test_files_that_the_plan_did_not_name_are_told(
    spark: SparkSession, year: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from pipelines.replay.run import execute

    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(year, lakehouse)
    plan = make_plan(JOB, DAY_OF_YEAR, lakehouse)
    (read,) = plan.reads
    other = replace(plan, reads=(replace(read, files=2),))
    summary = execute(other, JOB, Lakehouse.at(lakehouse), spark=spark)
    (warning,) = summary.found.warnings
    assert warning.startswith(
        f"arrivals/cars: the plan named 2 file(s) of {read.size_bytes} bytes, the run opened 3 of"
    )
    assert runs.runs_of(Lakehouse.at(lakehouse), "cars")[-1]["warnings"] == [warning]


def test_a_hundred_batches_give_what_one_gives_from_as_few_files(spark: SparkSession, tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    ingest(JOB, "cars", [_arrivals(tmp_path / "one.parquet", 0, 2000, 1)], one)
    for batch in range(100):
        ingest(JOB, "cars", [_arrivals(tmp_path / f"{batch}.parquet", batch * 20, 20, 1)], many)
    first = OutputRange(T("2026-01-01T03:00:00Z"), T("2026-01-01T23:00:00Z"))
    whole, parts = (replay(JOB, first, lakehouse, spark=spark) for lakehouse in (one, many))
    assert parts.output_fingerprint == whole.output_fingerprint
    assert _rows(many, "verdicts") == _rows(one, "verdicts")
    assert (whole.found.files_read, parts.found.files_read) == ({"arrivals/cars": 1}, {"arrivals/cars": 1})
    everything = replay(JOB, EVERYTHING, many, spark=spark)
    assert everything.output_fingerprint == replay(JOB, EVERYTHING, one, spark=spark).output_fingerprint
    assert everything.found.files_read["arrivals/cars"] <= 17


def test_the_live_run_passes_over_compaction(spark: SparkSession, tmp_path: Path) -> None:
    from pipelines.live.run import stream

    lakehouse = tmp_path / "lakehouse"
    compacted = 0
    for begin in (0, 20):
        for batch in range(begin, begin + 20):
            file = _arrivals(tmp_path / f"{batch}.parquet", batch * 20, 20, 1)
            compacted += ingest(JOB, "cars", [file], lakehouse).compacted_days
        stream(JOB, lakehouse, spark=spark)
    assert compacted >= 2
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    live = [{name: row[name] for name in row if name != "emitted_at"} for row in _rows(lakehouse, "stream_windows")]
    assert live == _rows(lakehouse, "windows")


def test_an_hour_of_a_big_day_reads_the_pages_of_that_hour(spark: SparkSession, tmp_path: Path) -> None:
    from pipelines.replay.read import read_arrivals

    many = 240_000
    times = pa.array([1_767_225_600_000_000 + 360_000 * place for place in range(many)], pa.timestamp("us", "UTC"))
    rows = {
        "arrival_time": times,
        "input_partition": pa.array([0] * many, pa.int32()),
        "sequence": pa.array(range(many), pa.int64()),
        "at": times,
        "booth": pa.array(["a"] * many),
        "n": pa.array([1] * many, pa.int32()),
    }
    pq.write_table(pa.table(rows), tmp_path / "day.parquet")
    ingest(JOB, "cars", [tmp_path / "day.parquet"], tmp_path / "lakehouse")
    assert len(DeltaTable(tmp_path / "lakehouse" / "arrivals" / "cars").file_uris()) == 1
    plan = make_plan(JOB, OutputRange(T("2026-01-01T12:00:00Z"), T("2026-01-01T13:00:00Z")), tmp_path / "lakehouse")
    frame = read_arrivals(spark, JOB, plan, Lakehouse.at(tmp_path / "lakehouse"))["cars"]
    assert len(frame.collect()) < 30_000
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    pushed = leaf.metadata().apply("PushedFilters")
    assert "GreaterThanOrEqual(arrival_time" in pushed
    assert "LessThanOrEqual(arrival_time" in pushed
    # what the scan itself gave, before any row was filtered: whole pages of 8,192 rows at both ends
    assert leaf.metrics().apply("numOutputRows").value() < 30_000 + 2 * 8_192
