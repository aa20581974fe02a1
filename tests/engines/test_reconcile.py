"""Reconcile in Spark: each way in which a live run can differ is found, counted, and named by recomputing."""

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
from typing import TYPE_CHECKING

import pytest
from reconcile_rows import Row, ingested, results, written

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Grid, OutputRange
from pipelines.core.time import HOUR, MINUTE, SECOND, parse_duration, parse_instant
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
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


def _text(late: str = "20m") -> str:
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


def _reconciled(lakehouse: Path) -> list[Row]:
    rows = rows_of(JOB, "reconciliations", lakehouse)
    return [] if rows is None else plain_rows(rows)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of cars, replayed."""
    lakehouse = ingested(JOB, tmp_path_factory.mktemp("reconcile") / "lakehouse", {"cars": _records(48)})
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    return lakehouse


@pytest.fixture
def lakehouse(whole: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(whole, tmp_path / "lakehouse"))


Change = Callable[[list[Row]], list[Row]]


def _after(lakehouse: Path, spark: SparkSession, change: Change, output: OutputRange = EVERYTHING) -> Reconciliation:
    """The reconciliation with what a live run wrote that differs from the job's results by a change."""
    written(lakehouse, "stream_windows/cars", change(results(JOB, lakehouse)))
    return reconcile(JOB, output, lakehouse, spark=spark)


def _at(rows: list[Row], end: str, booth: str) -> Row:
    (row,) = [row for row in rows if row["window_end"] == T(end) and row["booth"] == booth]
    return row


NOON = "2026-01-01T12:00:00Z"
FIRST_DAY = OutputRange(T("2026-01-01T00:00:00Z"), T("2026-01-02T00:00:00Z"))


def _counted(window: Row, late_minutes: float = 20) -> list[Row]:
    """The events that counted in a window, by the rules of its job worked out here: no event is early or invalid."""
    latest: dt.datetime | None = None
    inside = []
    for one in sorted(_records(48), key=lambda one: one["sequence"]):
        arrival, at = dt.datetime.fromisoformat(one["arrival_time"]), dt.datetime.fromisoformat(one["at"])
        time = max(at, arrival - dt.timedelta(minutes=late_minutes))
        counts = time if latest is None else max(time, latest - dt.timedelta(hours=1))
        latest = time if latest is None else max(latest, time)
        lies_in = window["window_start"] < counts.timestamp() * SECOND <= window["window_end"]
        if lies_in and one["booth"] == window["booth"]:
            inside.append(one)
    return inside


def _lose(window: Row, events: list[Row], place: int) -> int:
    """Take an event out of a window's values; its sequence."""
    gone = events.pop(place)
    window["cars"] -= 1
    window["numbers"] -= gone["n"]
    window["mean"] = sum(one["toll"] for one in events) / len(events)
    return int(gone["sequence"])


def test_a_deleted_row_a_doubled_row_a_lost_event_and_last_bits_are_each_named(
    lakehouse: Path, spark: SparkSession
) -> None:
    lost: list[int] = []

    def change(rows: list[Row]) -> list[Row]:
        deleted, doubled = _at(rows, NOON, "a"), _at(rows, "2026-01-01T15:00:00Z", "b")
        short, bits = _at(rows, "2026-01-01T20:00:00Z", "a"), _at(rows, "2026-01-02T01:00:00Z", "b")
        lost.append(_lose(short, _counted(short), 1))
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


def test_a_changed_tolerance_and_four_faults_at_once_are_each_named(lakehouse: Path, spark: SparkSession) -> None:
    def change(_: list[Row]) -> list[Row]:
        rows = results(parse_job(_text(late="12m30s")), lakehouse)
        deleted, doubled = _at(rows, NOON, "a"), _at(rows, "2026-01-01T15:00:00Z", "b")
        short = _at(rows, "2026-01-01T21:00:00Z", "a")
        _lose(short, _counted(short, late_minutes=12.5), -1)
        stopped = [row for row in rows if T("2026-01-02T05:00:00Z") <= row["window_end"] < T("2026-01-02T09:00:00Z")]
        return [row for row in rows if row is not deleted and row not in stopped] + [doubled]

    result = _after(lakehouse, spark, change)
    causes = Counter(result.by_cause)
    by_policy = causes.pop("another_policy")
    assert by_policy > 5
    assert causes == {
        "stream_stopped_or_restarted": 8,
        "duplicate_emission": 1,
        "lost_events": 1,
        "row_missing_in_stream": 1,
    }
    evidence = {row["cause"]: json.loads(row["evidence"]) for row in _reconciled(lakehouse)}
    stopped = evidence["stream_stopped_or_restarted"]
    assert (stopped["first_missing_end"], stopped["last_missing_end"]) == (
        "2026-01-02T05:00:00Z",
        "2026-01-02T08:00:00Z",
    )
    policy = evidence["another_policy"]
    assert list(policy["settings"]) == ["ordering.late_arrival"]
    assert policy["settings"]["ordering.late_arrival"]["job_file"] == "20m"
    reach = policy["values_that_do_as_well"]
    assert parse_duration(reach["from"]) <= 12.5 * MINUTE <= parse_duration(reach["to"])
    assert parse_duration(reach["to"]) - parse_duration(reach["from"]) < 3 * MINUTE
    assert policy["rows_explained"] >= by_policy


