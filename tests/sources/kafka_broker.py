"""A real Kafka broker on loopback: one node in KRaft mode, from jars that are pinned by their hashes."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from pipelines.runtime import jars, java

PINNED = dict(reversed(line.split()) for line in Path(__file__).with_name("kafka_jars.txt").read_text().splitlines())
FOLDER = jars.directory().with_name("kafka-jars")
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
_DEADLINE_S = 120
_QUIET = {"log_level": 0}
"""When the broker stops, its clients need not say so."""


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    address: str

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, **_QUIET})

    def create(self, topic: str, partitions: int = 1, **settings: str) -> str:
        """A topic that keeps the broker's time, and messages of any time, unless ``settings`` differ; their names have
        ``_`` for a dot."""
        config = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        created = self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])
        created[topic].result(30)
        while self.admin.list_topics(topic, 30).topics[topic].error is not None:
            time.sleep(0.1)
        return topic

    def add_partitions(self, topic: str, partitions: int) -> None:
        """More partitions, ``partitions`` in all."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def producer(self, **settings: str) -> Producer:
        """A client that writes in the order of its calls."""
        config = {name.replace("_", "."): value for name, value in settings.items()}
        config = {"bootstrap.servers": self.address, "enable.idempotence": "true", "linger.ms": "5", **config}
        return Producer({**config, **_QUIET})

    def send(
        self,
        topic: str,
        bodies: Sequence[bytes | str | None],
        partition: int = 0,
        *,
        transactional: bool = False,
        **settings: str,
    ) -> None:
        """Messages to one partition, all of them there when this returns; ``transactional``: as one transaction."""
        if transactional:
            settings["transactional_id"] = f"{topic}-{partition}"
        producer = self.producer(**settings)
        if transactional:
            producer.init_transactions(60)
            producer.begin_transaction()
        for body in bodies:
            while True:
                try:
                    producer.produce(topic, body, partition=partition)
                    break
                except BufferError:  # its queue is full
                    producer.poll(0.1)
            producer.poll(0)
        if transactional:
            producer.commit_transaction(60)
        assert producer.flush(60) == 0


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """A broker with its data in ``folder``; stopped, and its data left, at the end."""
    jars.fetch(PINNED, FOLDER)
    client, controller = _free_port(), _free_port()
    settings = folder / "server.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in _settings(folder, client, controller).items()))
    _java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", settings).wait(_DEADLINE_S)
    with (folder / "broker.log").open("wb") as log:
        process = _java("kafka.Kafka", settings, log=log)
        try:
            _wait(process, client, folder / "broker.log")
            yield Broker(f"127.0.0.1:{client}")
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _settings(folder: Path, client: int, controller: int) -> Mapping[str, object]:
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": folder / "data",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "auto.create.topics.enable": "false",
    }


def _java(main: str, *arguments: object, log: object = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    program = [java.require_home() / "bin" / "java", "-Xmx512m", "-cp", f"{FOLDER}/*", main]
    return subprocess.Popen([*map(str, (*program, *arguments))], stdout=log, stderr=log)  # type: ignore[call-overload]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _DEADLINE_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the broker did not start within {_DEADLINE_S} s:{os.linesep}{log.read_text()[-2000:]}")
