"""A topic in three portions with kills in between is what it is as one portion; and a million messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pytest
from kafka_broker import Broker
from source_kills import MOMENTS, killed
from source_rows import counts, event, ingest, rows, source_job

from pipelines.lakehouse.root import Lakehouse

pytestmark = pytest.mark.slow


def source_of(broker: Broker, topic: str, **more: str) -> str:
    return json.dumps({"kind": "kafka", "bootstrap_servers": broker.address, "topic": topic, **more})


def body(n: int) -> str:
    return json.dumps(event(n))


@pytest.mark.parametrize("moment", MOMENTS)
def test_three_portions_with_kills_give_what_one_gives(broker: Broker, tmp_path: Path, moment: str) -> None:
    topic = broker.create(f"portions-{moment.replace(' ', '-')}", partitions=4)
    source = source_of(broker, topic)
    of, found = source_job(source), []
    for number in range(3):
        for partition in range(4):
            bodies = [body(n) for n in range(100 * number, 100 * number + 100)]
            broker.send(topic, [*bodies, "{", None, b"\xff", *bodies[:5]], partition, transactional=number == 1)
        killed(moment, source, tmp_path / "three")
        found.append(ingest(of, tmp_path / "three"))
    once = ingest(of, tmp_path / "one")
    assert counts([once]) == {"appended": 1260, "quarantined": 36, "duplicates": 0, "held_at_last": 0}
    if moment != "after the rows":
        assert counts(found) == counts([once])
    for table in ("arrivals", "quarantine"):
        three, one = (sorted(rows(of, tmp_path / place, table), key=str) for place in ("three", "one"))
        assert three == one


def test_a_million_messages_in_four_partitions_are_taken_in_bounded_memory(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("million", partitions=4)
    bodies = [body(n) for n in range(250_000)]
    for partition in range(4):
        broker.send(topic, bodies, partition, compression_type="lz4")
    command = [sys.executable, "-c", _MEASURED, source_of(broker, topic), str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": ":".join(sys.path)}, check=True, capture_output=True, text=True)
    appended, quarantined, megabytes = map(int, done.stdout.split())
    assert (appended, quarantined) == (1_000_000, 0)
    assert megabytes < 600
    log = Lakehouse.at(tmp_path).open("arrivals/cars")
    assert log is not None
    table = log.to_pyarrow_table(columns=["input_partition", "sequence", "n"])
    assert pc.all(pc.equal(table["sequence"], table["n"].cast("int64"))).as_py()
    assert len(table.group_by(["input_partition", "sequence"]).aggregate([])) == 1_000_000


_MEASURED = """
import resource, sys
from pathlib import Path
from source_rows import ingest, source_job

summary = ingest(source_job(sys.argv[1]), Path(sys.argv[2]))
print(summary.appended, summary.quarantined, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
