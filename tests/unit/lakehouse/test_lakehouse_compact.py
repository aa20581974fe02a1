"""Arrival logs stay in few files, and nobody can tell from the rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from lakehouse_samples import job, lines, record

from pipelines.core.time import parse_instant
from pipelines.ingest.batch import IngestSummary, ingest
from pipelines.lakehouse.arrival_log import log_files
from pipelines.lakehouse.log_changes import LogChanges, changes_since, last_change
from pipelines.lakehouse.root import Lakehouse

JOB = job()


def _batch(tmp_path: Path, day: int, minute: int, partition: int = 0) -> IngestSummary:
    """One record a batch: of a minute of the day, happened then."""
    at = f"2026-01-{day:02d}T{minute // 60:02d}:{minute % 60:02d}:00.000007Z"
    sequence = day * 1440 + minute
    rows = [record(sequence, arrival_time=at, at=at, input_partition=partition)]
    return ingest(JOB, "cars", [lines(tmp_path / "batch.jsonl", *rows)], tmp_path / "lakehouse")


def _log(tmp_path: Path, version: int | None = None) -> DeltaTable:
    log = Lakehouse.at(tmp_path / "lakehouse").open("arrivals/cars", version)
    assert log is not None
    return log


def _places(log: DeltaTable) -> list[tuple[Any, ...]]:
    rows = log.to_pyarrow_table().select(["arrival_time", "input_partition", "sequence", "batch_id"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_a_hundred_small_batches_leave_few_files_and_every_row(tmp_path: Path) -> None:
    taken = [_batch(tmp_path, 1, minute).appended for minute in range(100)]
    log = _log(tmp_path)
    assert sum(taken) == 100
    assert [row[2] for row in _places(log)] == [1440 + minute for minute in range(100)]
    assert len(log_files(log)) <= 16


def test_the_batches_of_a_day_that_is_over_become_one_file_sorted_by_arrival_time(tmp_path: Path) -> None:
    # one input partition after the other: each batch begins before the one ahead of it ends
    for partition in (0, 1, 2):
        for minute in (0, 400, 800):
            _batch(tmp_path, 1, minute + partition, partition)
    assert len(log_files(_log(tmp_path))) == 9
    assert _batch(tmp_path, 2, 0).compacted_days == 1
    first, second = sorted(log_files(_log(tmp_path)), key=lambda file: file.arrival_day or 0)
    assert (first.rows, second.rows) == (9, 1)
    times = pq.ParquetFile(tmp_path / "lakehouse" / "arrivals" / "cars" / first.path).read(["arrival_time"])
    assert times["arrival_time"].cast(pa.int64()).to_pylist() == sorted(
        times["arrival_time"].cast(pa.int64()).to_pylist()
    )


def test_compaction_is_no_change_of_the_log(tmp_path: Path) -> None:
    summaries = [_batch(tmp_path, 1, minute) for minute in range(17)]
    log = _log(tmp_path)
    assert (summaries[-1].version, summaries[-1].compacted_days) == (16, 1)
    assert log.version() == 17
    assert last_change(log) == 16
    assert [change.version for change in changes_since(log, 14, 0)] == [15, 16]
    assert log.history(1)[0]["arrival_date"] == "2026-01-01"
    # of the version that was opened, whatever came since
    _batch(tmp_path, 1, 17)
    assert last_change(log) == 16


def test_older_versions_can_be_read_after_compaction(tmp_path: Path) -> None:
    for minute in range(17):
        _batch(tmp_path, 1, minute)
    assert len(log_files(_log(tmp_path))) == 1
    assert [row[2] for row in _places(_log(tmp_path, 5))] == [1440, 1441, 1442, 1443, 1444, 1445]


def test_what_a_batch_left_undone_is_done_when_it_is_given_again(tmp_path: Path) -> None:
    for minute in range(17):
        _batch(tmp_path, 1, minute)
    log = _log(tmp_path)
    log.restore(16)  # as if the process had ended between its two commits
    assert len(log_files(_log(tmp_path))) == 17
    again = _batch(tmp_path, 1, 16)
    assert again.already_ingested
    assert again.compacted_days == 1
    assert len(log_files(_log(tmp_path))) == 1


def test_a_day_that_cannot_be_compacted_does_not_refuse_the_batch(tmp_path: Path) -> None:
    for minute in range(16):
        _batch(tmp_path, 1, minute)
    lost = log_files(_log(tmp_path))[0]
    (tmp_path / "lakehouse" / "arrivals" / "cars" / lost.path).unlink()
    summary = _batch(tmp_path, 1, 16, partition=1)
    assert (summary.appended, summary.compacted_days) == (1, 0)
    (warning,) = summary.warnings
    assert warning.startswith("2026-01-01 stays in 17 files until the next batch: ")


def test_a_big_batch_lies_in_row_groups_of_narrow_arrival_ranges(tmp_path: Path) -> None:
    many = 300_000
    start_us = 1_767_225_600_000_000
    times = pa.array([start_us + 250_000 * n for n in range(many)], pa.timestamp("us", "UTC"))
    rows = {
        "arrival_time": times,
        "input_partition": pa.array([n % 3 for n in range(many)], pa.int32()),
        "sequence": pa.array(range(many), pa.int64()),
        "at": times,
        "booth": pa.array(["a"] * many),
        "n": pa.array([1] * many, pa.int32()),
        "x": pa.array([0.5] * many),
    }
    pq.write_table(pa.table(rows), tmp_path / "big.parquet")
    assert ingest(JOB, "cars", [tmp_path / "big.parquet"], tmp_path / "lakehouse").appended == many
    (file,) = log_files(_log(tmp_path))
    reported = pq.ParquetFile(tmp_path / "lakehouse" / "arrivals" / "cars" / file.path).metadata
    place = reported.schema.names.index("arrival_time")
    groups = [reported.row_group(index) for index in range(reported.num_row_groups)]
    assert max(group.num_rows for group in groups) == 131_072
    ends = [(group.column(place).statistics.min, group.column(place).statistics.max) for group in groups]
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


def test_changes_of_later_arrivals_than_those_asked_for_are_left_out_and_all_commits_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in (1, 2, 3):
        _batch(tmp_path, day, 0)
    changes = LogChanges(_log(tmp_path))
    second_us = parse_instant("2026-01-02T00:00:00.000Z")
    assert [change.version for change in changes.since(0, 0)] == [1, 2]
    assert [change.version for change in changes.since(0, 0, second_us)] == [1, 2]
    assert changes.since(1, 0, second_us) == []
    monkeypatch.setattr("pipelines.lakehouse.log_changes._commit", lambda log, version: pytest.fail("read again"))
    assert [change.version for change in changes.since(1, 0)] == [2]