def test_a_live_run_with_other_windows_is_named(lakehouse: Path, spark: SparkSession) -> None:
    wider = dataclasses.replace(JOB, query=dataclasses.replace(JOB.window_query, window=Grid(2 * HOUR, 2 * HOUR)))
    result = _after(lakehouse, spark, lambda _: results(wider, lakehouse))
    assert set(result.by_cause) == {"another_policy"}
    assert set(result.by_status) == {"missing_in_replay", "missing_in_stream"}
    policy = json.loads(_reconciled(lakehouse)[0]["evidence"])
    assert policy["settings"]["query.window.size"] == {"job_file": "1h", "live_run": "2h"}
    assert policy["rows_explained"] == result.differing


def test_arrivals_appended_after_the_output_are_named_with_their_batch(spark: SparkSession, tmp_path: Path) -> None:
    records = [record | {"input_partition": record["sequence"] % 2} for record in _records(24)]
    held_back = [record for record in records if record["input_partition"] == 1][-9:-6]
    early = [record for record in records if record["sequence"] < held_back[0]["sequence"]]
    early += [r for r in records if r["input_partition"] == 0 and r["sequence"] >= held_back[0]["sequence"]]
    lakehouse = ingested(JOB, tmp_path / "lakehouse", {"cars": early}, "first")
    live = results(JOB, lakehouse)
    emitted = round(dt.datetime.now(dt.UTC).timestamp() * SECOND)
    time.sleep(0.01)
    ingested(JOB, lakehouse, {"cars": held_back}, "straggler")
    written(lakehouse, "windows/cars", results(JOB, lakehouse))
    written(lakehouse, "stream_windows/cars", [row | {"emitted_at": emitted} for row in live])
    result = reconcile(JOB, EVERYTHING, lakehouse, spark=spark)
    assert result.differing > 0
    assert result.by_cause == {"late_arrivals_after_output": result.differing}
    assert json.loads(_reconciled(lakehouse)[0]["evidence"])["batches"] == ["straggler"]


def test_a_value_that_nothing_gives_is_unexplained_and_only_the_range_is_written(
    lakehouse: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(rows: list[Row]) -> list[Row]:
        _at(rows, NOON, "a")["numbers"] = -1
        _at(rows, "2026-01-02T12:00:00Z", "a")["mean"] = float("nan")
        return rows

    with monkeypatch.context() as written_by_spark:
        written_by_spark.setattr("pipelines.reconcile.run.MOST_ROWS", 0)
        assert _after(lakehouse, spark, change).by_cause == {"unexplained": 2}
    # equal tables agree whatever their order
    agreed = _after(lakehouse, spark, lambda rows: rows[::-1], FIRST_DAY)
    assert (agreed.differing, agreed.by_status, agreed.first) == (0, {}, None)
    assert agreed.equal == sum(row["window_end"] in FIRST_DAY for row in results(JOB, lakehouse))
    assert [row["window_end"] for row in _reconciled(lakehouse)] == ["2026-01-02T12:00:00Z"]
    kinds = [run["kind"] for run in runs.runs_of(Lakehouse.at(lakehouse), "cars")]
    assert kinds == ["replay", "reconcile", "reconcile"]


def test_without_a_replay_or_a_live_table_there_is_nothing_to_compare(lakehouse: Path, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"no table stream_windows/cars.*tailrace stream"):
        reconcile(JOB, EVERYTHING, lakehouse, spark=spark)
    shutil.rmtree(lakehouse / "windows")
    with pytest.raises(UsageError, match=r"windows/cars was never written"):
        reconcile(JOB, EVERYTHING, lakehouse, spark=spark)
