"""How fast JSON lines come into an arrival log, by Polars and DuckDB writing the same columns to Delta.

Each contender runs in a process of its own, first on a few lines that are not timed. They only read, type and write;
Tailrace also judges each record's place in the arrival order, sorts, and keeps what it refuses.
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
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

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


def write_lines(path: Path, count: int) -> Path:
    """An arrival log of four input partitions as JSON lines, about 210 bytes each."""
    chance, at, sequences = random.Random(1), datetime(2026, 1, 1, tzinfo=UTC), [0] * 4
    with path.open("w") as file:
        for _ in range(count):
            partition = chance.randrange(4)
            at += timedelta(microseconds=chance.randrange(1, 200_000))
            happened = at - timedelta(milliseconds=chance.randrange(20_000))
            line = {
                "arrival_time": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}",
                "input_partition": partition,
                "sequence": sequences[partition],
                "device": f"device-{chance.randrange(1000)}",
                "at": f"{happened:%Y-%m-%dT%H:%M:%S.%fZ}",
                "reading": chance.gauss(20, 5),
                "octets": chance.randrange(1 << 40),
            }
            file.write(json.dumps(line) + "\n")
            sequences[partition] += 1
    return path


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


CONTENDERS: dict[str, Contender] = {"tailrace": tailrace, "polars": polars, "duckdb": duckdb}


def run_one(name: str, path: Path, few: Path, folder: Path) -> dict[str, float]:
    """One contender's time and processor time, in seconds, and the most memory that it had, in MiB."""
    for number, lines in enumerate((few, path)):
        own = resource.getrusage(resource.RUSAGE_SELF)
        begin = time.perf_counter()
        CONTENDERS[name](lines, folder / str(number))
        seconds = time.perf_counter() - begin
    now = resource.getrusage(resource.RUSAGE_SELF)
    processor = now.ru_utime + now.ru_stime - own.ru_utime - own.ru_stime
    return {"seconds": seconds, "processor": processor, "mebibytes": now.ru_maxrss / 1024}


def measured(name: str, path: Path, few: Path, folder: Path) -> dict[str, float]:
    """The same in a new process, its tables removed."""
    program = [sys.executable, "-m", "bench.ingest", "--one", name, str(path), str(few), str(folder)]
    done = subprocess.run(program, check=True, capture_output=True, text=True)
    shutil.rmtree(folder)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(
    size: Annotated[str, typer.Option(help="Logs, in millions of lines.")] = "1,4",
    rounds: Annotated[int, typer.Option(min=1, help="How often each contender is timed.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Measure ingest of JSON lines; Polars is 1.00."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        few = write_lines(Path(scratch) / "few.jsonl", 100)
        for count in (round(float(text) * MILLION) for text in size.split(",")):
            path = write_lines(Path(scratch) / "lines.jsonl", count)
            samples = [
                {name: measured(name, path, few, Path(scratch) / "tables") for name in CONTENDERS}
                for _ in range(rounds)
            ]
            rows += [{"contender": name, "lines": count, **_figures(name, samples)} for name in CONTENDERS]
    sys.stdout.write(json.dumps(rows, indent=2) + "\n") if as_json else Console().print(_table(rows))


def _figures(name: str, samples: list[dict[str, dict[str, float]]]) -> dict[str, float]:
    """Medians over the rounds; ratios are of two figures of one round."""
    found = {what: statistics.median(one[name][what] for one in samples) for what in ("seconds", "processor")}
    ratios = {
        f"{what}_of_polars": statistics.median(one[name][what] / one["polars"][what] for one in samples)
        for what in ("seconds", "processor")
    }
    return {**found, **ratios, "mebibytes": max(one[name]["mebibytes"] for one in samples)}


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "", "lines", "seconds", "of Polars", "processor", "of Polars", "MiB at most", title="JSON lines to Delta"
    )
    for row in rows:
        figures = (row["seconds"], row["seconds_of_polars"], row["processor"], row["processor_of_polars"])
        table.add_row(
            row["contender"], f"{row['lines']:,}", *(f"{one:.2f}" for one in figures), f"{row['mebibytes']:.0f}"
        )
    return table


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        name, *places = sys.argv[2:]
        print(json.dumps(run_one(name, *map(Path, places))))
    else:
        typer.run(main)
