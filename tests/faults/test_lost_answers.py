"""A commit that is in the table although its writer got an error, and work that is delivered twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from kills import JOB, write_records

from pipelines.core.model import EVERYTHING
from pipelines.core.time import DAY, parse_instant
from pipelines.ingest import batch
from pipelines.ingest.batch import ingest
from pipelines.lakehouse import runs
from pipelines.lakehouse.layout import WINDOWS
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.spark import sink
from pipelines.live.spark.sink import LiveTable, table_schema
from pipelines.replay import write
from pipelines.replay.write import replace_range

Lose = Callable[[Any], list[int]]
NOON = parse_instant("2026-01-01T12:00:00Z")
ROW = {
    "run_id": "1",
    "job": "cars",
    "kind": "replay",
    "status": runs.RUNNING,
    "started_at": datetime(2026, 1, 1, tzinfo=UTC),
    "process": runs.this_process(),
}


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Makes a module lose the answer to its first commit; the list has an item then."""

    def of(module: Any) -> list[int]:
        lost: list[int] = []

        def and_lose(*given: Any, **more: Any) -> None:
            write_deltalake(*given, **more)
            if not lost:
                lost.append(1)
                raise CommitFailedError("the answer was lost")

        monkeypatch.setattr(module, "write_deltalake", and_lose)
        return lost

    return of


def _windows(n: int) -> pa.Table:
    return pa.table(
        {
            "window_end": pa.array([NOON], pa.timestamp("us", "UTC")),
            "n": pa.array([n], pa.int64()),
            "output_date": pa.array([NOON // DAY], pa.int32()).cast(pa.date32()),
        }
    )


def test_a_batch_whose_answer_was_lost_is_in_the_log_once(tmp_path: Path, lose: Lose) -> None:
    ingest(JOB, "cars", [write_records(tmp_path / "a.jsonl", range(9))], tmp_path)
    lost = lose(batch)
    found = ingest(JOB, "cars", [write_records(tmp_path / "b.jsonl", range(9, 20))], tmp_path)
    again = ingest(JOB, "cars", [tmp_path / "b.jsonl"], tmp_path)
    sequences = DeltaTable(tmp_path / "arrivals" / "cars").to_pyarrow_table()["sequence"].to_pylist()
    assert (lost, found.already_ingested, again.already_ingested) == ([1], True, True)
    assert sorted(sequences) == list(range(20))


def test_results_whose_answer_was_lost_are_there_once_at_the_version_that_is_named(tmp_path: Path, lose: Lose) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    replace_range(_windows(1), lakehouse, "windows/cars", WINDOWS, EVERYTHING, {"run_id": "1"})
    lost = lose(write)
    version = replace_range(_windows(2), lakehouse, "windows/cars", WINDOWS, EVERYTHING, {"run_id": "2"})
    assert lost == [1]
    assert DeltaTable(tmp_path / "windows" / "cars", version=version).to_pyarrow_table() == _windows(2)


@pytest.mark.parametrize("loses", [runs.RUNNING, runs.SUCCEEDED])
def test_a_run_whose_answer_was_lost_is_in_the_ledger_once(tmp_path: Path, lose: Lose, loses: str) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    runs.record(lakehouse, {**ROW, "run_id": "0", "status": runs.SUCCEEDED})
    lost: list[int] = []
    for status in (runs.RUNNING, runs.SUCCEEDED):
        lost = lose(runs) if status == loses else lost
        runs.record(lakehouse, {**ROW, "status": status})
    assert lost == [1]
    assert [(run["run_id"], run["status"]) for run in runs.runs_of(lakehouse, "cars")] == [
        ("0", "succeeded"),
        ("1", "succeeded"),
    ]


def test_a_run_that_began_with_a_lost_answer_and_died_is_abandoned_once(tmp_path: Path, lose: Lose) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    runs.record(lakehouse, {**ROW, "run_id": "0", "status": runs.SUCCEEDED})
    assert lose(runs) == []
    runs.record(lakehouse, {**ROW, "process": f"{runs.this_process().rpartition('/')[0]}/{2**22 + 1}"})
    runs.abandon_dead(lakehouse, JOB)
    assert [run["status"] for run in runs.runs_of(lakehouse, "cars")] == ["succeeded", "abandoned"]


def test_a_batch_of_the_live_run_is_written_once_however_often_it_comes(tmp_path: Path, lose: Lose) -> None:
    schema = table_schema([("window_end", pa.timestamp("us", "UTC")), ("n", pa.int64())], "output_date")
    table = LiveTable(Lakehouse.at(tmp_path), "stream_windows/cars", schema, "window_end", "output_date", 0, "one")
    table.write(0, [[NOON], [1]], [], advanced=True)
    lose(sink)
    with pytest.raises(CommitFailedError):
        table.write(1, [[NOON], [2]], [[NOON], [3]], advanced=True)
    for number in (1, 0, 1):
        table.write(number, [[NOON], [9]], [], advanced=True)
    rows = DeltaTable(tmp_path / "stream_windows" / "cars").to_pyarrow_table()
    assert sorted(rows["n"].to_pylist()) == [1, 2, 3]
