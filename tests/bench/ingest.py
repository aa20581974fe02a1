"""How fast ingest is: of JSON lines, against Polars and DuckDB writing the same columns to Delta; of a capture, against
fastavro alone.

Each contender runs in a process of its own, first on a few records that are not timed.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from capture_files import message, write_capture
from rich.console import Console

from pipelines.core.sources import EventHubsCapture
from pipelines.job.load import parse_job

JOB = parse_job(
    """
tailrace: 1
job: bench
profile: stream_analytics
inputs:
  readings: {columns: "device STRING, at TIMESTAMP, reading DOUBLE, octets BIGINT", timestamp_by: at, partitions: 4}
ordering: {late_arrival: 20s}
query: {from: readings, group_by: [device], window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}
"""
)
TIMES = ("arrival_time", "at")
MILLION = 1_000_000
Contender = Callable[[Path, Path], None]


def readings(count: int) -> Iterator[dict[str, Any]]:
    """The records of an arrival log of four input partitions."""
    chance, at, sequences = random.Random(1), datetime(2026, 1, 1, tzinfo=UTC), [0] * 4
    for _ in range(count):
        partition = chance.randrange(4)
        at += timedelta(microseconds=chance.randrange(1, 200_000))
        happened = at - timedelta(milliseconds=chance.randrange(20_000))
        yield {
            "arrival_time": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}",
            "input_partition": partition,
            "sequence": sequences[partition],
            "device": f"device-{chance.randrange(1000)}",
            "at": f"{happened:%Y-%m-%dT%H:%M:%S.%fZ}",
            "reading": chance.gauss(20, 5),
            "octets": chance.randrange(1 << 40),
        }
        sequences[partition] += 1


def write_lines(path: Path, count: int) -> Path:
    """JSON lines of about 210 bytes."""
    path = path.with_suffix(".jsonl")
    with path.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in readings(count))
    return path


def write_hub(path: Path, count: int) -> Path:
    """The same records as messages of a capture, at most 50,000 a file."""
    waiting: dict[int, list[dict[str, Any]]] = {partition: [] for partition in range(4)}
    for record in readings(count):
        arrival, partition, sequence = (record.pop(name) for name in ("arrival_time", "input_partition", "sequence"))
        waiting[partition].append(message(sequence, arrival, record))
        if len(waiting[partition]) == 50_000:
            write_capture(path, partition, arrival, waiting[partition])
            waiting[partition] = []
    for partition, messages in waiting.items():
        write_capture(path, partition, "2026-12-31", messages)
    return path


def tailrace_capture(path: Path, folder: Path) -> None:
    from pipelines.ingest.from_source import ingest_source

    (part,) = JOB.inputs
    job = replace(JOB, inputs=(replace(part, source=EventHubsCapture(str(path))),))
    assert ingest_source(job, "readings", folder).quarantined == 0


def fastavro(path: Path, folder: Path) -> None:
    import fastavro as avro

    folder.mkdir(parents=True)
    for file in sorted(path.rglob("*.avro")):
        with file.open("rb") as stream:
            for _ in avro.reader(stream):
                pass


def tailrace(path: Path, folder: Path) -> None:
    from pipelines.ingest.batch import ingest

    assert ingest(JOB, "readings", [path], folder).quarantined == 0


def polars(path: Path, folder: Path) -> None:
    import polars as pl

    whole = {"input_partition": pl.Int32, "sequence": pl.Int64, "reading": pl.Float64, "octets": pl.Int64}
    frame = pl.read_ndjson(path, schema={**dict.fromkeys((*TIMES, "device"), pl.String), **whole})
    frame = frame.with_columns(pl.col(*TIMES).str.to_datetime(time_unit="us", time_zone="UTC"))
    frame = frame.with_columns(arrival_date=pl.col("arrival_time").dt.date())
    frame.write_delta(folder / "log", delta_write_options={"partition_by": ["arrival_date"]})


def duckdb(path: Path, folder: Path) -> None:
    import duckdb as db
    from deltalake import write_deltalake

    columns = {"input_partition": "INT", "sequence": "BIGINT", "reading": "DOUBLE", "octets": "BIGINT"}
    columns |= {**dict.fromkeys(TIMES, "TIMESTAMPTZ"), "device": "VARCHAR"}
    found = db.sql(
        "SELECT *, arrival_time::DATE AS arrival_date FROM"
        f" read_json('{path}', format = 'newline_delimited', columns = {columns})"
    )
    write_deltalake(str(folder / "log"), found.to_arrow_reader(100_000), partition_by=["arrival_date"])


@dataclass(frozen=True, slots=True)
class Task:
    """What is ingested, and who does it; ratios are to the contender ``against``."""

    title: str
    write: Callable[[Path, int], Path]
    contenders: dict[str, Contender]
    against: str


TASKS = {
    "lines": Task(
        "JSON lines to Delta", write_lines, {"tailrace": tailrace, "polars": polars, "duckdb": duckdb}, "polars"
    ),
    "capture": Task(
        "an Event Hubs Capture to Delta", write_hub, {"tailrace": tailrace_capture, "fastavro": fastavro}, "fastavro"
    ),
}


def run_one(task: str, name: str, path: Path, few: Path, folder: Path) -> dict[str, float]:
    """One contender's time and processor time, in seconds, and the most memory that it had, in MiB."""
    for number, records in enumerate((few, path)):
        own = resource.getrusage(resource.RUSAGE_SELF)
        begin = time.perf_counter()
        TASKS[task].contenders[name](records, folder / str(number))
        seconds = time.perf_counter() - begin
    now = resource.getrusage(resource.RUSAGE_SELF)
    processor = now.ru_utime + now.ru_stime - own.ru_utime - own.ru_stime
    return {"seconds": seconds, "processor": processor, "mebibytes": now.ru_maxrss / 1024}


