"""Outputs of steps compared with a live run's tables, and the events that a row may be made of."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Aggregate, Grid, Job, OutputRange
from pipelines.core.steps import (
    Computed,
    InputRows,
    Output,
    Projected,
    Referenced,
    ReferenceRows,
    Side,
    Steps,
    Windowed,
)
from pipelines.core.time import HOUR, parse_instant
from pipelines.explain.event import why_event
from pipelines.explain.output import why_row
from pipelines.ingest.batch import ingest
from pipelines.ingest.references import ingest_reference
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.quality.run_checks import run_checks
from pipelines.reconcile.run import reconcile
from pipelines.replay.run import replay
from pipelines.report.compare import compare

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

T = parse_instant
BASE = parse_job(
    """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}
ordering: {late_arrival: 5m, out_of_order: 0s, action: drop}
references: {sites: {columns: "booth STRING, town STRING"}}
query: {from: cars, select: {booth: booth}}
"""
)
BOOTH = Computed("booth", "booth")
HOURLY = Windowed(InputRows("cars"), Grid(HOUR, HOUR), (BOOTH,), (Aggregate("n", "count"),))
TOWNS = Referenced(Side("c", InputRows("cars")), Side("s", ReferenceRows("sites")), (("booth", "booth"),))


def job(rows: tuple[Computed, ...] = (BOOTH,)) -> Job:
    outputs = (
        Output("all", Projected(InputRows("cars"), rows)),
        Output("hours", HOURLY),
        Output("towns", Projected(TOWNS, (Computed("town", "s.town"),))),
    )
    live = tuple((one.name, f"stream_outputs/cars/{one.name}") for one in outputs)
    return dataclasses.replace(BASE, query=Steps((), outputs), stream_outputs=live)


JOB = job()


def sites(place: Path, town: str) -> None:
    file = place.parent / f"{town}.jsonl"
    file.write_text("".join(json.dumps({"booth": booth, "town": town}) + "\n" for booth in "ab"))
    ingest_reference(JOB, "sites", [file], place)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A replay of three hours, with a live run that wrote the same."""
    place = tmp_path_factory.mktemp("outputs") / "lakehouse"
    records = []
    for number in range(18):
        arrival = f"2026-01-01T{number // 6:02d}:{number % 6 * 10:02d}:00Z"
        at = arrival if number != 4 else "2026-01-01T00:30:00Z"
        record = {"arrival_time": arrival, "input_partition": 0, "sequence": number, "at": at}
        records.append({**record, "booth": "ab"[number % 2], "n": number})
    file = place.parent / "cars.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ingest(JOB, "cars", [file], place).quarantined == 0
    sites(place, "Aachen")
    replay(JOB, EVERYTHING, place, spark=spark)
    for name in ("all", "hours", "towns"):
        write_live(place, name, table(place, f"outputs/cars/{name}"))
    return place


@pytest.fixture
def lakehouse(whole: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(whole, tmp_path / "lakehouse"))


def table(place: Path, name: str) -> pa.Table:
    return DeltaTable(str(place / name)).to_pyarrow_table()


def write_live(place: Path, name: str, rows: pa.Table) -> None:
    write_deltalake(str(place / "stream_outputs/cars" / name), rows, mode="overwrite", schema_mode="overwrite")


def differences(place: Path, output: str) -> list[dict[str, Any]]:
    found = rows_of(JOB, f"reconciliations/{output}", place)
    assert found is not None
    return plain_rows(found)


def test_rows_without_a_key_are_compared_as_multisets(spark: SparkSession, lakehouse: Path) -> None:
    import pyarrow as pa

    agreed = reconcile(JOB, EVERYTHING, lakehouse, name="all", spark=spark)
    assert (agreed.equal, agreed.differing) == (17, 0)
    rows = table(lakehouse, "stream_outputs/cars/all").sort_by("system_timestamp")
    # one row less, one twice
    write_live(lakehouse, "all", pa.concat_tables([rows.slice(1), rows.slice(5, 1)]))
    found = reconcile(JOB, EVERYTHING, lakehouse, name="ALL", spark=spark)
    assert found.by_status == {"missing_in_stream": 1, "duplicated_in_stream": 1}
    assert found.by_cause == {"unexplained": 1, "duplicate_emission": 1}
    first, second = differences(lakehouse, "all")
    assert (first["system_timestamp"], first["copies_in_replay"], first["copies"]) == ("2026-01-01T00:00:00Z", 1, 0)
    assert (second["copies_in_replay"], second["copies"]) == (1, 2)
    assert found.story[0] == (
        "The first difference is the row at 2026-01-01T00:00:00Z of booth a:"
        " the replay has it 1 time(s), the live run 0 time(s)."
    )
    one = OutputRange(T("2026-01-01T00:30:00Z"), T("2026-01-01T02:00:00Z"))
    assert reconcile(JOB, one, lakehouse, name="all", spark=spark).by_status == {"duplicated_in_stream": 1}


