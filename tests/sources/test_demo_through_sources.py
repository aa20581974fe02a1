"""The demo's departures through a Kafka broker and through a Capture folder: the log and the results of the demo."""

from __future__ import annotations

import json
from collections import defaultdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from capture_files import message, write_capture
from kafka_broker import Broker

from pipelines.core.intervals import parse_range
from pipelines.core.model import Job
from pipelines.demo.departures import write_arrival_log
from pipelines.ingest.batch import ingest
from pipelines.ingest.from_source import ingest_source
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

WEEK = parse_range("2013-07-08", "2013-07-15")
ORDER = ("arrival_time", "input_partition", "sequence")


def job(source: dict[str, Any] | None = None) -> Job:
    """The job that ships, with a source."""
    text = resources.files("pipelines.job.examples").joinpath("departures_per_hour.yaml").read_text(encoding="utf-8")
    return parse_job(
        text.replace("    columns:", f"    source: {json.dumps(source)}\n    columns:") if source else text
    )


def payload(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ORDER} | {
        "scheduled": row["scheduled"].isoformat()
    }


def to_topic(broker: Broker, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A topic with the time of arrival as the time of the producer."""
    topic = broker.create("departures", 3, message_timestamp_type="CreateTime")
    producer = broker.producer(queue_buffering_max_messages="1000000", compression_type="zstd")
    for row in rows:
        at_ms = round(row["arrival_time"].timestamp() * 1000)
        producer.produce(topic, json.dumps(payload(row)), partition=row["input_partition"], timestamp=at_ms)
    assert producer.flush(120) == 0
    return {"kind": "kafka", "bootstrap_servers": broker.address, "topic": topic, "time": "producer"}


def to_capture(folder: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A file a month and partition."""
    files: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        at = row["arrival_time"].isoformat()
        files[row["input_partition"], f"{at[:7]}-28T23:59:00"].append(message(row["sequence"], at, payload(row)))
    for (partition, when), messages in files.items():
        write_capture(folder, partition, when, messages)
    return {"kind": "eventhubs_capture", "path": str(folder)}


def arrivals(lakehouse: Path) -> pa.Table:
    table = Lakehouse.at(lakehouse).open("arrivals/departures")
    assert table is not None
    keys = [(name, "ascending") for name in ORDER]
    return table.to_pyarrow_table().drop_columns("batch_id").sort_by(keys).combine_chunks()


def test_the_demo_s_log_and_results_are_the_same_through_each_source(
    broker: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    path = write_arrival_log(tmp_path)
    ingest(job(), "departures", [path], tmp_path / "file")
    rows = pq.read_table(path).to_pylist()
    for name, source in (("kafka", to_topic(broker, rows)), ("capture", to_capture(tmp_path / "hub", rows))):
        summary = ingest_source(job(source), "departures", tmp_path / name)
        assert (summary.events, summary.quarantined, summary.duplicates) == (len(rows), 0, 0)
        assert arrivals(tmp_path / name).equals(arrivals(tmp_path / "file"))
    runs = [replay(job(), WEEK, tmp_path / name, spark=spark) for name in ("file", "kafka", "capture")]
    assert len({run.output_fingerprint for run in runs}) == 1