def measured(task: str, name: str, path: Path, few: Path, folder: Path) -> dict[str, float]:
    """The same in a new process, its tables removed."""
    program = [sys.executable, "-m", "bench.ingest", "--one", task, name, str(path), str(few), str(folder)]
    done = subprocess.run(program, check=True, capture_output=True, text=True)
    shutil.rmtree(folder)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(
    size: Annotated[str, typer.Option(help="Records, in millions.")] = "1,4",
    rounds: Annotated[int, typer.Option(min=1, help="How often each contender is timed.")] = 3,
    docs: Annotated[bool, typer.Option(help="Write the figures to docs/benchmarks.md?")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Measure ingest; Polars and fastavro are 1.00."""
    from bench import page, tables
    from bench.summary import taken

    counts = [round(float(text) * MILLION) for text in size.split(",")]
    rows = [row for task in TASKS for count in counts for row in _rows(task, count, rounds)]
    figures = {"taken": taken(rounds), "rows": rows}
    if as_json:
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    else:
        Console().print(tables.on_screen(tables.ingest(figures)))
    if docs:
        page.write_ingest(figures, Path(__file__).parents[2] / "docs")


def _rows(task: str, count: int, rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each contender: medians over the rounds; ratios are of two figures of one round."""
    contenders, against = TASKS[task].contenders, TASKS[task].against
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        few, path = (TASKS[task].write(Path(scratch) / str(many), many) for many in (100, count))
        samples = [
            {name: measured(task, name, path, few, Path(scratch) / "tables") for name in contenders}
            for _ in range(rounds)
        ]
    for name in contenders:
        found = {what: statistics.median(one[name][what] for one in samples) for what in ("seconds", "processor")}
        ratios = {
            f"{what}_ratio": statistics.median(one[name][what] / one[against][what] for one in samples)
            for what in ("seconds", "processor")
        }
        most = max(one[name]["mebibytes"] for one in samples)
        yield {"task": TASKS[task].title, "contender": name, "records": count, **found, **ratios, "mebibytes": most}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        task, name, *places = sys.argv[2:]
        print(json.dumps(run_one(task, name, *map(Path, places))))
    else:
        typer.run(main)
