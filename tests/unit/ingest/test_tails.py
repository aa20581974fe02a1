"""The last record of each input partition is found without reading more files than need be."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from lakehouse_samples import job, lines, record

from pipelines.ingest.batch import ingest
from pipelines.ingest.order import Tail
from pipelines.ingest.tails import Tails
from pipelines.lakehouse.arrival_log import FOR_ALL

NOON_US = 1_767_268_800_000_000
MINUTE_US = 60_000_000


@pytest.fixture
def log(tmp_path: Path) -> DeltaTable:
    batches = [
        [record(1), record(1, input_partition=1)],
        [record(2), record(3)],
        [record(4), record(5, arrival_time="2026-01-01T12:05:00.000999Z")],
        [record(6, arrival_time="2026-01-01T12:05:00.000999Z")],
    ]
    for number, batch in enumerate(batches):
        ingest(job(), "cars", [lines(tmp_path / f"{number}.jsonl", *batch)], tmp_path / "lakehouse")
    return DeltaTable(tmp_path / "lakehouse" / "arrivals" / "cars")


def test_the_newest_record_wins_even_where_statistics_cut_its_time(log: DeltaTable) -> None:
    assert Tails(log).of(0) == Tail(6, NOON_US + 5 * MINUTE_US + 999)


def test_a_partition_long_silent_is_found_in_its_old_file(log: DeltaTable) -> None:
    assert Tails(log).of(1) == Tail(1, NOON_US + MINUTE_US)


def test_a_partition_never_heard_has_no_tail(log: DeltaTable) -> None:
    assert Tails(log).of(2) is None
    assert Tails(log).of(FOR_ALL) is None
    assert Tails(None).of(0) is None


def test_files_that_cannot_matter_are_not_read(log: DeltaTable) -> None:
    tails = Tails(log)
    tails.of(0)
    assert len(tails._read) == 2
    tails.of(7)
    assert len(tails._read) == 2
