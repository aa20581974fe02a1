"""What a session mostly does, in small: run once at install, so that the JVM can keep the classes that it takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import functions as F

from pipelines.core.model import EVERYTHING
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.replay.run import replay
from pipelines.runtime.archive import TIMEOUT_SECONDS
from pipelines.runtime.session import session

_JOB = """
tailrace: 1
job: warm_up
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT, x DOUBLE", timestamp_by: at}}
ordering: {late_arrival: 5m, out_of_order: 1m, action: adjust}
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 10m}}
  aggregates: {cars: "count(*)", mean: "avg(x)", most: "max(n)"}
"""


def _car(minute: int) -> dict[str, object]:
    at = f"2026-01-01T12:{minute:02d}:00Z"
    return {"arrival_time": at, "input_partition": 0, "sequence": minute, "at": at, "booth": "a", "n": minute, "x": 0.5}


def warm_up(folder: Path, java_options: str) -> None:
    """What a session mostly does, in small: ingest, replay a day, and read and write Delta tables with Spark."""
    job = parse_job(_JOB)
    arrivals = folder / "cars.jsonl"
    arrivals.write_text("".join(json.dumps(_car(minute)) + "\n" for minute in range(60)))
    ingest(job, "cars", [arrivals], folder / "lakehouse")
    spark = session("tailrace-warm-up", java_options=java_options)
    replay(job, EVERYTHING, folder / "lakehouse", spark=spark)
    windows = spark.read.format("delta").load(str(folder / "lakehouse" / "windows" / job.name))
    for _ in range(2):
        writer = windows.hint("rebalance", "output_date").write.format("delta").mode("overwrite")
        writer.partitionBy("output_date").option("replaceWhere", "window_end >= DATE '2026-01-01'").save(
            str(folder / "written")
        )
    windows.persist().groupBy("booth").agg(F.sum("cars")).collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    process = gateway.proc
    gateway.shutdown()
    # it ends when nobody speaks to it any more, and writes the archive while it does
    process.stdin.close()
    process.wait(TIMEOUT_SECONDS)


if __name__ == "__main__":
    warm_up(Path(sys.argv[1]), sys.argv[2])
