"""A month of the demo's departures: one backfill through the daemon, day by day what ``tailrace replay`` gives."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from running import Running, dagster_ui, until

from pipelines.core.model import OutputRange
from pipelines.core.time import DAY, parse_instant
from pipelines.demo.departures import write_arrival_log
from pipelines.ingest.batch import ingest
from pipelines.job.load import load_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

JOBS = Path(__file__).parents[2] / "pipelines" / "job" / "examples"
JOB = load_job(JOBS / "departures_per_hour.yaml")
DAYS = [f"2013-03-{day:02d}" for day in range(3, 32)] + ["2013-04-01"]
"""Thirty days; the log begins two days before and ends four days after."""
WINDOWS = f"{JOB.name}/windows"
SENSOR = f"{JOB.name}_stale_days"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The departures of 1 March to 5 April 2013 as an arrival log."""
    folder = tmp_path_factory.mktemp("month")
    whole = pq.read_table(write_arrival_log(folder))
    first, end = datetime(2013, 3, 1, tzinfo=UTC), datetime(2013, 4, 6, tzinfo=UTC)
    stored = pc.and_(pc.greater_equal(whole["arrival_time"], first), pc.less(whole["arrival_time"], end))
    pq.write_table(whole.filter(stored), folder / "march.parquet")
    return folder / "march.parquet"


@pytest.fixture(scope="module")
def ui(log: Path) -> Iterator[Running]:
    """Dagster over that log, its sensors switched on."""
    root = log.parent / "lakehouse"
    assert ingest(JOB, "departures", [log], root, "march").appended > 20_000
    with dagster_ui(log.parent, JOBS, str(root), TAILRACE_AUTOMATION="on") as found:
        yield found


@pytest.fixture(scope="module")
def filled(ui: Running) -> dict[str, dict[str, Any]]:
    """What Dagster knows of each of the thirty days after one backfill of them."""
    backfill = ui.backfill(JOB.name, DAYS)
    until(lambda: ui.backfill_status(backfill) == "COMPLETED_SUCCESS", 600)
    return {day: ui.day(WINDOWS, day) for day in DAYS}


def ledger(ui: Running) -> list[dict[str, Any]]:
    return runs_of(Lakehouse.at(ui.root), JOB.name)


def versions(ui: Running) -> dict[str, int]:
    return {name: DeltaTable(f"{ui.root}/{name}/{JOB.name}").version() for name in ("windows", "verdicts")}


def test_thirty_days_are_one_run(ui: Running, filled: dict[str, dict[str, Any]]) -> None:
    [first] = [run for run in ledger(ui) if run["output_from"] == datetime(2013, 3, 3, tzinfo=UTC)]
    assert (first["status"], first["output_to"]) == ("succeeded", datetime(2013, 4, 2, tzinfo=UTC))
    assert len({run for day in filled.values() for run in day["runs"][-1:]}) == 1
    assert (
        sum(day["metadata"][-1]["windows"] for day in filled.values()) == first["rows_written"][f"windows/{JOB.name}"]
    )


def test_each_day_has_the_fingerprint_that_a_replay_of_it_alone_gives(
    ui: Running, filled: dict[str, dict[str, Any]], log: Path, spark: SparkSession
) -> None:
    alone = log.parent / "alone"
    shutil.copytree(Path(ui.root, "arrivals"), alone / "arrivals")
    found = {}
    for day in DAYS:
        from_us = parse_instant(day)
        found[day] = replay(JOB, OutputRange(from_us, from_us + DAY), alone, spark=spark).output_fingerprint
    assert len(set(found.values())) == 30
    assert {day: known["metadata"][-1]["output_fingerprint"] for day, known in filled.items()} == found


def test_nothing_fresh_is_computed_again_and_a_late_flight_only_its_day(
    ui: Running, filled: dict[str, dict[str, Any]], log: Path
) -> None:
    assert {day["stale"] for day in filled.values()} == {"FRESH"}
    runs, written, since = ledger(ui), versions(ui), datetime.now(UTC).timestamp()
    ticks = until(lambda: [one for one in ui.ticks(SENSOR) if one["timestamp"] > since and one["skipReason"]], 200)
    assert {(one["status"], one["skipReason"]) for one in ticks} == {("SKIPPED", "no replayed day is stale")}
    assert (ledger(ui), versions(ui)) == (runs, written)

    stored = pq.read_table(log)
    late = {"arrival_time": datetime(2013, 3, 17, 12, tzinfo=UTC), "input_partition": 9, "sequence": 0}
    flight = {**stored.slice(0, 1).to_pylist()[0], **late}
    pq.write_table(pa.Table.from_pylist([flight], schema=stored.schema), log.parent / "late.parquet")
    assert ingest(JOB, "departures", [log.parent / "late.parquet"], ui.root, "late").appended == 1
    until(lambda: [run["status"] for run in ledger(ui)[len(runs) :]] == ["succeeded"], 500)
    again = ledger(ui)[-1]
    assert (again["output_from"].day, again["output_to"].day) == (17, 18)
    assert "added by batch late in version 1" in again["reason"]
    assert versions(ui) == {name: version + 1 for name, version in written.items()}
    until(lambda: len(ui.day(WINDOWS, "2013-03-17")["runs"]) > 1, 60)
    made = {day: len(ui.day(WINDOWS, day)["runs"]) for day in DAYS}
    assert {day for day, times in made.items() if times > 1} == {"2013-03-17"}
