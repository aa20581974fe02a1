"""The page on sources: each example is run over data of the kind that its section is about."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from capture_files import message, write_capture
from deltalake import write_deltalake

from pipelines.cli.main import run
from pipelines.core.sources import Kafka
from pipelines.job.load import load_job

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text(encoding="utf-8")
JOB = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]


def block(heading: str, language: str) -> str:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def job_file(folder: Path, heading: str) -> Path:
    """The page's job with the source of a section."""
    source = "".join(f"    {line}\n" for line in block(heading, "yaml").splitlines())
    path = folder / "hot_machines.yaml"
    path.write_text(JOB.replace("    partitions: 2\n", f"    partitions: 2\n{source}"))
    return path


def capture(folder: Path) -> None:
    hub = folder / "captures/namespace/hub"
    reading = {"machine": "m1", "at": "2026-01-01T12:00:59Z", "temperature": 20.5}
    write_capture(hub, 0, "2026-01-01T12:05:00", [message(7, "2026-01-01T12:01:00.250Z", reading)])
    write_capture(hub, 1, "2026-01-01T12:05:00", [message(3, "2026-01-01T12:02:00Z", reading)])
    write_capture(hub, 0, "2026-01-01T12:10:00", [])


def bronze(folder: Path) -> None:
    rows = [
        {
            "EventEnqueuedUtcTime": datetime(2026, 1, 1, 12, minute, tzinfo=UTC),
            "PartitionId": 0,
            "SequenceNumber": minute,
            "machine": "m1",
            "at": datetime(2026, 1, 1, 12, tzinfo=UTC),
            "temperature": 20.5,
        }
        for minute in (2, 1)
    ]
    write_deltalake(folder / "bronze/readings", pa.Table.from_pylist(rows))


def dump(folder: Path) -> None:
    path = folder / "dump/2026-01-01/readings.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(block("Files", "json"))


@pytest.mark.parametrize(
    ("heading", "make"), [("Event Hubs Capture", capture), ("A Delta table", bronze), ("Files", dump)]
)
def test_the_example_of_a_section_prints_what_the_page_shows(
    heading: str,
    make: Callable[[Path], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(tmp_path)
    job_file(tmp_path, heading)
    monkeypatch.chdir(tmp_path)
    command, _, expected = block(heading, "console").partition("\n")
    assert run(command.removeprefix("$ tailrace ").split()) == 0
    assert capsys.readouterr().out == expected
    assert run(command.removeprefix("$ tailrace ").split()) == 0
    assert "0 event(s) appended" in capsys.readouterr().out


def test_the_example_for_kafka_is_a_valid_job_whose_secret_stays_in_the_environment(tmp_path: Path) -> None:
    source = load_job(job_file(tmp_path, "Kafka")).input("readings").source
    assert isinstance(source, Kafka)
    assert dict(source.properties)["sasl.password"] == "${KAFKA_PASSWORD}"
