"""Writing by Spark while others write: tried again, named in one sentence, and nobody's rows are lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from pipelines.core.errors import EnvironmentUnfit
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import DAY, parse_instant
from pipelines.lakehouse.layout import WINDOWS
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.spark_client import require_client, require_safe_commits
from pipelines.replay import write
from pipelines.replay.write import replace_range

pytestmark = pytest.mark.spark

SECOND_DAY = OutputRange(parse_instant("2026-01-02T00:00:00Z"), parse_instant("2026-01-03T00:00:00Z"))
MORNING = OutputRange(parse_instant("2026-01-02T00:00:00Z"), parse_instant("2026-01-02T12:00:00Z"))
METADATA = {"tailrace": "replay", "run_id": "mine"}


def _row(end: str, n: int) -> pa.Table:
    end_us = parse_instant(end)
    return pa.table(
        {
            "window_end": pa.array([end_us], pa.timestamp("us", "UTC")),
            "n": pa.array([n], pa.int64()),
            "output_date": pa.array([end_us // DAY], pa.int32()).cast(pa.date32()),
        }
    )


def _other_commit(uri: str, end: str, n: int) -> None:
    about = CommitProperties(custom_metadata={"tailrace": "replay", "run_id": "other"})
    write_deltalake(uri, _row(end, n), mode="append", partition_by=["output_date"], commit_properties=about)


def _while_others_commit(spark: SparkSession, uri: str, end: str, times: int, counted: Path) -> DataFrame:
    """A row of mine; while Spark computes it for a write, another writer commits one of its own, ``times`` times."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            count = len(list(counted.iterdir()))
            if count < times:
                (counted / str(count)).touch()
                _other_commit(uri, end, -count)
            yield from _row("2026-01-02T06:00:00Z", 1).to_batches()

    return spark.range(1, numPartitions=1).mapInArrow(rows, "window_end TIMESTAMP, n BIGINT, output_date DATE")


@pytest.fixture
def others(spark: SparkSession, tmp_path: Path) -> Callable[[str, int], DataFrame]:
    # Spark's workers cannot import this file
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    (tmp_path / "counted").mkdir()
    uri = f"{tmp_path}/windows/cars"
    return lambda end, times: _while_others_commit(spark, uri, end, times, tmp_path / "counted")


def _numbers(tmp_path: Path) -> list[int]:
    return sorted(DeltaTable(tmp_path / "windows" / "cars").to_pyarrow_table()["n"].to_pylist())


@pytest.mark.parametrize("output", [SECOND_DAY, MORNING])
def test_a_write_that_conflicts_is_tried_again_and_names_its_own_version(
    tmp_path: Path, others: Callable[[str, int], DataFrame], output: OutputRange
) -> None:
    _other_commit(f"{tmp_path}/windows/cars", "2026-01-01T06:00:00Z", 7)
    frame = others("2026-01-02T07:00:00Z", 2)
    version = replace_range(frame, Lakehouse.at(tmp_path), "windows/cars", WINDOWS, output, METADATA)
    assert (version, _numbers(tmp_path)) == (3, [1, 7])


def test_a_write_that_always_conflicts_says_which_range_of_which_table_and_with_whom(
    tmp_path: Path, others: Callable[[str, int], DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "_ATTEMPTS", 2)
    _other_commit(f"{tmp_path}/windows/cars", "2026-01-01T06:00:00Z", 7)
    frame = others("2026-01-02T07:00:00Z", 9)
    with pytest.raises(EnvironmentUnfit) as caught:
        replace_range(frame, Lakehouse.at(tmp_path), "windows/cars", WINDOWS, SECOND_DAY, METADATA)
    assert str(caught.value) == (
        "write conflict: the range [2026-01-02T00:00:00Z, 2026-01-03T00:00:00Z) to the table windows/cars lost to"
        " commits of others 2 times in a row, last to version 2 (replay, run other); nothing of it was written; run"
        " the command again, which is safe"
    )
    assert _numbers(tmp_path) == [-1, 0, 7]


def test_a_range_does_not_replace_a_table_that_others_create_meanwhile(
    tmp_path: Path, others: Callable[[str, int], DataFrame]
) -> None:
    frame = others("2026-01-01T07:00:00Z", 1)
    version = replace_range(frame, Lakehouse.at(tmp_path), "windows/cars", WINDOWS, SECOND_DAY, METADATA)
    assert (version, _numbers(tmp_path)) == (1, [0, 1])


def test_a_root_whose_commits_spark_may_overwrite_is_refused_before_anything_is_written(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse, frame = Lakehouse.at("s3a://bucket/lake"), spark.range(1)
    key = "spark.delta.logStore.s3a.impl"
    for store in (None, "io.delta.storage.S3SingleDriverLogStore", "io.delta.storage.GCSLogStore"):
        if store is not None:
            spark.conf.set(key, store)
        with pytest.raises(EnvironmentUnfit) as caught:
            replace_range(frame, lakehouse, "windows/cars", WINDOWS, EVERYTHING, METADATA)
        assert str(caught.value) == (
            "Spark's commits to s3a://bucket/lake may overwrite those of other writers;"
            " run 'tailrace setup --s3', which brings a log store that commits with conditional writes, or set"
            f" {key} to one"
        )
    spark.conf.set(key, "org.example.ConditionalLogStore")
    try:
        require_safe_commits(spark, lakehouse)
    finally:
        spark.conf.unset(key)
    require_safe_commits(spark, Lakehouse.at("/tmp/lake"))


def test_a_store_that_spark_has_no_client_for_is_refused_with_what_to_do(spark: SparkSession) -> None:
    for root, hint in (
        ("s3://bucket/lake", "run 'tailrace setup --s3'"),
        ("gs://bucket/lake", "give Spark its client with spark.jars.packages"),
    ):
        with pytest.raises(EnvironmentUnfit) as caught:
            require_client(spark, Lakehouse.at(root))
        scheme = root.partition("/")[0]
        assert str(caught.value) == f"Spark has no client for {scheme}//; {hint}; docs/object-stores.md has the details"
    require_client(spark, Lakehouse.at("/tmp/lake"))