def test_a_live_table_without_the_time_is_compared_as_a_whole_and_refused_for_a_range(
    spark: SparkSession, lakehouse: Path
) -> None:
    rows = table(lakehouse, "stream_outputs/cars/all").select(["booth"])
    write_live(lakehouse, "all", rows.slice(0, 16))
    found = reconcile(JOB, EVERYTHING, lakehouse, name="all", spark=spark)
    assert found.notes == ("stream_outputs/cars/all has no system_timestamp: not compared",)
    assert (found.equal, found.by_status) == (1, {"missing_in_stream": 1})
    with pytest.raises(UsageError, match="has no column 'system_timestamp'"):
        reconcile(JOB, OutputRange(T("2026-01-01T00:00:00Z"), None), lakehouse, name="all", spark=spark)


def test_windows_with_their_keys_are_compared_value_by_value(spark: SparkSession, lakehouse: Path) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = table(lakehouse, "stream_outputs/cars/hours").sort_by("system_timestamp")
    more = rows.set_column(rows.column_names.index("n"), "n", pc.add(rows["n"], 1))
    write_live(lakehouse, "hours", pa.concat_tables([more.slice(0, 1), rows.slice(1)]))
    found = reconcile(JOB, EVERYTHING, lakehouse, name="hours", spark=spark)
    assert found.by_status == {"different": 1}
    (row,) = differences(lakehouse, "hours")
    assert row["stream"]["n"] == row["replay"]["n"] + 1
    with pytest.raises(UsageError, match="has several outputs"):
        reconcile(JOB, EVERYTHING, lakehouse, spark=spark)


def test_other_reference_data_of_the_live_run_is_proved_by_recomputing_with_it(
    spark: SparkSession, lakehouse: Path
) -> None:
    sites(lakehouse, "Aalen")
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    live = {"run_id": "live", "job": "cars", "kind": "stream", "status": "succeeded", "process": runs.this_process()}
    (ledger, *_) = runs.runs_of(Lakehouse.at(lakehouse), "cars")
    versions = {"arrivals/cars": 0, "references/sites": 0}
    row = {**live, "versions_read": versions, "started_at": ledger["started_at"], "job_fingerprint": JOB.fingerprint}
    runs.record(Lakehouse.at(lakehouse), row)
    found = reconcile(JOB, EVERYTHING, lakehouse, name="towns", spark=spark)
    assert found.by_cause == {"other_reference_data": 34}


def test_a_replay_of_another_job_file_is_out_of_date(spark: SparkSession, lakehouse: Path) -> None:
    changed = job((Computed("booth", "upper(booth)"),))
    replay(changed, EVERYTHING, lakehouse, spark=spark)
    found = reconcile(JOB, EVERYTHING, lakehouse, name="all", spark=spark)
    assert found.by_cause == {"replay_out_of_date": 34}
    assert compare(Lakehouse.at(lakehouse), JOB, EVERYTHING).counts["equal"] > 0


def test_why_names_the_events_in_reach_of_a_row_and_what_the_policy_made_of_them(lakehouse: Path) -> None:
    story = why_row(JOB, "hours", T("2026-01-01T01:00:00Z"), {"booth": "a"}, lakehouse)
    assert story.data["rows"] == [
        {
            "system_timestamp": "2026-01-01T01:00:00Z",
            "window_start": "2026-01-01T00:00:00Z",
            "window_end": "2026-01-01T01:00:00Z",
            "window_id": None,
            "booth": "a",
            "n": 2,
        }
    ]
    assert story.sentences == (
        "outputs/cars/hours has at 2026-01-01T01:00:00Z a row with booth a, n 2.",
        "It may be made of the events of cars that count from 2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z:"
        " there are 6: cars/0/0, cars/0/1, cars/0/2, cars/0/3, cars/0/5 and 1 more.",
        "1 event(s) of cars happened there and do not count there: cars/0/4 (late: dropped).",
        "The live run has 1 such row(s) in stream_outputs/cars/hours, the replay 1.",
    )
    towns = why_row(JOB, "towns", T("2026-01-01T00:10:00Z"), {}, lakehouse)
    assert "It looks up references/sites at version 0." in towns.sentences
    event = why_event(JOB, "cars/0/5", lakehouse)
    assert event.sentences[-3:] == (
        "Rows of outputs/cars/all from 2026-01-01T00:50:00Z to 2026-01-01T00:50:00Z may depend on it.",
        "Rows of outputs/cars/hours from 2026-01-01T00:50:00Z to 2026-01-01T01:50:00Z may depend on it.",
        "Rows of outputs/cars/towns from 2026-01-01T00:50:00Z to 2026-01-01T00:50:00Z may depend on it.",
    )


def test_every_output_keeps_its_contracts(spark: SparkSession, lakehouse: Path) -> None:
    for name in ("all", "hours", "towns"):
        reconcile(JOB, EVERYTHING, lakehouse, name=name, spark=spark)
    checks, skipped = run_checks(JOB, Lakehouse.at(lakehouse), EVERYTHING)
    assert skipped == []
    assert [(check.name, check.passed, check.description) for check in checks if not check.passed] == []
    assert [check.name for check in checks][3:] == [
        f"{kind}: {name}"
        for name in ("all", "hours", "towns")
        for kind in ("output_schema", "output_contract", "matches_stream")
    ]
