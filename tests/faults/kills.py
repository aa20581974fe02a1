"""Commands that are killed at random moments. Afterwards the tables are the old or the new ones, the ledger reports the
run, and the same command completes at the first try with what a run without a kill gives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from deltalake import DeltaTable

from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of

JOB_TEXT = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE", timestamp_by: at}}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)", total: "sum(toll)"}}
keep_verdicts: all
"""
JOB = parse_job(JOB_TEXT)
TABLES = ["arrivals/cars", "quarantine/cars", "verdicts/cars", "windows/cars", "stream_windows/cars"]
_OF_THE_RUN = {"emitted_at", "run_id", "quarantined_at"}
Contents = dict[str, Counter[str]]


@dataclass(frozen=True)
class Operation:
    """A command, and how many batches are ingested before it."""

    name: str
    command: tuple[str, ...]
    batches: int
    kind: str | None = None


OPERATIONS = {
    one.name: one
    for one in (
        Operation("ingest", ("ingest", "--input", "cars", "last.jsonl"), 1),
        Operation("compaction", ("ingest", "--input", "cars", "last.jsonl"), 15),
    )
}


class Bench:
    """One operation: a lakehouse as it is before, what the command makes of it, and how long that takes."""

    def __init__(self, folder: Path, operation: Operation) -> None:
        self.folder, self.operation = folder, operation
        (folder / "cars.yaml").write_text(JOB_TEXT)
        self._records("last.jsonl", 1000, 400)
        self.start = folder / "start"
        for number in range(operation.batches):
            self._records("batch.jsonl", number * 20, 20)
            ingest(JOB, "cars", [folder / "batch.jsonl"], self.start)
        self.before = contents(self.start)
        control = self._copy("control")
        began = time.monotonic()
        self._run(operation.command, control)
        self.seconds = time.monotonic() - began
        self.after = contents(control)
        assert self.after != self.before

    def kill(self, chance: Random) -> list[str]:
        """What is wrong after a kill at a random moment; empty if nothing is."""
        lakehouse = self._copy("killed")
        process = self._started(self.operation.command, lakehouse)
        time.sleep(chance.uniform(0, 1.1 * self.seconds))
        victims = _family(process.pid)
        victim = chance.choice(victims) if victims else process.pid
        _end(victim)
        if victim == process.pid:
            # what the driver left behind dies with it, as on a machine that is switched off
            for one in victims[1:]:
                _end(one)
        process.communicate(timeout=600)
        found = contents(lakehouse)
        wrong = [
            f"{table} is neither the old one nor the new one"
            for table in TABLES
            if found[table] not in (self.before[table], self.after[table]) and not self._may_be_partial(table)
        ]
        self._run(self.operation.command, lakehouse)
        repaired = contents(lakehouse)
        wrong += [
            f"{table} is not what it should be after a re-run"
            for table in TABLES
            if repaired[table] != self.after[table]
        ]
        if self.operation.kind is not None:
            statuses = [row["status"] for row in runs_of(Lakehouse.at(lakehouse), JOB.name)]
            if statuses.count("running") or not statuses.count("succeeded"):
                wrong.append(f"the ledger has {statuses}")
        return wrong

    def _may_be_partial(self, table: str) -> bool:
        """A stream commits batch by batch."""
        return self.operation.kind == "stream" and table != "arrivals/cars"

    def _records(self, name: str, first: int, count: int) -> None:
        rows = []
        for number in range(first, first + count):
            at = f"2026-01-{1 + number // 1440:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"
            row = {"arrival_time": at, "input_partition": 0, "sequence": number, "at": at}
            rows.append(json.dumps({**row, "booth": "ab"[number % 2], "toll": number / 8}))
        (self.folder / name).write_text("\n".join([*rows, "not a record"]))

    def _copy(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.start, self.folder / name)
        return self.folder / name

    def _started(self, command: tuple[str, ...], lakehouse: Path) -> subprocess.Popen[bytes]:
        name, *rest = command
        call = [sys.executable, "-m", "pipelines.cli", name, "cars.yaml", *rest, "--lakehouse", str(lakehouse)]
        return subprocess.Popen(
            call, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def _run(self, command: tuple[str, ...], lakehouse: Path) -> None:
        process = self._started(command, lakehouse)
        _, error = process.communicate(timeout=600)
        assert process.returncode in (0, 3), error.decode()


def contents(lakehouse: Path) -> Contents:
    """The rows of each table, without what names the run that wrote them."""
    found: Contents = {}
    for name in TABLES:
        found[name] = Counter()
        if DeltaTable.is_deltatable(str(lakehouse / name)):
            rows = DeltaTable(str(lakehouse / name)).to_pyarrow_table()
            kept = [column for column in rows.column_names if column not in _OF_THE_RUN]
            found[name] = Counter(map(repr, rows.select(kept).to_pylist()))
    return found


def _family(pid: int) -> list[int]:
    """A process and all that descend from it: the driver, its JVM, Python workers."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = entry.read_text().rpartition(")")
        except OSError:
            continue
        children.setdefault(int(rest.split()[1]), []).append(int(name.split()[0]))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
