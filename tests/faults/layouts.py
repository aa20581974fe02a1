"""One log in random layouts: batches, files, their order and sizes, compaction, splits, cores. One fingerprint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from pipelines.core.model import EVERYTHING
from pipelines.core.time import SECOND, format_instant, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = parse_job("""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE", timestamp_by: at, partitions: 3}}
ordering: {late_arrival: 5m, out_of_order: 1m, action: adjust}
query:
  from: cars
  group_by: [booth]
  window: {hopping: {size: 1h, hop: 20m}}
  aggregates:
    n: "count(*)"
    total: "sum(toll)"
    mean: "avg(toll)"
    spread: "stddev_samp(toll)"
    earliest: "first(toll)"
    all_values: "collect(toll)"
keep_verdicts: all
""")
CORES = (1, 2, 4)
_TOLLS = (0.1, 0.2, 0.3, 1e16, -1e16, 1.0, -0.0, None)
_SPLIT, _SHUFFLE = "spark.sql.files.maxPartitionBytes", "spark.sql.shuffle.partitions"
Record = dict[str, object]


def log_of(seed: int, count: int = 600) -> list[list[Record]]:
    """Two days of arrivals, by input partition; many at the same instants, some late."""
    chance = Random(f"log {seed}")
    found: list[list[Record]] = [[], [], []]
    arrival_us = parse_instant("2026-01-01T00:00:00Z")
    for _ in range(count):
        arrival_us += chance.choice([0, 0, SECOND, 60 * SECOND, 600 * SECOND])
        at_us = arrival_us - chance.choice([0, 0, 30, 90, 400]) * SECOND
        partition = chance.choice([0, 0, 0, 1, 1, 2])
        found[partition].append(
            {
                "arrival_time": format_instant(arrival_us),
                "input_partition": partition,
                "sequence": len(found[partition]),
                "at": format_instant(at_us),
                "booth": chance.choice("ab"),
                "toll": chance.choice(_TOLLS),
            }
        )
    return found


def fingerprint_in_some_layout(spark: SparkSession, folder: Path, log: list[list[Record]], chance: Random) -> str:
    """The fingerprint of a replay of ``log``, laid out at random."""
    lakehouse = folder / "lakehouse"
    for number, batch in enumerate(_batches(log, chance)):
        ingest(JOB, "cars", _files(folder, f"{number}", batch, chance), lakehouse)
    table = DeltaTable(str(lakehouse / "arrivals" / "cars"))
    match chance.randrange(4):
        case 0:
            table.optimize.compact()
        case 1:
            table.optimize.z_order(["booth"])
        case 2:
            _shuffled(table, chance)
    split = {_SPLIT: str(chance.choice([1 << 10, 1 << 14, 1 << 27])), _SHUFFLE: str(chance.randint(1, 7))}
    with _set(spark, split):
        return replay(JOB, EVERYTHING, lakehouse, spark=spark).output_fingerprint


def _batches(log: list[list[Record]], chance: Random) -> Iterator[list[list[Record]]]:
    """The log in batches, each with the next records of some input partitions."""
    left, parts = [list(one) for one in log], chance.choice([1, 2, 5, 30])
    while any(left):
        batch = []
        for number, one in enumerate(left):
            size = len(one) if parts == 1 else chance.randint(0, 2 * len(log[number]) // parts + 1)
            batch.append(one[:size])
            left[number] = one[size:]
        yield batch


def _files(folder: Path, name: str, batch: list[list[Record]], chance: Random) -> list[Path]:
    """The records of a batch in up to four files, the input partitions interleaved at random."""
    waiting = [list(one) for one in batch if one]
    records = []
    while waiting:
        one = chance.choice(waiting)
        records.append(one.pop(0))
        waiting = [one for one in waiting if one]
    cuts = sorted(chance.choices(range(len(records) + 1), k=chance.randrange(4)))
    files = []
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(records)], strict=True)):
        file = folder / f"{name}-{number}.jsonl"
        file.write_text("".join(json.dumps(record) + "\n" for record in records[first:last]))
        files.append(file)
    return files


def _shuffled(table: DeltaTable, chance: Random) -> None:
    """The same rows in files that are in no order."""
    rows = table.to_pyarrow_table()
    order = chance.sample(range(len(rows)), len(rows))
    cut = chance.randrange(len(rows))
    write_deltalake(table, rows.take(pa.array(order[:cut], pa.int64())), mode="overwrite")
    write_deltalake(table, rows.take(pa.array(order[cut:], pa.int64())), mode="append")


@contextmanager
def _set(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))


def layouts(folder: Path, seed: int, count: int) -> tuple[str, int, int]:
    """Random layouts of one log, and how many gave another fingerprint than most of them."""
    from pipelines.runtime.session import session

    log, found = log_of(seed), []
    for index, cores in enumerate(CORES):
        os.environ["TAILRACE_SPARK_MASTER"] = f"local[{cores}]"
        spark = session(short=True)
        for number in range(count // len(CORES) + (index < count % len(CORES))):
            place = folder / f"layout-{cores}-{number}"
            place.mkdir()
            found.append(fingerprint_in_some_layout(spark, place, log, Random(f"{seed} {cores} {number}")))
        spark.stop()
    del os.environ["TAILRACE_SPARK_MASTER"]
    usual = max(set(found), key=found.count, default=None)
    return "layouts of one log with another fingerprint", len(found), len(found) - found.count(usual or "")
