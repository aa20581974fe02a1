"""Data files that are written before the commit that names them: their statistics, their order, and conflicts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from pipelines.ingest import sorted_runs
from pipelines.ingest.sorted_runs import SortedRuns
from pipelines.lakehouse.append import append
from pipelines.lakehouse.arrival_log import log_files
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.lakehouse.sorted_files import sorted_files

NAME = "arrivals/cars"
KEYS = [("arrival_time", TIMESTAMP), ("input_partition", pa.int32()), ("sequence", pa.int64())]
DAY = [("arrival_date", pa.date32())]
SCHEMA = pa.schema(
    [*KEYS, ("x", pa.float64()), ("y", pa.float64()), ("short", pa.string()), ("long", pa.string()), *DAY]
)
FIRST_US = 1_767_268_800_000_001
"""2026-01-01T12:00:00.000001Z"""


def arrivals(at: Iterable[int], schema: pa.Schema = SCHEMA, partition: int = 0) -> pa.Table:
    """Arrivals so many seconds after the first one; other columns are null."""
    times = pa.array([FIRST_US + second * 1_000_000 for second in at], pa.int64()).cast(TIMESTAMP)
    known = {
        "arrival_time": times,
        "input_partition": pa.array([partition] * len(times), pa.int32()),
        "sequence": pa.array(range(len(times)), pa.int64()),
        "arrival_date": times.cast(pa.timestamp("us")).cast(pa.date32(), safe=False),
    }
    return pa.table(
        [known.get(name, pa.nulls(len(times), schema.field(name).type)) for name in schema.names], schema=schema
    )


def write(root: Path, log: DeltaTable | None, *tables: pa.Table) -> DeltaTable:
    """The log after a commit on ``log`` that appends tables of one day."""
    commit = CommitProperties(custom_metadata={"batch_id": "b"}, max_commit_retries=0)
    append(Lakehouse.at(root), NAME, log, tables[0].schema, [(20_454, tables)], commit)
    return DeltaTable(str(root / NAME))


def test_statistics_bound_each_column_that_has_bounds(tmp_path: Path) -> None:
    rows = arrivals([0, 1])
    for name, values in {
        "x": [-1.5, 2.5],
        "y": [1.0, float("nan")],
        "short": ["b", None],
        "long": ["a" * 65, "b"],
    }.items():
        place = SCHEMA.get_field_index(name)
        rows = rows.set_column(place, SCHEMA.field(place), pa.array(values, SCHEMA.field(place).type))
    log = write(tmp_path, None, rows, arrivals([3]))
    commit = Path(log.table_uri.removeprefix("file://")) / "_delta_log" / f"{0:020d}.json"
    (added,) = (json.loads(line)["add"] for line in commit.read_text().splitlines() if line.startswith('{"add"'))
    assert json.loads(added["stats"]) == {
        "numRecords": 3,
        "minValues": {
            "arrival_time": "2026-01-01T12:00:00Z",
            "input_partition": 0,
            "sequence": 0,
            "x": -1.5,
            "short": "b",
        },
        "maxValues": {
            "arrival_time": "2026-01-01T12:00:03Z",
            "input_partition": 0,
            "sequence": 1,
            "x": 2.5,
            "short": "b",
        },
        "nullCount": {"arrival_time": 0, "input_partition": 0, "sequence": 0, "x": 1, "y": 1, "short": 2, "long": 1},
    }
    (file,) = log_files(log)
    assert (file.rows, file.first_us, file.last_us) == (3, FIRST_US - 1, FIRST_US + 3_000_000 - 1 + 999)
    assert log.to_pyarrow_table().num_rows == 3


def test_each_table_is_a_row_group_of_a_file_in_the_folder_of_its_day(tmp_path: Path) -> None:
    log = write(tmp_path, None, arrivals([0, 1]), arrivals([2]))
    (file,) = log_files(log)
    assert file.lies_in_its_day
    about = pq.read_metadata(tmp_path / NAME / file.path)
    assert [about.row_group(group).num_rows for group in range(about.num_row_groups)] == [2, 1]
    assert file.size_bytes == (tmp_path / NAME / file.path).stat().st_size


def test_a_commit_that_another_one_preceded_fails_and_names_no_file(tmp_path: Path) -> None:
    log = write(tmp_path, None, arrivals([0]))
    write(tmp_path, DeltaTable(log.table_uri), arrivals([1]))
    for stale in (log, None):
        with pytest.raises(CommitFailedError):
            write(tmp_path, stale, arrivals([2]))
    newest = DeltaTable(log.table_uri)
    assert (newest.version(), newest.to_pyarrow_table().num_rows) == (1, 2)


def test_columns_that_the_log_lacks_are_added_to_it(tmp_path: Path) -> None:
    log = write(tmp_path, None, arrivals([0]))
    wider = SCHEMA.insert(len(SCHEMA) - 1, pa.field("n", pa.int32()))
    rows = arrivals([1], wider)
    rows = rows.set_column(wider.get_field_index("n"), wider.field("n"), pa.array([5], pa.int32()))
    after = write(tmp_path, log, rows).to_pyarrow_table().sort_by("arrival_time")
    assert after["n"].to_pylist() == [None, 5]


def test_runs_that_overlap_are_merged_into_files_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "RUN_ROWS", 40)
    monkeypatch.setattr(sorted_runs, "MARK_ROWS", 4)
    monkeypatch.setattr(sorted_runs, "ROWS_A_GROUP", 16)
    runs = SortedRuns(SCHEMA, tmp_path)
    for partition in range(3):  # a second's rows of all partitions, and 20 rows of one instant
        runs.add(arrivals([*range(40), *[40] * 20, *range(41, 60)], partition=partition))
    commit = CommitProperties(max_commit_retries=0)
    append(Lakehouse.at(tmp_path), NAME, None, SCHEMA, runs.days(), commit)
    log = DeltaTable(str(tmp_path / NAME))
    (file,) = log_files(log)
    assert len(sorted_files(log, [file.path])) == 1
    found = pq.read_table(tmp_path / NAME / file.path)
    keys = list(zip(*(found[name].to_pylist() for name, _ in KEYS), strict=True))
    assert keys == sorted(keys)
    assert len(keys) == 3 * 79
