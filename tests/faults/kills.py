"""Commands that are killed at random moments. Afterwards each table is the old or the new one, the ledger reports what
the run has written, and the same command completes at the first try with what a run without a kill gives."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from command_line import CommandLine, Outcome, end
from deltalake import DeltaTable

from pipelines.core.time import MINUTE, format_instant, parse_instant
from pipelines.job.load import parse_job
from pipelines.lakehouse.commits import commits, metadata_of
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
RESULTS = ["verdicts/cars", "windows/cars"]
RUNS_WRITE = [*RESULTS, "reconciliations/cars"]
STREAM_WRITES = ["stream_verdicts/cars", "stream_windows/cars"]
TABLES = ["arrivals/cars", "quarantine/cars", *RUNS_WRITE, *STREAM_WRITES]
_BEGIN_US = parse_instant("2026-01-01T00:00:00Z")
_OF_THE_RUN = {"emitted_at", "run_id", "quarantined_at", "evidence"}
Contents = dict[str, Counter[str]]
Command = tuple[str, ...]

_FIRST: Command = ("ingest", "--input", "cars", "first.jsonl")
_MORE: Command = ("ingest", "--input", "cars", "more.jsonl")
_REPLAY: Command = ("replay",)
_PREVIEW: Command = ("replay", "night", "--preview")
_STREAM: Command = ("stream", "--until-caught-up")


@dataclass(frozen=True)
class Operation:
    """A command, and those before it. ``kind``: its runs in the ledger; ``by_spark``: Spark writes the results."""

    name: str
    before: tuple[Command, ...]
    command: Command
    kind: str | None = None
    spark: bool = False
    by_spark: bool = False


OPERATIONS = {
    one.name: one
    for one in (
        Operation("ingest", (_FIRST,), _MORE),
        Operation("compaction", tuple((*_FIRST[:3], f"small-{n}.jsonl") for n in range(16)), _MORE),
        Operation("replay", (_FIRST, _REPLAY, _MORE), _REPLAY, "replay", spark=True),
        Operation("replay, Spark writes", (_FIRST, _REPLAY, _MORE), _REPLAY, "replay", spark=True, by_spark=True),
        Operation("stream", (_FIRST, _STREAM, _MORE), _STREAM, "stream", spark=True),
        Operation("reconcile", (_FIRST, _STREAM, _MORE, _REPLAY), ("reconcile",), "reconcile", spark=True),
        Operation("promote", (_FIRST, _REPLAY, _MORE, _PREVIEW), ("promote", "night"), "replay"),
    )
}


class Kills:
    """One operation: a lakehouse before it, what the command makes of it, and how long that takes.

    ``helper`` runs whatever is not killed, and lives on.
    """

    def __init__(self, folder: Path, operation: Operation, helper: CommandLine) -> None:
        self.folder, self.operation, self.helper = folder, operation, helper
        self.number = 0
        _write_records(folder)
        self.start = folder / "start"
        for command in operation.before:
            self._done(self._run(command, self.start))
        for table in RESULTS if operation.by_spark else ():
            # which deltalake does not write
            properties = {"delta.enableChangeDataFeed": "true"}
            DeltaTable(str(self.start / table)).alter.set_table_properties(properties)
        self.before, files = contents(self.start), files_of(self.start)
        control = self._copy("control")
        with self._victim() as process:
            began = time.monotonic()
            self._done(self._run(operation.command, control, process))
            self.seconds, self.files = time.monotonic() - began, files_of(control) - files
        self.after = contents(control)
        assert self.after != self.before or operation.name == "compaction"

    def kill(self, chance: Random) -> list[str]:
        """What is wrong after a kill at a random moment; empty if nothing is."""
        self.number += 1
        lakehouse = self._copy(f"killed-{self.number}")
        with self._victim() as victim:
            victim.begin(*self._arguments(self.operation.command, lakehouse))
            self._wait(victim, lakehouse, chance)
            answered = victim.has_answered(0)
            what = self._shoot(victim, chance)
            outcome = victim.outcome()
        return [f"{what}{' after its end' if answered else ''}: {one}" for one in self._judged(lakehouse, outcome)]

    def _victim(self) -> CommandLine:
        return CommandLine(self.folder, spark=self.operation.spark)

    def _judged(self, lakehouse: Path, outcome: Outcome | None) -> list[str]:
        """What is wrong in a lakehouse in which the command ended so, and after it is run again."""
        wrong = [] if outcome is None or outcome.is_reported_well else [f"it ended with {outcome}"]
        found = contents(lakehouse)
        wrong += [f"{table} is neither the old one nor the new one" for table in TABLES if not self._fits(table, found)]
        wrong += self._run_again(lakehouse)
        repaired = contents(lakehouse)
        wrong += [f"{name} is not the new one after a re-run" for name in TABLES if repaired[name] != self.after[name]]
        wrong += wrong_in_ledger(lakehouse, self.operation.kind)
        if not wrong:
            shutil.rmtree(lakehouse, ignore_errors=True)
        return [f"{one}; see {lakehouse}" for one in wrong]

    def _wait(self, victim: CommandLine, lakehouse: Path, chance: Random) -> None:
        """Until a random time has passed, or so many new files are there, or the command has ended."""
        if chance.random() < 0.5:
            victim.has_answered(chance.uniform(0, 1.1 * self.seconds))
            return
        awaited = files_of(lakehouse) + chance.randint(1, max(1, self.files))
        while files_of(lakehouse) < awaited and not victim.has_answered(0.005):
            pass

    def _shoot(self, victim: CommandLine, chance: Random) -> str:
        """Kill one process, of the driver half of the times what depends on it, too; what was killed."""
        by_kind: dict[str, list[int]] = {}
        for pid, kind in victim.family().items():
            by_kind.setdefault(kind, []).append(pid)
        kind = chance.choice(sorted(by_kind))
        end(chance.choice(by_kind.pop(kind)))
        alone = kind != "driver" or chance.random() < 0.5
        for others in by_kind.values() if not alone else ():
            # as on a machine that is switched off
            for pid in others:
                end(pid)
        return f"SIGKILL of the {kind}{'' if alone else ' and all it has started'}"

    def _fits(self, table: str, found: Contents) -> bool:
        if found[table] in (self.before[table], self.after[table]):
            return True
        # a stream commits batch by batch: rows that stay are either's
        return table in STREAM_WRITES and found[table] <= self.before[table] + self.after[table]

    def _run_again(self, lakehouse: Path) -> Iterator[str]:
        again = self._run(self.operation.command, lakehouse)
        is_done = again.code == 2 and self.operation.name == "promote" and contents(lakehouse) == self.after
        if again.code not in (0, 1, 3) and not is_done:
            yield f"a re-run does not complete: {again}"

    def _copy(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.start, self.folder / name)
        return self.folder / name

    def _arguments(self, command: Command, lakehouse: Path) -> list[str]:
        name, *rest = command
        rest = [str(self.folder / one) if one.endswith(".jsonl") else one for one in rest]
        return [name, str(self.folder / "cars.yaml"), *rest, "--lakehouse", str(lakehouse)]

    def _run(self, command: Command, lakehouse: Path, process: CommandLine | None = None) -> Outcome:
        return (process or self.helper).run(*self._arguments(command, lakehouse))

    @staticmethod
    def _done(outcome: Outcome) -> None:
        assert outcome.code in (0, 1, 3), outcome


def kill_all(trials: Callable[[str], Kills], seed: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Kills by operation, and how many left something wrong, which is printed."""
    for index, name in enumerate(OPERATIONS):
        chance, tried = Random(f"{name} {seed}"), count // len(OPERATIONS) + (index < count % len(OPERATIONS))
        found = [wrong for _ in range(tried) if (wrong := trials(name).kill(chance))]
        for wrong in found:
            print(f"{name}: {'; '.join(wrong)}", flush=True)
        yield f"kills of {name}", tried, len(found)


