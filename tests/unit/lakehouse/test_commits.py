"""Commits while others write: each is named by its own metadata, and a conflict is one sentence."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from pipelines.core.errors import EnvironmentUnfit
from pipelines.lakehouse.commits import commit, commits, version_of
from pipelines.lakehouse.root import Lakehouse


def _write(lakehouse: Lakehouse, run: str) -> None:
    about = CommitProperties(custom_metadata={"tailrace": "replay", "run_id": run})
    write_deltalake(lakehouse.uri("windows/cars"), pa.table({"n": [1]}), mode="append", commit_properties=about)


def test_a_commit_keeps_its_version_however_many_follow_it(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    for run in ("a", "b", "c", "d"):
        _write(lakehouse, run)
    assert [version_of(lakehouse, "windows/cars", {"run_id": run}) for run in ("a", "b", "c", "d")] == [0, 1, 2, 3]


def test_commits_are_those_of_the_version_that_was_opened(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    _write(lakehouse, "a")
    _write(lakehouse, "b")
    table = lakehouse.open("windows/cars")
    assert table is not None
    _write(lakehouse, "c")
    assert [(version, about["run_id"]) for version, about in commits(table)] == [(1, "b"), (0, "a")]


def test_a_commit_that_another_writer_has_overwritten_is_refused_with_its_cause(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    _write(lakehouse, "a")
    with pytest.raises(EnvironmentUnfit) as caught:
        version_of(lakehouse, "windows/cars", {"run_id": "b"})
    assert str(caught.value) == (
        "the commit just made to the table windows/cars is not in its log: another writer has overwritten it;"
        " have every writer commit with conditional writes (for Spark a log store that does so:"
        " spark.delta.logStore.s3a.impl), and run the command again"
    )


def test_a_conflict_names_the_table_and_the_commit_that_came_first(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    attempts: list[DeltaTable | None] = []

    def write(table: DeltaTable | None) -> None:
        attempts.append(table)
        _write(lakehouse, f"other-{len(attempts)}")
        raise CommitFailedError("version exists")

    with pytest.raises(EnvironmentUnfit) as caught:
        commit(lakehouse, "windows/cars", write, 3, "the range [a, b)")
    assert str(caught.value) == (
        "write conflict: the range [a, b) to the table windows/cars lost to commits of others 3 times in a row,"
        " last to version 2 (replay, run other-3); nothing of it was written; run the command again, which is safe"
    )
    assert [None if table is None else table.version() for table in attempts] == [None, 0, 1]


def test_a_commit_whose_metadata_is_not_ours_is_described_by_its_operation(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    about = CommitProperties(custom_metadata={"userMetadata": "by hand"})
    write_deltalake(lakehouse.uri("windows/cars"), pa.table({"n": [1]}), commit_properties=about)

    def write(_: DeltaTable | None) -> None:
        raise CommitFailedError("version exists")

    with pytest.raises(EnvironmentUnfit, match=r"last to version 0 \(write\);"):
        commit(lakehouse, "windows/cars", write, 1)
