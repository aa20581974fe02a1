"""Reconcile: each way in which a live run can differ is found, counted, and named by recomputing."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.cli.main import run as tailrace
from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Grid, Job, OutputRange
from pipelines.core.time import HOUR, MINUTE, parse_duration, parse_instant, to_datetime
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.plan.read_range import read_range
from pipelines.recompute.logs import Logs
from pipelines.recompute.windows import CachedEvaluator, recompute
from pipelines.reconcile.result import Reconciliation
from pipelines.reconcile.run import reconcile
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

T = parse_instant
Row = dict[str, Any]


def _text(late: str = "20m", columns: str = "") -> str:
    return f"""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, booth STRING, n INT, toll DOUBLE", timestamp_by: at}}}}
ordering: {{late_arrival: {late}, out_of_order: 1h, action: adjust}}
query:
  from: cars
  group_by: [booth]
  window: {{tumbling: {{size: 1h}}}}
  aggregates: {{cars: "count(*)", numbers: "sum(n)", mean: "avg(toll)"}}
stream: {{columns: {{{columns}}}}}
"""


JOB = parse_job(_text())


def _records(hours: int, seed: int = 7) -> list[Row]:
    """An event about every seven minutes; half of them late, by up to three quarters of an hour."""
    rng = random.Random(seed)
    arrival = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    end = arrival + dt.timedelta(hours=hours)
    records: list[Row] = []
    while (arrival := arrival + dt.timedelta(seconds=rng.randint(60, 800))) < end:
        at = arrival - dt.timedelta(seconds=rng.choice([0, rng.randint(0, 2700)]))
        record = {"arrival_time": arrival.isoformat(), "input_partition": 0, "sequence": len(records)}
        values = {"at": at.isoformat(), "booth": rng.choice("ab"), "n": len(records), "toll": rng.random()}
        records.append(record | values)
    return records


def _ingest(lakehouse: Path, records: list[Row], batch: str) -> None:
    file = lakehouse.parent / f"{lakehouse.name}-{batch}.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ingest(JOB, "cars", [file], lakehouse, batch=batch).quarantined == 0


def _windows(lakehouse: Path) -> list[Row]:
    """The replay's rows, in order."""
    table = DeltaTable(str(lakehouse / "windows" / "cars")).to_pyarrow_table()
    return sorted(table.to_pylist(), key=lambda row: (row["window_end"], row["booth"]))


def _write_stream(
    lakehouse: Path, rows: list[Row], name: str = "stream_windows/cars", like: str = "windows/cars"
) -> None:
    schema = DeltaTable(str(lakehouse / like)).to_pyarrow_table().schema
    schema = schema.append(pa.field("emitted_at", pa.timestamp("us", "UTC")))
    emitted = [{"emitted_at": None, **row} for row in rows]
    data = pa.Table.from_pylist(emitted, schema=schema)
    write_deltalake(str(lakehouse / name), data, mode="overwrite", partition_by=["output_date"])


