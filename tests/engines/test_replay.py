"""Replay into real Delta tables: exactly the range, idempotent, nothing half-written."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.batch.stream_analytics.watermarks import task_ranges
from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.plan import watermark_strategy
from pipelines.plan.definition import ReadTable
from pipelines.plan.read_range import ReadRange
from pipelines.replay import builder, evaluate, size
from pipelines.replay.evaluate import recompute
from pipelines.replay.run import replay
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


def _job(aggregates: str = 'cars: "count(*)", mean: "avg(n)"', keep: str = "exceptions") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}}}
ordering: {{late_arrival: 20m, out_of_order: 1m, action: adjust}}
query: {{from: cars, group_by: [booth], window: {{tumbling: {{size: 1h}}}}, aggregates: {{{aggregates}}}}}
keep_verdicts: {keep}
"""
    )


JOB = _job()


def _records(hours: int, first: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(7)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    records = []
    for sequence in range(first, first + hours * 4):
        arrival = start + dt.timedelta(minutes=15 * sequence, microseconds=sequence * 7)
        at = arrival - dt.timedelta(minutes=rng.choice([0, 0, 0, 10, 19, 40]))
        record = {"arrival_time": arrival.isoformat(), "input_partition": sequence % 2, "sequence": sequence}
        records.append({**record, "at": at.isoformat(), "booth": rng.choice("ab"), "n": sequence})
    return records


def _ingest(lakehouse: Path, records: list[dict[str, Any]]) -> None:
    file = lakehouse.parent / f"{lakehouse.name}.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ingest(JOB, "cars", [file], lakehouse).quarantined == 0


def _rows(lakehouse: Path, table: str, job: Job = JOB) -> list[dict[str, Any]]:
    rows = rows_of(job, table, lakehouse)
    return [] if rows is None else plain_rows(rows)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lakehouse with an arrival log of three days and no results."""
    lakehouse = tmp_path_factory.mktemp("loaded") / "lakehouse"
    _ingest(lakehouse, _records(72))
    return lakehouse


@pytest.fixture(scope="module")
def whole(spark: SparkSession, loaded: Path) -> tuple[Path, RunSummary]:
    """The same after a replay of everything."""
    lakehouse = loaded.parent / "whole"
    shutil.copytree(loaded, lakehouse)
    return lakehouse, replay(JOB, EVERYTHING, lakehouse, spark=spark, reason="first")


def test_a_replay_reports_what_it_did_and_the_ledger_agrees(whole: tuple[Path, RunSummary]) -> None:
    lakehouse, summary = whole
    verdicts, windows = _rows(lakehouse, "verdicts"), _rows(lakehouse, "windows")
    assert summary.events == 288
    assert summary.found.counts_by_verdict["accepted"] > 0
    assert summary.found.counts_by_verdict["adjusted"] == len(verdicts)
    assert Counter(row["verdict"] for row in verdicts) == {"adjusted": len(verdicts)}
    assert Counter(reason for row in verdicts for reason in row["reasons"]) == summary.found.counts_by_reason
    assert sum(row["cars"] for row in windows) == 288
    assert summary.rows_written == {"verdicts/cars": len(verdicts), "windows/cars": len(windows)}
    (run,) = runs.runs_of(Lakehouse.at(lakehouse), "cars")
    assert (run["status"], run["reason"], run["output_fingerprint"]) == (
        "succeeded",
        "first",
        summary.output_fingerprint,
    )
    assert run["versions_read"] == {"arrivals/cars": 0}
    assert run["counts_by_verdict"] == summary.found.counts_by_verdict


def test_overlapping_ranges_in_any_order_and_one_twice_give_the_whole(
    spark: SparkSession, loaded: Path, whole: tuple[Path, RunSummary], tmp_path: Path
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(loaded, lakehouse)
    first = OutputRange(None, T("2026-01-02T01:30:00Z"))
    middle = OutputRange(T("2026-01-01T22:00:00Z"), T("2026-01-03T00:00:00Z"))
    last = OutputRange(T("2026-01-02T15:00:00.000001Z"), None)
    fingerprints = [
        replay(JOB, part, lakehouse, spark=spark).output_fingerprint for part in (last, middle, first, middle)
    ]
    assert fingerprints[1] == fingerprints[3]
    for table in ("windows", "verdicts"):
        assert _rows(lakehouse, table) == _rows(whole[0], table)


def test_the_same_range_again_changes_no_row(
    spark: SparkSession, whole: tuple[Path, RunSummary], tmp_path: Path
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(whole[0], lakehouse)
    again = replay(JOB, EVERYTHING, lakehouse, spark=spark)
    assert again.output_fingerprint == whole[1].output_fingerprint
    assert _rows(lakehouse, "windows") == _rows(whole[0], "windows")
    assert _rows(lakehouse, "verdicts") == _rows(whole[0], "verdicts")
    assert [run["status"] for run in runs.runs_of(Lakehouse.at(lakehouse), "cars")] == ["succeeded", "succeeded"]


def test_keeping_all_verdicts_keeps_those_that_simply_count(spark: SparkSession, loaded: Path, tmp_path: Path) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(loaded, lakehouse)
    day = OutputRange(T("2026-01-02T00:00:00Z"), T("2026-01-03T00:00:00Z"))
    summary = replay(_job(keep="all"), day, lakehouse, spark=spark)
    assert len(_rows(lakehouse, "verdicts")) == summary.events == 96


MIDDLE = OutputRange(T("2026-01-01T22:00:00Z"), T("2026-01-03T00:00:00Z"))


def _combinations() -> Iterator[Any]:
    """Of what is kept, the strategy and where results are collected, each pair of values; the rest are slow."""
    for keep in ("exceptions", "all"):
        for strategy in ("packed", "file_order"):
            for few in (True, False):
                marks = [] if (keep == "all") ^ (strategy == "packed") ^ few else [pytest.mark.slow]
                place = "in memory" if few else "in Spark"
                yield pytest.param(keep, strategy, few, marks=marks, id=f"{strategy}, {keep}, {place}")


@pytest.fixture(scope="module")
def in_order(
    spark: SparkSession, loaded: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Job, Path, RunSummary]:
    """A job that keeps some or all verdicts, and a replay of a part of the log that sorts it."""
    job, lakehouse = _job(keep=request.param), tmp_path_factory.mktemp("in_order") / "lakehouse"
    shutil.copytree(loaded, lakehouse)
    return job, lakehouse, replay(job, MIDDLE, lakehouse, spark=spark)


@pytest.mark.parametrize(("in_order", "strategy", "few"), list(_combinations()), indirect=["in_order"])
def test_a_log_of_many_events_is_replayed_to_the_same_tables_and_counts(
    spark: SparkSession,
    loaded: Path,
    in_order: tuple[Job, Path, RunSummary],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few: bool,
    strategy: str,
) -> None:
    job, sorted_lakehouse, expected = in_order
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(loaded, lakehouse)
    monkeypatch.setattr(watermark_strategy, "FEW_ROWS", 10)
    monkeypatch.setattr(task_ranges, "ROWS_PER_TASK", 40)
    monkeypatch.setattr(size, "MOST_ROWS", size.MOST_ROWS if few else 0)
    if strategy == "packed":
        monkeypatch.setattr(builder, "sorted_files", lambda *_: ())
    found = replay(job, MIDDLE, lakehouse, spark=spark)
    assert (expected.plan.strategy.verdicts, found.plan.strategy.verdicts) == ("sort", strategy)
    assert found.found.warnings == []
    assert found.found.counts_by_verdict == expected.found.counts_by_verdict
    assert found.found.counts_by_reason == expected.found.counts_by_reason
    assert found.rows_written == expected.rows_written
    assert found.output_fingerprint == expected.output_fingerprint
    for table in ("windows", "verdicts"):
        assert _rows(lakehouse, table, job) == _rows(sorted_lakehouse, table, job)
    assert recompute(found.plan, job, Lakehouse.at(lakehouse), spark) == expected.output_fingerprint


def test_a_file_that_is_not_in_order_is_sorted_and_told(
    spark: SparkSession, loaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse, twin = tmp_path / "lakehouse", tmp_path / "sorted"
    shutil.copytree(loaded, lakehouse)
    log = DeltaTable(str(lakehouse / "arrivals" / "cars"))
    rows = log.to_pyarrow_table().sort_by("sequence")
    # all that a footer tells is in order: two records of a partition arrived at once and stand the wrong way round
    instants = rows["arrival_time"].to_pylist()
    instants[52] = instants[50]
    place = rows.column_names.index("arrival_time")
    rows = rows.set_column(place, "arrival_time", pa.array(instants, rows.schema.types[place]))
    write_deltalake(log, rows.take([*range(50), 52, 50, 51, *range(53, len(rows))]), mode="overwrite")
    shutil.copytree(lakehouse, twin)
    expected = replay(JOB, EVERYTHING, twin, spark=spark)
    monkeypatch.setattr(watermark_strategy, "FEW_ROWS", 10)
    monkeypatch.setattr(task_ranges, "ROWS_PER_TASK", 40)
    found = replay(JOB, EVERYTHING, lakehouse, spark=spark)
    assert found.plan.strategy.verdicts == "file_order"
    (warning,) = found.found.warnings
    assert warning == (
        "a file was expected to be in order and is not: sequence 50 of partition 0 follows a later one;"
        " everything was sorted instead"
    )
    assert found.output_fingerprint == expected.output_fingerprint
    assert found.found.counts_by_verdict == expected.found.counts_by_verdict
    assert _rows(lakehouse, "verdicts") == _rows(twin, "verdicts")


def test_rows_that_a_deletion_vector_masks_are_not_replayed(
    spark: SparkSession, loaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(loaded, lakehouse)
    monkeypatch.setattr(watermark_strategy, "FEW_ROWS", 10)
    assert replay(JOB, EVERYTHING, lakehouse, spark=spark).events == 288
    log = f"delta.`{lakehouse}/arrivals/cars`"
    spark.sql(f"ALTER TABLE {log} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {log} WHERE sequence = 100")
    assert replay(JOB, EVERYTHING, lakehouse, spark=spark).events == 287


def test_an_older_version_of_the_log_gives_what_it_gave_then(
    spark: SparkSession, whole: tuple[Path, RunSummary], tmp_path: Path
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(whole[0], lakehouse)
    _ingest(lakehouse, _records(4, first=288))
    then = replay(JOB, EVERYTHING, lakehouse, spark=spark, as_of=0)
    now = replay(JOB, EVERYTHING, lakehouse, spark=spark)
    assert then.output_fingerprint == whole[1].output_fingerprint
    assert (then.events, now.events) == (288, 304)
    # a vacuum removes what no version within its retention names: these files are younger, so they are still there
    DeltaTable(lakehouse / "arrivals" / "cars").optimize.compact()
    DeltaTable(lakehouse / "arrivals" / "cars").vacuum(dry_run=False)
    assert replay(JOB, EVERYTHING, lakehouse, spark=spark, as_of=0).output_fingerprint == then.output_fingerprint


def test_a_failure_between_the_two_commits_is_reported_and_repaired_by_running_again(
    spark: SparkSession, whole: tuple[Path, RunSummary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.replay import evaluate

    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(whole[0], lakehouse)
    changed = _job('cars: "count(*)", mean: "max(n)"')
    plain = evaluate.replace_range

    def breaks(frame: Any, place: Any, name: str, *rest: Any) -> int:
        if name.startswith("windows/"):
            raise OSError("no space left on device")
        return plain(frame, place, name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "replace_range", breaks)
        with pytest.raises(EnvironmentUnfit, match="the storage refuses: no space left"):
            replay(changed, EVERYTHING, lakehouse, spark=spark)
    assert _rows(lakehouse, "windows") == _rows(whole[0], "windows")
    failed = runs.runs_of(Lakehouse.at(lakehouse), "cars")[-1]
    (version,) = failed["versions_written"].items()
    assert (failed["status"], version[0]) == ("failed", "verdicts/cars")
    assert failed["error"].startswith("the storage refuses: no space left on device; ")
    assert failed["error"].endswith(f"; it has written verdicts/cars (version {version[1]})")
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    assert _rows(lakehouse, "windows") == _rows(whole[0], "windows")
    assert _rows(lakehouse, "verdicts") == _rows(whole[0], "verdicts")


def test_a_failure_while_computing_leaves_every_table_as_it_was(
    spark: SparkSession, whole: tuple[Path, RunSummary], tmp_path: Path
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(whole[0], lakehouse)
    for file in (lakehouse / "arrivals" / "cars").rglob("*.parquet"):
        file.write_bytes(b"not parquet any more")
    with pytest.raises(Exception, match=r"."):
        replay(JOB, EVERYTHING, lakehouse, spark=spark)
    assert _rows(lakehouse, "windows") == _rows(whole[0], "windows")
    assert _rows(lakehouse, "verdicts") == _rows(whole[0], "verdicts")
    assert runs.runs_of(Lakehouse.at(lakehouse), "cars")[-1]["status"] == "failed"


def test_other_columns_replace_the_whole_table_but_never_a_part_of_it(
    spark: SparkSession, whole: tuple[Path, RunSummary], tmp_path: Path
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(whole[0], lakehouse)
    other = _job('cars: "count(*)", most: "max(n)"')
    part = OutputRange(None, T("2026-01-02T00:00:00Z"))
    with pytest.raises(UsageError, match=r"mean DOUBLE.*replay without --from and --to"):
        replay(other, part, lakehouse, spark=spark)
    assert _rows(lakehouse, "windows") == _rows(whole[0], "windows")
    replay(other, EVERYTHING, lakehouse, spark=spark)
    assert "most" in _rows(lakehouse, "windows", other)[0]


def test_a_lakehouse_that_cannot_be_written_is_refused_before_any_work(
    loaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse = tmp_path / "lakehouse"
    shutil.copytree(loaded, lakehouse)

    def refuse(**_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pipelines.lakehouse.root.tempfile.TemporaryFile", refuse)
    with pytest.raises(EnvironmentUnfit, match="cannot be written: Permission denied"):
        replay(JOB, EVERYTHING, lakehouse)
    assert sorted(path.name for path in lakehouse.iterdir()) == ["arrivals"]


def test_a_read_range_is_exact_to_the_microsecond(spark: SparkSession, tmp_path: Path) -> None:
    from pipelines.replay.read import read_arrivals

    lakehouse = tmp_path / "lakehouse"
    times = [f"2026-01-01T23:59:59.99990{digit}Z" for digit in range(4)] + ["2026-01-02T00:00:00.000001Z"]
    base = {"input_partition": 0, "at": times[0], "booth": "a", "n": 1}
    for sequence, time in enumerate(times):
        # a file each, so that every file's statistics are put to the test
        _ingest(lakehouse, [{**base, "sequence": sequence, "arrival_time": time}])
    table = ReadTable("cars", "arrivals/cars", 4, ReadRange(None, None, ""), 0, 0, None, 0, None, None)
    plan = builder.make_plan(JOB, EVERYTHING, lakehouse)

    def sequences(from_: str | None, to: str | None) -> list[int]:
        read = ReadRange(None if from_ is None else T(from_), None if to is None else T(to), "")
        reads = (dataclasses.replace(table, read=read),)
        frames = read_arrivals(spark, JOB, dataclasses.replace(plan, reads=reads), Lakehouse.at(lakehouse))
        return sorted(row["sequence"] for row in frames["cars"].collect())

    assert sequences(times[1], times[2]) == [1, 2]
    assert sequences(None, times[3]) == [0, 1, 2, 3]
    assert sequences(times[3], None) == [3, 4]


def test_a_fingerprint_knows_rows_and_their_number_and_nothing_else(spark: SparkSession) -> None:
    from pipelines.replay.fingerprint import fingerprint

    schema = "a STRING, x DOUBLE, l ARRAY<DOUBLE>, m MAP<STRING,INT>"
    rows: list[tuple[Any, ...]] = [
        ("a", 0.1, [1.0, None], {"k": 1}),
        (None, float("nan"), [], None),
        ("a", None, None, {}),
    ]

    def of(rows: list[tuple[Any, ...]], slices: int = 1) -> str:
        return fingerprint(spark.createDataFrame(rows, schema).repartition(slices)).fingerprint

    base = of(rows)
    assert of(rows[::-1], 3) == base
    frame = spark.createDataFrame(rows, schema).select("m", "x", "l", "a")
    assert fingerprint(frame).fingerprint == base
    others = [
        rows[:2],
        [*rows, rows[0]],
        [*rows, rows[0], rows[0]],
        [("a", 0.1 + 2**-56, [1.0, None], {"k": 1}), *rows[1:]],
        [("a", 0.1, [None, 1.0], {"k": 1}), *rows[1:]],
        [("", 0.1, [1.0, None], {"k": 1}), *rows[1:]],
        [*rows[:2], ("a", None, None, None)],
        [],
    ]
    assert len({base, *map(of, others)}) == len(others) + 1


WITH_INITIAL_STATE = parse_job(
    """
tailrace: 1
job: cars
profile: atlas
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at, partitions: 2}}
ordering: {allowed_lateness: 5m}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 5m}}, aggregates: {cars: "count(*)"}}
"""
)


def test_a_range_with_an_initial_state_is_the_cut_of_the_whole_whether_its_summary_was_kept_or_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    lakehouse = tmp_path / "lakehouse"
    # a stamp days ahead leaves one partition's watermark there; the other decides
    far = {**_records(1)[0], "at": "2026-01-09T00:00:00Z"}
    _ingest(lakehouse, [far, *_records(119, 1)])
    output = OutputRange(T("2026-01-03T00:00:00Z"), T("2026-01-04T00:00:00Z"))
    whole = replay(WITH_INITIAL_STATE, EVERYTHING, lakehouse, spark=spark)
    assert whole.plan.summaries == ()

    def cut(table: str, column: str) -> list[dict[str, Any]]:
        ends = "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"
        return [row for row in _rows(lakehouse, table, WITH_INITIAL_STATE) if ends[0] <= row[column] < ends[1]]

    before = cut("windows", "window_end"), cut("verdicts", "arrival_time"), cut("dead_letters", "arrival_time")
    assert all(before)
    passed = replay(WITH_INITIAL_STATE, output, lakehouse, spark=spark)
    again = replay(WITH_INITIAL_STATE, output, lakehouse, spark=spark)
    shutil.rmtree(lakehouse / "_cache" / "summaries")
    remade = replay(WITH_INITIAL_STATE, output, lakehouse, spark=spark)
    assert [run.plan.summaries[0].days_made for run in (passed, again, remade)] == [5, 0, 5]
    assert [run.plan.reads[0].files for run in (passed, again, remade)] == [2, 2, 2]
    assert len({run.output_fingerprint for run in (passed, again, remade)}) == 1
    after = cut("windows", "window_end"), cut("verdicts", "arrival_time"), cut("dead_letters", "arrival_time")
    assert after == before


@pytest.mark.parametrize("job", [JOB, WITH_INITIAL_STATE], ids=["bounded", "with an initial state"])
def test_a_range_in_slices_has_the_rows_the_fingerprint_and_the_counts_of_the_range_as_a_whole(
    spark: SparkSession, tmp_path: Path, job: Job
) -> None:
    lakehouse = tmp_path / "lakehouse"
    _ingest(lakehouse, _records(96))
    whole = replay(job, EVERYTHING, lakehouse, spark=spark)
    before = _rows(lakehouse, "windows", job), _rows(lakehouse, "verdicts", job)
    sliced = replay(job, EVERYTHING, lakehouse, slices=3, spark=spark)
    assert len(sliced.plan.slices) == 3
    assert (_rows(lakehouse, "windows", job), _rows(lakehouse, "verdicts", job)) == before
    for name in ("fingerprints", "output_fingerprint", "rows_written", "counts_by_verdict", "counts_by_reason"):
        assert getattr(sliced.found, name) == getattr(whole.found, name)
    assert sliced.found.warnings == []
    (row,) = [row for row in runs.runs_of(Lakehouse.at(lakehouse), "cars") if row["run_id"] == sliced.run_id]
    assert (row["status"], row["output_from"], row["output_to"]) == ("succeeded", None, None)
    assert row["files_planned"] == row["files_read"]
    assert recompute(sliced.plan, job, Lakehouse.at(lakehouse), spark) == whole.output_fingerprint


def test_a_run_that_fails_in_a_later_slice_names_where_to_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse = tmp_path / "lakehouse"
    _ingest(lakehouse, _records(96))
    plain, days = evaluate.replace_range, []

    def fail(rows: Any, place: Any, name: str, layout: Any, output: OutputRange, *rest: Any) -> int:
        days.append(output.from_us)
        if len(days) > 2:
            raise OSError("disk full")
        return plain(rows, place, name, layout, output, *rest)

    monkeypatch.setattr(evaluate, "replace_range", fail)
    with pytest.raises(OSError, match="disk full"):
        replay(JOB, EVERYTHING, lakehouse, slices=2, spark=spark)
    monkeypatch.undo()
    (row,) = runs.runs_of(Lakehouse.at(lakehouse), "cars")
    begun = "2026-01-03T00:00:00Z"
    assert row["status"] == "failed"
    left = "it has written verdicts/cars (version 0), windows/cars (version 0)"
    assert row["error"] == f"disk full; the slices before {begun} are written: --from {begun} goes on there; {left}"
    written = _rows(lakehouse, "windows", JOB)
    assert written
    assert all(window["window_end"] < begun for window in written)
    replay(JOB, OutputRange(T(begun), None), lakehouse, spark=spark)
    repaired = _rows(lakehouse, "windows", JOB)
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    assert _rows(lakehouse, "windows", JOB) == repaired
