"""Commands that write the same tables at the same time: each succeeds as it reports, or names the conflict."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import SECOND, format_instant, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.layout import result_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.lakehouse.show import rows_of
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB_TEXT = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 5m}}, aggregates: {cars: "count(*)"}}
keep_verdicts: all
"""
JOB = parse_job(JOB_TEXT)
NOON, HALF_PAST, ONE = "2026-01-01T12:00:00Z", "2026-01-01T12:30:00Z", "2026-01-01T13:00:00Z"
HALVES = [(NOON, HALF_PAST), (HALF_PAST, ONE)]
"""Adjacent ranges of one day: replacing either rewrites files that have rows of the other."""
BATCHES, RECORDS = 3, 5
"""So many batches, of so many records, does each of two ingests append while two replays run."""

FIRST = 360
"""So many records of partition 0, ten seconds apart, are there before."""

Outcome = dict[str, Any]


def records(file: Path, partition: int, begin: str, sequences: Iterable[int], step_s: int) -> Path:
    """A file of records of a partition that come ``step_s`` apart."""
    with file.open("w") as out:
        for sequence in sequences:
            at = format_instant(parse_instant(begin) + sequence * step_s * SECOND)
            row = {"arrival_time": at, "input_partition": partition, "sequence": sequence, "at": at, "booth": "a"}
            out.write(json.dumps(row) + "\n")
    return file


@pytest.fixture(scope="module")
def replayed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lakehouse with an hour of arrivals, all of which is replayed."""
    folder = tmp_path_factory.mktemp("replayed")
    ingest(JOB, "cars", [records(folder / "hour.jsonl", 0, NOON, range(FIRST), 10)], folder / "lakehouse")
    replay(JOB, EVERYTHING, folder / "lakehouse", spark=spark)
    return folder / "lakehouse"


class World:
    """A copy of a lakehouse, and the real command line, which writes it in processes of its own."""

    def __init__(self, replayed: Path, folder: Path) -> None:
        self.folder, self.lakehouse = folder, Lakehouse.at(folder / "lakehouse")
        shutil.copytree(replayed, folder / "lakehouse")
        self.next_sequence = {1: 0, 2: 0}
        self.taken: dict[int, list[int]] = {0: list(range(FIRST)), 1: [], 2: []}
        (folder / "cars.yaml").write_text(JOB_TEXT)

    def _run(self, command: str, *arguments: str) -> Outcome | None:
        """What the command printed; None if it lost a write conflict, which it said in one sentence."""
        common = ["--json", "--lakehouse", self.lakehouse.root]
        call = [sys.executable, "-m", "pipelines.cli", command, str(self.folder / "cars.yaml"), *arguments, *common]
        ended = subprocess.run(call, capture_output=True, text=True, timeout=900, check=False)
        if ended.returncode == 0:
            return dict(json.loads(ended.stdout))
        errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
        assert (ended.returncode, len(errors)) == (4, 1), ended.stderr
        assert re.fullmatch("error: write conflict: .*; run the command again, which is safe", errors[0]), ended.stderr
        return None

    def replay(self, half: tuple[str, str]) -> Outcome | None:
        """Replay a half of the hour."""
        return self._run("replay", "--from", half[0], "--to", half[1])

    def ingest(self, partition: int, begin: str, count: int, step_s: int) -> None:
        """Append records of a partition that come ``step_s`` apart, after those that it has."""
        first = self.next_sequence[partition]
        self.next_sequence[partition] = first + count
        sequences = range(first, first + count)
        file = records(self.folder / f"{partition}-{first}.jsonl", partition, begin, sequences, step_s)
        done = self._run("ingest", "--input", "cars", str(file))
        if done is not None:
            assert self.commit_of("arrivals/cars", done["version"])["batch_id"] == done["batch_id"]
            assert done["appended"] == count
            self.taken[partition] += sequences

    def ingest_batches(self, partition: int) -> None:
        """Batches one after the other, after the hour that is replayed."""
        for _ in range(BATCHES):
            self.ingest(partition, "2026-01-01T14:00:00Z", RECORDS, 1)

    def commit_of(self, table: str, version: int) -> dict[str, Any]:
        """What a commit says of itself."""
        log = Path(self.lakehouse.uri(table), "_delta_log", f"{version:020d}.json")
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        (about,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
        return dict(about)

    def rows(self, table: str, output: OutputRange, version: int | None = None) -> int:
        """How many rows of a range a table has, or had at a version."""
        layout = dict(result_tables(JOB))[table]
        rows = DeltaTable(self.lakehouse.uri(table), version=version).to_pyarrow_table()
        times = rows[layout.time].cast("int64").to_pylist()
        first_us, end_us = output.from_us or 0, output.to_us or max(times, default=0) + 1
        return sum(first_us <= time < end_us for time in times)

    def check_replays(self, outcomes: list[Outcome | None]) -> None:
        """Each that succeeded is in the tables, at the versions that it names, and the other did not undo it."""
        ledger = {row["run_id"]: row for row in runs_of(self.lakehouse, JOB.name)}
        for half, outcome in zip(HALVES, outcomes, strict=True):
            if outcome is None:
                continue
            row = ledger[outcome["run_id"]]
            assert (row["status"], row["versions_written"]) == ("succeeded", outcome["versions_written"])
            output = OutputRange(*map(parse_instant, half))
            for table, version in outcome["versions_written"].items():
                metadata = json.loads(self.commit_of(table, version)["userMetadata"])
                assert metadata["run_id"] == outcome["run_id"], (table, version)
                written = outcome["rows_written"][table]
                assert self.rows(table, output, version) == self.rows(table, output) == written > 0, (table, version)

    def check_log(self) -> None:
        """What ingests that succeeded brought is in the log once, and nothing else."""
        log = rows_of(JOB, "arrivals", self.lakehouse, EVERYTHING)
        assert log is not None
        found = sorted(zip(log["input_partition"].to_pylist(), log["sequence"].to_pylist(), strict=True))
        assert found == sorted((partition, one) for partition, taken in self.taken.items() for one in taken)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("rounds", "by_spark"),
    [(1, False), pytest.param(30, False, marks=pytest.mark.slow), pytest.param(30, True, marks=pytest.mark.slow)],
)
def test_two_replays_of_adjacent_ranges_during_two_ingests(
    replayed: Path, tmp_path: Path, rounds: int, by_spark: bool
) -> None:
    world = World(replayed, tmp_path)
    if by_spark:
        for table, _ in result_tables(JOB):
            # which deltalake does not write
            DeltaTable(world.lakehouse.uri(table)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    succeeded = 0
    for _ in range(rounds):
        with ThreadPoolExecutor(4) as racing:
            replays = [racing.submit(world.replay, half) for half in HALVES]
            ingests = [racing.submit(world.ingest_batches, partition) for partition in (1, 2)]
        for appending in ingests:
            appending.result()
        outcomes = [replay.result() for replay in replays]
        world.check_replays(outcomes)
        world.check_log()
        succeeded += sum(outcome is not None for outcome in outcomes)
    assert succeeded >= rounds
