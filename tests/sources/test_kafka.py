"""Topics of a real broker, ingested: each message once and exactly, whatever the topic is like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from kafka_broker import Broker
from lakehouse_samples import job

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import Job
from pipelines.core.time import parse_instant
from pipelines.ingest.batch import IngestSummary
from pipelines.ingest.from_source import ingest_source
from pipelines.lakehouse.show import plain_rows, rows_of

pytestmark = pytest.mark.slow

NOON_MS = parse_instant("2026-01-01T12:00:00Z") // 1000


def body(n: int) -> str:
    return json.dumps({"at": "2026-01-01T12:00:00Z", "booth": "a", "n": n, "x": 0.5})


def source_job(broker: Broker, topic: str, partitions: int | None = None, input: str = "", **source: Any) -> Job:
    """The sample job with a topic as its source; ``input`` and ``source`` are more keys of both."""
    about = {"kind": "kafka", "bootstrap_servers": broker.address, "topic": topic, **source}
    more = {"source": json.dumps(about)} | ({} if partitions is None else {"partitions": str(partitions)})
    return job(**more, **({"arrival_regression": input} if input else {}))


def taken(given: Job, lakehouse: Path, until: str | None = None) -> IngestSummary:
    return ingest_source(given, "cars", lakehouse, until_us=None if until is None else parse_instant(until))


def rows(given: Job, lakehouse: Path, table: str = "arrivals") -> list[dict[str, Any]]:
    found = rows_of(given, table, lakehouse)
    return [] if found is None else plain_rows(found)


def places(given: Job, lakehouse: Path) -> list[tuple[int, int, int]]:
    """Partition, sequence and ``n`` of each arrival."""
    return sorted((row["input_partition"], row["sequence"], row["n"]) for row in rows(given, lakehouse))


def test_each_message_is_taken_once_at_the_broker_s_time(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("once", partitions=3)
    given = source_job(broker, topic, partitions=3)
    for partition in range(3):
        broker.send(topic, [body(n) for n in range(5)], partition)
    first = taken(given, tmp_path)
    assert (first.events, first.quarantined, first.notes) == (15, 0, ())
    assert taken(given, tmp_path).events == 0
    broker.send(topic, [body(5)], partition=1)
    assert taken(given, tmp_path).events == 1
    assert places(given, tmp_path) == sorted([(p, n, n) for p in range(3) for n in range(5)] + [(1, 5, 5)])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_messages_with_headers_and_keys_are_read(broker: Broker, tmp_path: Path, codec: str) -> None:
    topic = broker.create(f"codec-{codec}")
    producer = broker.producer(compression_type=codec)
    for n in range(100):
        producer.produce(topic, body(n), key=b"k", headers={"trace": b"\xff"}, partition=0)
    assert producer.flush(30) == 0
    assert taken(source_job(broker, topic), tmp_path).events == 100


def test_a_tombstone_and_a_broken_message_are_quarantined_with_their_place(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("broken", cleanup_policy="compact")
    producer = broker.producer()
    for value in (body(0), None, "{", b"\xff", body(4)):
        producer.produce(topic, value, key=b"k", partition=0)
    assert producer.flush(30) == 0
    given = source_job(broker, topic)
    summary = taken(given, tmp_path)
    assert (summary.events, summary.quarantined) == (2, 3)
    assert [(one.position, one.reason) for one in summary.refused] == [
        (1, "the message has no body"),
        (2, "malformed JSON: Expecting property name enclosed in double quotes (column 2)"),
        (3, "not UTF-8 text"),
    ]
    assert any("compacted" in note for note in summary.notes)


def test_only_committed_transactions_are_read_and_an_open_one_is_waited_for(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("transactions")
    given = source_job(broker, topic)
    producer = broker.producer(transactional_id="t")
    producer.init_transactions(30)
    for value, ends in ((0, producer.commit_transaction), (1, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, body(value), partition=0)
        producer.flush(30)
        ends(30)
    producer.begin_transaction()
    producer.produce(topic, body(2), partition=0)
    producer.flush(30)
    assert taken(given, tmp_path).events == 1
    producer.commit_transaction(30)
    assert taken(given, tmp_path).events == 1
    assert places(given, tmp_path) == [(0, 0, 0), (0, 4, 2)]
    assert taken(source_job(broker, topic, isolation="read_uncommitted"), tmp_path / "all").events == 3


def test_producer_time_is_refused_as_the_broker_s_and_held_at_the_last_on_request(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create("producers", message_timestamp_type="CreateTime")
    producer = broker.producer()
    for n, second in enumerate((0, 2, 1, 3)):
        producer.produce(topic, body(n), partition=0, timestamp=NOON_MS + 1000 * second)
    assert producer.flush(30) == 0
    with pytest.raises(UsageError, match=r"CreateTime.*say 'time: producer'"):
        taken(source_job(broker, topic), tmp_path)
    summary = taken(source_job(broker, topic, time="producer"), tmp_path / "quarantine")
    assert (summary.events, summary.quarantined) == (3, 1)
    assert any("those of the producers" in note for note in summary.notes)
    held = source_job(broker, topic, time="producer", input="hold_at_last")
    assert (taken(held, tmp_path / "held").held_at_last) == 1
    assert [row["arrival_time"][-4:] for row in rows(held, tmp_path / "held")] == [":00Z", ":02Z", ":02Z", ":03Z"]


def test_a_topic_that_kept_producer_time_before_names_the_first_such_message(broker: Broker, tmp_path: Path) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    topic = broker.create("changed", message_timestamp_type="CreateTime")
    broker.send(topic, [body(0)])
    entry = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    broker.admin.incremental_alter_configs([resource])[resource].result(30)
    broker.send(topic, [body(1)])
    with pytest.raises(UsageError, match="offset 0 of input partition 0 has the time of its producer"):
        taken(source_job(broker, topic), tmp_path)


def test_until_stops_each_partition_and_the_next_batch_goes_on_there(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("until", partitions=2, message_timestamp_type="CreateTime")
    producer = broker.producer()
    for n in range(10):
        producer.produce(topic, body(n), partition=n % 2, timestamp=NOON_MS + 60_000 * n)
    assert producer.flush(30) == 0
    given = source_job(broker, topic, time="producer")
    assert taken(given, tmp_path, until="2026-01-01T12:05:00Z").events == 5
    assert max(row["n"] for row in rows(given, tmp_path)) == 4
    assert taken(given, tmp_path).events == 5


def test_a_cut_beginning_a_new_partition_and_one_too_many_are_said(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("cut")
    given = source_job(broker, topic, partitions=1)
    broker.send(topic, [body(n) for n in range(4)])
    taken(given, tmp_path)
    broker.send(topic, [body(n) for n in range(4, 8)])
    place = TopicPartition(topic, 0, 6)
    broker.admin.delete_records([place])[place].result(30)
    broker.add_partitions(topic, 2)
    broker.send(topic, [body(9)], partition=1)
    summary = taken(given, tmp_path)
    assert (summary.events, summary.quarantined) == (2, 1)
    notes = "\n".join(summary.notes)
    assert "begins at offset 6: retention has removed the messages from 4 on" in notes
    assert "input partition 1 is new since the last batch" in notes
    assert "'partitions: 1'" in notes


def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("again")
    given = source_job(broker, topic)
    broker.send(topic, [body(n) for n in range(3)])
    taken(given, tmp_path)
    broker.admin.delete_topics([topic])[topic].result(30)
    broker.create("again")
    with pytest.raises(UsageError, match="read up to offset 3, but ends at 0: the topic was deleted and created again"):
        taken(given, tmp_path)


def test_what_cannot_be_read_is_said_and_a_secret_is_not(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="topic nowhere"):
        taken(source_job(broker, "nowhere"), tmp_path)
    given = source_job(broker, "any", properties={"sasl.password": "${CARS_PASSWORD}"})
    with pytest.raises(UsageError, match="CARS_PASSWORD is not set"):
        taken(given, tmp_path)
    monkeypatch.setenv("CARS_PASSWORD", "hunter2")
    wrong = source_job(broker, "any", properties={"security.protocol": "${CARS_PASSWORD}"})
    with pytest.raises(UsageError, match=r"security\.protocol") as refused:
        taken(wrong, tmp_path)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(UsageError, match=r"'isolation\.level' is not yours"):
        taken(source_job(broker, "any", properties={"isolation.level": "read_uncommitted"}), tmp_path)


def test_a_broker_that_does_not_answer_is_the_environment_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.ingest.sources.kafka.TIMEOUT_S", 2.0)
    with pytest.raises(EnvironmentUnfit, match="cannot be read"):
        taken(source_job(Broker("127.0.0.1:1"), "any"), tmp_path)
