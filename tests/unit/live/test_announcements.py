"""Announcements of what the arrival logs hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakehouse_samples import job, lines, record

from pipelines.core.errors import UsageError
from pipelines.core.time import parse_instant
from pipelines.ingest.batch import ingest
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.spark import announcements
from pipelines.live.spark.announcements import announce


@pytest.fixture
def lakehouse(tmp_path: Path) -> Lakehouse:
    ingest(job(), "cars", [lines(tmp_path / "0.jsonl", record(0), record(1))], tmp_path / "lake")
    return Lakehouse.at(tmp_path / "lake")


def test_an_announcement_names_the_commits_since_the_one_before(lakehouse: Lakehouse, tmp_path: Path) -> None:
    first = announce(lakehouse, job(), end_of_log=True)
    nothing_new = announce(lakehouse, job(), end_of_log=True)
    ingest(job(), "cars", [lines(tmp_path / "1.jsonl", record(2))], lakehouse.root)
    second = announce(lakehouse, job(), end_of_log=False)
    assert [sum(commit["files"].values()) for commit in first.commits] == [2]
    assert nothing_new.commits == []
    assert [sum(commit["files"].values()) for commit in second.commits] == [1]
    assert (second.generation, second.number, second.rows, second.partitions) == (0, 2, 3, {"cars": [0]})


def test_a_commit_with_punctuations_for_all_partitions_names_the_first(lakehouse: Lakehouse, tmp_path: Path) -> None:
    assert [commit["punctuation_us"] for commit in announce(lakehouse, job(), end_of_log=True).commits] == [None]
    punctuations = [
        record(number, minute=minute, kind="punctuation", input_partition=None, punctuation_time="2026-01-01T12:00:00Z")
        for number, minute in enumerate((30, 40))
    ]
    ingest(job(), "cars", [lines(tmp_path / "1.jsonl", *punctuations)], lakehouse.root)
    (commit,) = announce(lakehouse, job(), end_of_log=True).commits
    assert commit["punctuation_us"] == parse_instant("2026-01-01T12:30:00Z")


def test_a_partition_that_was_not_known_begins_the_stream_again(lakehouse: Lakehouse, tmp_path: Path) -> None:
    announce(lakehouse, job(), end_of_log=True)
    ingest(job(), "cars", [lines(tmp_path / "1.jsonl", record(0, input_partition=1))], lakehouse.root)
    again = announce(lakehouse, job(), end_of_log=True)
    assert (again.generation, again.number, again.rows, again.partitions) == (1, 0, 3, {"cars": [0, 1]})


def test_a_partition_that_the_job_declares_does_not_begin_the_stream_again(
    lakehouse: Lakehouse, tmp_path: Path
) -> None:
    declared = job(partitions="2")
    announce(lakehouse, declared, end_of_log=True)
    ingest(declared, "cars", [lines(tmp_path / "1.jsonl", record(0, input_partition=1))], lakehouse.root)
    assert announce(lakehouse, declared, end_of_log=True).generation == 0


def test_state_in_the_format_of_another_version_begins_the_stream_again(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(announcements, "STATE_FORMAT", 4)
        before = announce(lakehouse, job(), end_of_log=True)
        assert announce(lakehouse, job(), end_of_log=True).generation == before.generation
    again = announce(lakehouse, job(), end_of_log=True)
    assert (again.generation, again.number) == (before.generation + 1, 0)
    assert [sum(commit["files"].values()) for commit in again.commits] == [2]


def test_a_log_whose_first_commit_was_cleaned_up_is_refused(lakehouse: Lakehouse) -> None:
    table = lakehouse.open("arrivals/cars")
    assert table is not None
    table.create_checkpoint()
    (lakehouse.folder / "arrivals" / "cars" / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(UsageError, match="no longer holds its commit 0") as refused:
        announce(lakehouse, job(), end_of_log=True)
    assert "delta.logRetentionDuration" in str(refused.value.hint)
