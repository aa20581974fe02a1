"""Commands on the same tables at the same time: each succeeds as it reports or names the conflict; nothing is lost,
nothing is there twice, and no two tables of a job are from different runs over the same range."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

from command_line import CommandLine, Outcome
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from kills import JOB, JOB_TEXT, RESULTS, write_records, wrong_in_ledger

from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import parse_instant
from pipelines.ingest.batch import ingest
from pipelines.lakehouse.commits import commits, metadata_of
from pipelines.lakehouse.layout import result_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of

MIDDLE = "2026-01-01T03:20:00Z"
"""Where adjacent ranges meet: inside a day, so that replacing either rewrites files that have rows of the other."""
REFUSED = re.compile(
    "error: write conflict: .*; run the command again, which is safe"
    "|error: the data file .* of the lakehouse is missing; nothing was written"
)
Race = Callable[["Races"], list[tuple[OutputRange, Outcome]]]


class Races:
    """Two lakehouses, one of which Spark writes, and processes that are warm: two with Spark, one that ingests."""

    def __init__(self, folder: Path, seed: int, open_: ExitStack) -> None:
        self.folder, self.chance = folder, Random(f"races {seed}")
        (folder / "cars.yaml").write_text(JOB_TEXT)
        self.replaying = [open_.enter_context(CommandLine(folder, spark=True)) for _ in range(2)]
        self.ingesting = open_.enter_context(CommandLine(folder, spark=False))
        self.records = {"by-driver": 0, "by-spark": 0}
        for name in self.records:
            self.name = name
            self._arrive(400)
            assert self.replaying[0].run("replay", "cars.yaml", *self._place()).code == 0
        for table in RESULTS:
            # which deltalake does not write
            uri = f"{folder}/by-spark/{table}"
            DeltaTable(uri).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})

    @property
    def lakehouse(self) -> Lakehouse:
        """The one of this race."""
        return Lakehouse.at(self.folder / self.name)

    def run(self, race: Race, least: int) -> list[str]:
        """What is wrong after a race of which so many commands must succeed; empty if nothing is."""
        self.name = self.chance.choice(sorted(self.records))
        self._arrive(20)
        try:
            outcomes = race(self)
        except AssertionError as error:
            return [str(error)]
        wrong = [f"it ended with {one}" for _, one in outcomes if one.code != 0 and not REFUSED.search(one.error)]
        wrong += [one for output, outcome in outcomes if outcome.code == 0 for one in self._missing(output, outcome)]
        succeeded = sum(outcome.code == 0 for _, outcome in outcomes)
        if succeeded < least:
            wrong.append(f"{succeeded} of the commands succeeded: {outcomes}")
        if succeeded == 0 and self.replays(EVERYTHING)[0][1].code != 0:
            wrong.append("a replay afterwards does not succeed")
        if any(run["status"] == "running" for run in runs_of(self.lakehouse, JOB.name)):
            wrong.append("the ledger has a run that is running")
        return [*wrong, *self._repeated(), *self._mixed(outcomes), *wrong_in_ledger(self.lakehouse.folder, None)]

    def replays(self, *outputs: OutputRange) -> list[tuple[OutputRange, Outcome]]:
        """Replays of these ranges at once, the second a little later."""
        for process, (first, last) in zip(self.replaying, ((one.from_us, one.to_us) for one in outputs), strict=False):
            ends = [*(["--from", MIDDLE] if first else []), *(["--to", MIDDLE] if last else [])]
            process.begin("replay", "cars.yaml", *ends, *self._place())
            time.sleep(self.chance.uniform(0, 0.6))
        found = [process.outcome() for process, _ in zip(self.replaying, outputs, strict=False)]
        return [(output, outcome) for output, outcome in zip(outputs, found, strict=True) if outcome is not None]

    def live(self) -> list[tuple[OutputRange, Outcome]]:
        """Two live runs of the job at once."""
        for process in self.replaying:
            process.begin("stream", "cars.yaml", "--until-caught-up", *self._place())
            time.sleep(self.chance.uniform(0, 0.6))
        found = [process.outcome() for process in self.replaying]
        again = self.replaying[0].run("stream", "cars.yaml", "--until-caught-up", *self._place())
        assert again.code == 0, f"{again} after {found}"
        return [(EVERYTHING, outcome) for outcome in found if outcome is not None]

    def append(self) -> None:
        """Three batches, one after another."""
        for _ in range(3):
            file = self._next(20)
            outcome = self.ingesting.run("ingest", "cars.yaml", "--input", "cars", str(file), *self._place())
            assert outcome.code == 3, outcome
            assert outcome.data["appended"] == 20, outcome

    def maintain(self, *, vacuum: bool) -> None:
        """OPTIMIZE, and VACUUM: of results files that are a week old, of the log all that it does not name any more."""
        for name in (*(RESULTS if self.name == "by-driver" else []), "arrivals/cars"):
            table = DeltaTable(self.lakehouse.uri(name))
            with suppress(CommitFailedError):  # it lost against a replay
                table.optimize.compact()
            if vacuum and name == "arrivals/cars":
                table.vacuum(0, dry_run=False, enforce_retention_duration=False)
            elif vacuum:
                table.vacuum(dry_run=False)

    def _place(self) -> list[str]:
        return ["--json", "--lakehouse", self.lakehouse.root]

    def _next(self, count: int) -> Path:
        first = self.records[self.name]
        self.records[self.name] += count
        return write_records(self.folder / f"{self.name}.jsonl", range(first, first + count))

    def _arrive(self, count: int) -> None:
        assert ingest(JOB, "cars", [self._next(count)], self.lakehouse).appended == count

    def _missing(self, output: OutputRange, outcome: Outcome) -> Iterator[str]:
        """Where a replay that reported success is not in the tables as it reported."""
        data = outcome.data
        for table, version in data.get("versions_written", {}).items():
            rows = DeltaTable(self.lakehouse.uri(table), version=version).to_pyarrow_table()
            times = rows[dict(result_tables(JOB))[table].time].cast("int64").to_pylist()
            first_us, end_us = output.from_us or 0, output.to_us or max(times) + 1
            found = sum(first_us <= time < end_us for time in times)
            if found != data["rows_written"][table]:
                yield f"{table} at {version} has {found} rows of {output}, not {data['rows_written'][table]}"

    def _repeated(self) -> Iterator[str]:
        """Rows that are there twice, and records that are in the log more or less than once."""
        keys = {"verdicts/cars": ["sequence"], "windows/cars": ["window_end", "booth"], "arrivals/cars": ["sequence"]}
        if (self.lakehouse.folder / "stream_windows").exists():
            keys |= {"stream_windows/cars": ["window_end", "booth"], "stream_verdicts/cars": ["sequence"]}
        for name, key in keys.items():
            rows = DeltaTable(self.lakehouse.uri(name)).to_pyarrow_table().select(key).to_pylist()
            twice = [row for row, count in Counter(map(str, rows)).items() if count > 1]
            if twice:
                yield f"{name} has twice {twice[:3]}"
            if name == "arrivals/cars" and len(rows) != self.records[self.name]:
                yield f"{name} has {len(rows)} of {self.records[self.name]} records"

    def _mixed(self, outcomes: list[tuple[OutputRange, Outcome]]) -> Iterator[str]:
        """Of runs over one range that succeeded, another one wrote each table last."""
        succeeded = {
            outcome.data["run_id"] for output, outcome in outcomes if outcome.code == 0 and output == EVERYTHING
        }
        last = {}
        for name in RESULTS:
            table = self.lakehouse.open(name)
            assert table is not None
            runs = (metadata_of(about).get("run_id") for _, about in commits(table))
            last[name] = next((run for run in runs if run in succeeded), None)
        if len(set(last.values())) > 1:
            yield f"the last writers of one range are {last}"


def same_range(races: Races) -> list[tuple[OutputRange, Outcome]]:
    """Two replays of everything, between which arrivals come."""
    with meanwhile(races.append):
        return races.replays(EVERYTHING, EVERYTHING)


def adjacent_ranges(races: Races) -> list[tuple[OutputRange, Outcome]]:
    """Two replays that meet inside a day."""
    middle_us = parse_instant(MIDDLE)
    return races.replays(OutputRange(None, middle_us), OutputRange(middle_us, None))


def an_appender(races: Races) -> list[tuple[OutputRange, Outcome]]:
    """A replay while three batches come."""
    with meanwhile(races.append):
        return races.replays(EVERYTHING)


def optimize(races: Races) -> list[tuple[OutputRange, Outcome]]:
    """A replay while all its tables are put into fewer files."""
    with meanwhile(lambda: races.maintain(vacuum=False), again=True):
        return races.replays(EVERYTHING)


def vacuum(races: Races) -> list[tuple[OutputRange, Outcome]]:
    """A replay while old files are removed from all its tables."""
    with meanwhile(lambda: races.maintain(vacuum=True), again=True):
        return races.replays(EVERYTHING)


RACES: dict[str, tuple[Race, int]] = {
    "two replays of the same range": (same_range, 1),
    "two replays of adjacent ranges": (adjacent_ranges, 2),
    "a replay and an appender": (an_appender, 1),
    # a live run reads the log from its first version, of which VACUUM leaves no file that was compacted
    "two live runs": (Races.live, 0),
    "a replay and OPTIMIZE": (optimize, 1),
    "a replay and VACUUM": (vacuum, 0),
}
"""What races, and how many of the replays must succeed: one that reads files that VACUUM removes is refused."""


@contextmanager
def meanwhile(*does: Callable[[], None], again: bool = False) -> Iterator[None]:
    """A block during which a thread does these, ``again`` and again until the block ends."""
    ended, errors = threading.Event(), []

    def work() -> None:
        try:
            while True:
                for one in does:
                    one()
                if not again or ended.is_set():
                    return
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if errors:
        raise errors[0]


def race_all(folder: Path, seed: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Races by kind, and how many left something wrong, which is printed."""
    with ExitStack() as open_:
        races = Races(folder, seed, open_)
        for index, (name, (race, least)) in enumerate(RACES.items()):
            tried = count // len(RACES) + (index < count % len(RACES))
            found = [wrong for _ in range(tried) if (wrong := races.run(race, least))]
            for wrong in found:
                print(f"{name}: {'; '.join(wrong)}", flush=True)
            yield f"races of {name}", tried, len(found)
