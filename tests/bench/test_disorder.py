"""Generated logs are what their model says, and what ingest would have made of the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from bench.disorder import AHEAD, EARLY, FAR, LATE, REGULAR, Chunk, Disorder, as_table, chunks
from bench.logs import generated
from bench.questions import READINGS
from pipelines.core.time import DAY, MINUTE, SECOND
from pipelines.ingest.batch import ingest
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import arrivals_schema

EVENTS = 200_000
MODEL = Disorder(EVENTS, days=0.2)


@pytest.fixture(scope="module")
def log() -> Chunk:
    (whole,) = chunks(MODEL)
    return whole


def test_each_sort_of_event_has_its_stated_share(log: Chunk) -> None:
    shares = {FAR: 0.02, LATE: 0.01, EARLY: 0.005, AHEAD: 0.002, REGULAR: 0.963}
    for sort, share in shares.items():
        found = float(np.mean(log.sort_of_event == sort))
        assert abs(found - share) < 5 * (share * (1 - share) / EVENTS) ** 0.5, (sort, found)


def test_each_sort_of_event_lies_where_it_is_said_to(log: Chunk) -> None:
    delay_us = log.arrival_us - log.event_us
    by_sort = {sort: delay_us[log.sort_of_event == sort] for sort in (REGULAR, FAR, LATE, EARLY, AHEAD)}
    assert by_sort[REGULAR].min() >= 0
    assert abs(by_sort[REGULAR].mean() - 1.5 * SECOND) < 0.05 * SECOND
    assert by_sort[FAR].min() >= 5 * SECOND
    assert by_sort[FAR].max() <= 5 * MINUTE
    assert by_sort[LATE].min() > 5 * MINUTE
    assert by_sort[EARLY].max() < -5 * MINUTE
    assert by_sort[AHEAD].min() >= -2 * SECOND
    assert by_sort[AHEAD].max() <= 0


def test_arrivals_come_at_the_stated_rate_and_never_fall(log: Chunk) -> None:
    gaps_us = np.diff(log.arrival_us)
    assert gaps_us.min() >= 0
    assert abs(gaps_us.mean() / (0.2 * DAY / EVENTS) - 1) < 0.02


def test_sequences_of_a_partition_count_from_0_across_chunks() -> None:
    parts = list(chunks(MODEL, size=30_000))
    assert len(parts) == 7
    partition = np.concatenate([part.partition for part in parts])
    sequence = np.concatenate([part.sequence for part in parts])
    for one in range(4):
        assert np.array_equal(sequence[partition == one], np.arange(np.sum(partition == one)))


def test_devices_are_zipf_and_partitions_uniform(log: Chunk) -> None:
    weights = 1 / np.arange(1, 1_001) ** 0.5
    expected = weights / weights.sum() * EVENTS
    assert np.all(np.abs(np.bincount(log.device, minlength=1_000) - expected) < 6 * expected**0.5)
    assert np.all(np.abs(np.bincount(log.partition, minlength=4) - EVENTS / 4) < 6 * (EVENTS / 4) ** 0.5)
    assert np.array_equal(log.site, log.device % 100)


def test_skew_puts_its_share_into_one_partition_and_one_device() -> None:
    (log,) = chunks(Disorder(EVENTS, days=0.2, skew=0.5))
    assert abs(np.mean((log.partition == 0) & (log.device == 0)) - 0.5) < 0.01


def test_the_same_model_gives_the_same_log_and_another_seed_another(log: Chunk) -> None:
    (again,) = chunks(MODEL)
    (other,) = chunks(Disorder(EVENTS, days=0.2, seed=2))
    assert np.array_equal(again.event_us, log.event_us)
    assert not np.array_equal(other.event_us, log.event_us)
    assert Disorder(EVENTS, days=0.2, seed=2).name != MODEL.name


def test_a_generated_log_is_what_ingest_makes_of_its_rows(tmp_path: Path) -> None:
    model = Disorder(300_000, days=1.5)
    written = generated(model, tmp_path / "cache")
    job = READINGS.job()
    (chunk,) = chunks(model)
    rows = as_table(chunk, arrivals_schema(job.input("readings"))).drop_columns(["arrival_date", "batch_id"])
    pq.write_table(rows, tmp_path / "rows.parquet")
    lakehouse = Lakehouse.at(tmp_path / "ingested")
    assert ingest(job, "readings", [tmp_path / "rows.parquet"], lakehouse, batch="bench").quarantined == 0

    ours, theirs = (place.open("arrivals/readings") for place in (written.lakehouse, lakehouse))
    assert ours is not None
    assert theirs is not None
    assert pa.schema(ours.schema()) == pa.schema(theirs.schema())
    assert ours.metadata().partition_columns == theirs.metadata().partition_columns == ["arrival_date"]
    assert _row_groups(ours) == _row_groups(theirs)
    assert sorted(map(len, _row_groups(ours))) == [1, 2]
    order = [(name, "ascending") for name in ("arrival_time", "input_partition", "sequence")]
    assert ours.to_pyarrow_table().sort_by(order) == theirs.to_pyarrow_table().sort_by(order)


def _row_groups(table: DeltaTable) -> list[list[int]]:
    """The rows of each row group of each file, by day."""
    files = [pq.ParquetFile(uri).metadata for uri in sorted(table.file_uris())]
    return [[file.row_group(index).num_rows for index in range(file.num_row_groups)] for file in files]


def test_a_log_is_written_once(tmp_path: Path) -> None:
    model = Disorder(1_000, days=0.5)
    first = generated(model, tmp_path).files()
    assert generated(model, tmp_path).files() == first