def _reconciled(lakehouse: Path) -> list[Row]:
    rows = rows_of(JOB, "reconciliations", lakehouse)
    return [] if rows is None else plain_rows(rows)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of cars, replayed."""
    lakehouse = tmp_path_factory.mktemp("reconcile") / "house"
    _ingest(lakehouse, _records(48), "all")
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    return lakehouse


@pytest.fixture
def lakehouse(whole: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(whole, tmp_path / "house"))


Change = Callable[[list[Row]], list[Row]]


def _after(lakehouse: Path, spark: SparkSession, change: Change, **more: Any) -> Reconciliation:
    _write_stream(lakehouse, change(_windows(lakehouse)))
    return reconcile(JOB, EVERYTHING, lakehouse, spark=spark, **more)


def _at(rows: list[Row], end: str, booth: str) -> Row:
    (row,) = [row for row in rows if row["window_end"] == dt.datetime.fromisoformat(end) and row["booth"] == booth]
    return row


NOON = "2026-01-01T12:00:00Z"


def test_equal_tables_agree_whatever_the_order(lakehouse: Path, spark: SparkSession) -> None:
    result = _after(lakehouse, spark, lambda rows: rows[::-1])
    assert (result.differing, result.by_status, result.first) == (0, {}, None)
    assert result.equal == len(_windows(lakehouse))
    assert _reconciled(lakehouse) == []


def test_a_deleted_row_a_doubled_row_a_lost_event_and_last_bits_are_each_named(
    lakehouse: Path, spark: SparkSession
) -> None:
    lost: list[int] = []

    def change(rows: list[Row]) -> list[Row]:
        deleted, doubled = _at(rows, NOON, "a"), _at(rows, "2026-01-01T15:00:00Z", "b")
        short, bits = _at(rows, "2026-01-01T20:00:00Z", "a"), _at(rows, "2026-01-02T01:00:00Z", "b")
        events = _counted(short)
        gone = events.pop(1)
        lost.append(gone["sequence"])
        short["cars"] -= 1
        short["numbers"] -= gone["n"]
        short["mean"] = sum(one["toll"] for one in events) / len(events)
        bits["mean"] *= 1 + 1e-13
        return [row for row in rows if row is not deleted] + [doubled]

    result = _after(lakehouse, spark, change)
    assert result.by_status == {"different": 2, "missing_in_stream": 1, "duplicated_in_stream": 1}
    assert result.by_cause == {
        "duplicate_emission": 1,
        "floating_point_only": 1,
        "lost_events": 1,
        "row_missing_in_stream": 1,
    }
    rows = {row["cause"]: row for row in _reconciled(lakehouse)}
    assert json.loads(rows["lost_events"]["evidence"])["missing_events"] == [f"cars/0/{lost[0]}"]
    assert rows["duplicate_emission"]["copies"] == 2
    assert result.first is not None
    assert (result.first["window_end"], result.first["cause"]) == (NOON, "row_missing_in_stream")
    assert "2026-01-01T12:00:00Z of booth a: the replay has cars" in result.story[0]


def _counted(window: Row, late_minutes: float = 20) -> list[Row]:
    """The events that counted in a window, by the rules of its job worked out here: no event is early or invalid."""
    latest: dt.datetime | None = None
    inside = []
    for one in sorted(_records(48), key=lambda one: one["sequence"]):
        arrival, at = dt.datetime.fromisoformat(one["arrival_time"]), dt.datetime.fromisoformat(one["at"])
        time = max(at, arrival - dt.timedelta(minutes=late_minutes))
        counts = time if latest is None else max(time, latest - dt.timedelta(hours=1))
        latest = time if latest is None else max(latest, time)
        if window["window_start"] < counts <= window["window_end"] and one["booth"] == window["booth"]:
            inside.append(one)
    return inside


def _live_under(job: Job, lakehouse: Path) -> list[Row]:
    """What a live run of ``job`` over the whole log would have written, by the reference engine."""
    logs = Logs(Lakehouse.at(lakehouse))
    rows = recompute(job, logs.arrivals(job, read_range(job, EVERYTHING)), EVERYTHING, CachedEvaluator()).rows
    instants = ("window_start", "window_end")
    shown = [{**row, **{name: to_datetime(row[name]) for name in instants}} for row in rows]  # type: ignore[arg-type]
    return [{**row, "output_date": row["window_end"].date()} for row in shown]


def test_a_changed_tolerance_is_named_with_its_value(lakehouse: Path, spark: SparkSession) -> None:
    result = _after(lakehouse, spark, lambda _: _live_under(parse_job(_text(late="10m")), lakehouse))
    assert result.differing > 5
    assert result.by_cause == {"another_policy": result.differing}
    evidence = json.loads(_reconciled(lakehouse)[0]["evidence"])
    assert list(evidence["settings"]) == ["ordering.late_arrival"]
    assert evidence["settings"]["ordering.late_arrival"]["job_file"] == "20m"
    reach = evidence["values_that_do_as_well"]
    assert parse_duration(reach["from"]) <= 10 * MINUTE <= parse_duration(reach["to"])
    assert parse_duration(reach["to"]) - parse_duration(reach["from"]) < 3 * MINUTE
    assert evidence["rows_explained"] == result.differing


def test_five_faults_at_once_are_each_named(lakehouse: Path, spark: SparkSession) -> None:
    def change(_: list[Row]) -> list[Row]:
        rows = _live_under(parse_job(_text(late="12m30s")), lakehouse)
        deleted, doubled = _at(rows, NOON, "a"), _at(rows, "2026-01-01T15:00:00Z", "b")
        short = _at(rows, "2026-01-01T21:00:00Z", "a")
        events = _counted(short, late_minutes=12.5)
        gone = events.pop()
        short["cars"] -= 1
        short["numbers"] -= gone["n"]
        short["mean"] = sum(one["toll"] for one in events) / len(events)
        stopped = [row for row in rows if "2026-01-02T05" <= row["window_end"].isoformat() < "2026-01-02T09"]
        return [row for row in rows if row is not deleted and row not in stopped] + [doubled]

    result = _after(lakehouse, spark, change)
    causes = Counter(result.by_cause)
    assert causes.pop("another_policy") > 5
    assert causes == {
        "stream_stopped_or_restarted": 8,
        "duplicate_emission": 1,
        "lost_events": 1,
        "row_missing_in_stream": 1,
    }
    stop = next(row for row in _reconciled(lakehouse) if row["cause"] == "stream_stopped_or_restarted")
    evidence = json.loads(stop["evidence"])
    assert evidence["first_missing_end"] == "2026-01-02T05:00:00Z"
    assert evidence["last_missing_end"] == "2026-01-02T08:00:00Z"


def test_a_stream_that_stopped_inside_a_window_counted_a_part_of_it(lakehouse: Path, spark: SparkSession) -> None:
    def change(rows: list[Row]) -> list[Row]:
        last = _at(rows, "2026-01-02T06:00:00Z", "a")
        events = sorted(_counted(last), key=lambda one: one["sequence"])[:1]
        last |= {"cars": 1, "numbers": events[0]["n"], "mean": events[0]["toll"]}
        return [row for row in rows if row["window_end"] <= last["window_end"]]

    result = _after(lakehouse, spark, change)
    assert set(result.by_cause) == {"stream_stopped_or_restarted"}
    assert result.by_status["different"] == 1
    (part,) = [row for row in _reconciled(lakehouse) if row["status"] == "different"]
    assert json.loads(part["evidence"])["counted"] == 1


def test_a_live_run_with_other_windows_is_named(lakehouse: Path, spark: SparkSession) -> None:
    wider = dataclasses.replace(JOB, query=dataclasses.replace(JOB.query, window=Grid(2 * HOUR, 2 * HOUR)))
    result = _after(lakehouse, spark, lambda _: _live_under(wider, lakehouse))
    assert set(result.by_cause) == {"another_policy"}
    assert set(result.by_status) == {"missing_in_replay", "missing_in_stream"}
    settings = json.loads(_reconciled(lakehouse)[0]["evidence"])["settings"]
    assert settings["query.window.size"] == {"job_file": "1h", "live_run": "2h"}


def test_arrivals_appended_after_the_output_are_named_with_their_batch(spark: SparkSession, tmp_path: Path) -> None:
    lakehouse = tmp_path / "house"
    records = [record | {"input_partition": record["sequence"] % 2} for record in _records(24)]
    held_back = [record for record in records if record["input_partition"] == 1][-9:-6]
    early = [record for record in records if record["sequence"] < held_back[0]["sequence"]]
    early += [r for r in records if r["input_partition"] == 0 and r["sequence"] >= held_back[0]["sequence"]]
    _ingest(lakehouse, early, "first")
    live = _live_under(JOB, lakehouse)
    emitted = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    _ingest(lakehouse, held_back, "straggler")
    _write_windows(lakehouse, _live_under(JOB, lakehouse))
    _write_stream(lakehouse, [row | {"emitted_at": emitted} for row in live])
    result = reconcile(JOB, EVERYTHING, lakehouse, spark=spark)
    assert result.differing > 0
    assert result.by_cause == {"late_arrivals_after_output": result.differing}
    assert json.loads(_reconciled(lakehouse)[0]["evidence"])["batches"] == ["straggler"]


def test_a_value_that_nothing_gives_is_unexplained_and_only_the_range_is_written(
    lakehouse: Path, spark: SparkSession
) -> None:
    def change(rows: list[Row]) -> list[Row]:
        _at(rows, NOON, "a")["numbers"] = -1
        _at(rows, "2026-01-02T12:00:00Z", "a")["mean"] = float("nan")
        return rows

    assert _after(lakehouse, spark, change).by_cause == {"unexplained": 2}
    _write_stream(lakehouse, _windows(lakehouse))
    day = OutputRange(T("2026-01-01T00:00:00Z"), T("2026-01-02T00:00:00Z"))
    assert reconcile(JOB, day, lakehouse, spark=spark).differing == 0
    assert [row["window_end"] for row in _reconciled(lakehouse)] == ["2026-01-02T12:00:00Z"]
    kinds = [run["kind"] for run in runs.runs_of(Lakehouse.at(lakehouse), "cars")]
    assert kinds == ["replay", "reconcile", "reconcile"]


def test_a_table_of_other_names_and_types_is_compared_through_the_job_s_mapping(
    lakehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = [
        {"end": row["window_end"], "lane": row["booth"], "cars": float(row["cars"]), "s": row["numbers"]}
        for row in _windows(lakehouse)
    ]
    theirs[3]["cars"] += 0.5
    write_deltalake(str(lakehouse / "theirs"), pa.Table.from_pylist(theirs))
    job = tmp_path / "cars.yaml"
    job.write_text(_text(columns="end: window_end, lane: booth, s: numbers"))
    code = tailrace(["reconcile", str(job), "--against", "theirs", "--lakehouse", str(lakehouse), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["by_status"], told["against"]) == (1, {"different": 1}, "theirs")
    assert "mean" in told["notes"][0]
    assert told["first"]["stream"]["cars"] == told["first"]["replay"]["cars"] + 0.5


def test_a_live_run_that_closed_an_idle_window_is_named(spark: SparkSession, tmp_path: Path) -> None:
    job = parse_job(_ATLAS)
    lakehouse = tmp_path / "house"
    minutes = [(0, 0), (4, 4), (6, 5), (7, 7), (30, 3), (31, 31), (40, 40)]
    records = [
        {"arrival_time": f"2026-01-01T12:{arrival:02d}:00Z", "input_partition": 0, "sequence": index, "n": index}
        | {"at": f"2026-01-01T12:{at:02d}:00Z"}
        for index, (arrival, at) in enumerate(minutes)
    ]
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    ingest(job, "cars", [file], lakehouse)
    rows = _live_under(job, lakehouse)
    _write_windows(lakehouse, rows, "windows/idle")
    first = rows[0]
    assert first["cars"] == 5
    first |= {"cars": 4, "numbers": 6}
    _write_stream(lakehouse, rows, "stream_windows/idle", like="windows/idle")
    result = reconcile(job, EVERYTHING, lakehouse, spark=spark)
    assert result.by_cause == {"idle_close_not_recorded": 1}
    assert result.story[1].count("2026-01-01T12:10:00Z") == 1


def test_without_a_replay_or_a_live_table_there_is_nothing_to_compare(lakehouse: Path, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"no table stream_windows/cars.*tailrace stream"):
        reconcile(JOB, EVERYTHING, lakehouse, spark=spark)
    shutil.rmtree(lakehouse / "windows")
    with pytest.raises(UsageError, match=r"windows/cars was never written"):
        reconcile(JOB, EVERYTHING, lakehouse, spark=spark)


_ATLAS = """
tailrace: 1
job: idle
profile: atlas
inputs: {cars: {columns: "at TIMESTAMP, n INT", timestamp_by: at}}
ordering: {allowed_lateness: 1h}
query: {from: cars, window: {tumbling: {size: 10m}}, aggregates: {cars: "count(*)", numbers: "sum(n)"}}
end_of_log: flush
"""


def _write_windows(lakehouse: Path, rows: list[Row], name: str = "windows/cars") -> None:
    groups = [("booth", pa.string())] if "booth" in rows[0] else []
    means = [("mean", pa.float64())] if "mean" in rows[0] else []
    instants = [("window_start", pa.timestamp("us", "UTC")), ("window_end", pa.timestamp("us", "UTC"))]
    counts = [("cars", pa.int64()), ("numbers", pa.int64())]
    columns = [*instants, ("window_id", pa.string()), *groups, *counts, *means, ("output_date", pa.date32())]
    data = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    write_deltalake(str(lakehouse / name), data, mode="overwrite", partition_by=["output_date"])