def wrong_in_ledger(lakehouse: Path, kind: str | None) -> Iterator[str]:
    """Where the ledger does not report what the tables' logs contain; the last run of ``kind`` must have succeeded."""
    place = Lakehouse.at(lakehouse)
    runs = runs_of(place, JOB.name)
    statuses = [run["status"] for run in runs if run["kind"] == kind]
    if kind is not None and (not statuses or statuses[-1] != "succeeded" or "running" in statuses):
        yield f"the ledger has {statuses}"
    committed: dict[str, dict[str, int]] = {}
    promoted = set()
    for name in RUNS_WRITE:
        table = place.open(name)
        for version, about in commits(table) if table is not None else ():
            own = metadata_of(about)
            if "run_id" in own:
                committed.setdefault(own["run_id"], {}).setdefault(name, version)
            if "preview" in own:
                promoted.add((name, version))
    known = {run["run_id"]: run["versions_written"] or {} for run in runs}
    for run_id, written in committed.items():
        if run_id not in known:
            yield f"run {run_id} has written {written} and is not in the ledger"
            continue
        # a promotion that completes one that was killed names what that one wrote
        left = {one for one in known[run_id].items() if one not in promoted or one in written.items()}
        if left != set(written.items()):
            yield f"run {run_id} has written {written}, the ledger has {known[run_id]}"


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


def files_of(lakehouse: Path) -> int:
    """How many files of tables are there: those of checkpoints come and go."""
    return sum(1 for table in (*TABLES, "runs") for _ in (lakehouse / table).rglob("*.*"))


def _write_records(folder: Path) -> None:
    (folder / "cars.yaml").write_text(JOB_TEXT)
    for number in range(16):
        write_records(folder / f"small-{number}.jsonl", range(number * 20, number * 20 + 20))
    write_records(folder / "first.jsonl", range(400))
    write_records(folder / "more.jsonl", range(400, 800))


def write_records(file: Path, sequences: range) -> Path:
    """Records a minute apart, some late, and one that is none."""
    rows = []
    for number in sequences:
        minute = number - (90 if number % 7 == 3 else 0)
        arrival, at = (format_instant(_BEGIN_US + one * MINUTE) for one in (number, max(0, minute)))
        row = {"arrival_time": arrival, "input_partition": 0, "sequence": number, "at": at}
        rows.append(json.dumps({**row, "booth": "ab"[number % 2], "toll": number / 8}))
    file.write_text("\n".join([*rows, "not a record"]))
    return file
