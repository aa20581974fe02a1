"""The page on Kafka: its job, its messages and its commands, with a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_broker import Broker

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_commands_of_the_page_give_what_it_shows(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER_OF_READINGS", "tests")
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    (tmp_path / "alarms_per_device.yaml").write_text(block("yaml").replace("broker:9092", broker.address))
    topic = broker.create("readings", 2)
    first, *others = block("json").splitlines()
    broker.send(topic, [first], partition=0)
    broker.send(topic, others, partition=1)
    codes = []
    for shown in block("console").split("$ tailrace ")[1:]:
        command, *lines = shown.splitlines()
        program = [sys.executable, "-m", "pipelines.cli", *command.split()]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
        codes.append(done.returncode)
        for line in lines:
            assert line in done.stdout + done.stderr
    assert codes == [3, 0]
    stored = b"".join(path.read_bytes() for path in (tmp_path / "lakehouse").rglob("*.json"))
    assert b"bookmark" in stored
