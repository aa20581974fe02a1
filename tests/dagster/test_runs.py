"""Runs in Dagster over a small lakehouse: one range of days, its metadata, and checks that pass and that fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from small_jobs import TOLLS, load, tolls

from assets.definitions import build
from pipelines.ingest.batch import ingest
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import record, runs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # Great Expectations warns about what others have deprecated
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

ARRIVALS = dg.AssetKey(["tolls", "arrivals"])
WINDOWS = dg.AssetKey(["tolls", "windows"])
VERDICTS = dg.AssetKey(["tolls", "verdicts"])
RECONCILIATION = dg.AssetKey(["tolls", "reconciliation"])
REPORT = dg.AssetKey(["tolls", "report"])
ALL = dg.AssetSelection.assets(ARRIVALS, WINDOWS, VERDICTS)
TABLES = ("verdicts/tolls", "windows/tolls")
"""In the order in which a replay writes them."""


class World:
    """One lakehouse with its definitions and its Dagster instance."""

    def __init__(self, folder: Path, root: str, instance: dg.DagsterInstance) -> None:
        self.root = root
        self.instance = instance
        jobs = folder / "jobs"
        jobs.mkdir(exist_ok=True)
        (jobs / "tolls.yaml").write_text(TOLLS, encoding="utf-8")
        self.defs = build(jobs, root)

    def copy(self, folder: Path, instance: dg.DagsterInstance) -> World:
        """The same tables in another folder."""
        shutil.copytree(self.root, folder / "copied")
        return World(folder, str(folder / "copied"), instance)

    def materialize(self, first: str, last: str, selection: Any = None) -> dg.ExecuteInProcessResult:
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        return self.run(selection or ALL, tags)

    def check(self, key: dg.AssetKey, name: str) -> dg.AssetCheckEvaluation:
        """A check of ``key`` executed on its own, as from the UI."""
        result = self.run(dg.AssetSelection.checks(dg.AssetCheckKey(key, name)), {})
        [evaluation] = result.get_asset_check_evaluations()
        return evaluation

    def run(self, selection: Any, tags: dict[str, str], *, raise_on_error: bool = True) -> dg.ExecuteInProcessResult:
        assets = [*(self.defs.assets or []), *(self.defs.asset_checks or [])]
        return dg.materialize(
            assets,  # type: ignore[arg-type]
            selection=selection,
            resources=self.defs.resources,
            instance=self.instance,
            tags=tags,
            raise_on_error=raise_on_error,
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        return DeltaTable(f"{self.root}/{table}").to_pyarrow_table().to_pylist()


@pytest.fixture(scope="module")
def replayed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Any]]:
    """Seven days of the nine, the second to the eighth of March, materialised in one run."""
    folder = tmp_path_factory.mktemp("replayed")
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(folder, load(folder), instance)
        yield world, world.materialize("2026-03-02", "2026-03-08")


@pytest.fixture(scope="module")
def written_over(replayed: tuple[World, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same, with the fifth of March replayed once more, alone."""
    with dg.DagsterInstance.ephemeral() as instance:
        world = replayed[0].copy(tmp_path_factory.mktemp("written_over"), instance)
        assert world.materialize("2026-03-05", "2026-03-05", dg.AssetSelection.assets(WINDOWS, VERDICTS)).success
        yield world


@pytest.fixture
def copy(replayed: tuple[World, Any], tmp_path: Path) -> Iterator[World]:
    """The replayed lakehouse once more, to be spoiled."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield replayed[0].copy(tmp_path, instance)


@pytest.fixture
def copy_written_over(written_over: World, tmp_path: Path) -> Iterator[World]:
    """The lakehouse written over in part once more, to be spoiled."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield written_over.copy(tmp_path, instance)


def metadata(result: dg.ExecuteInProcessResult, key: dg.AssetKey, day: str) -> dict[str, Any]:
    [found] = [
        event.materialization
        for event in result.get_asset_materialization_events()
        if event.asset_key == key and event.partition == day
    ]
    return {name: value.value for name, value in found.metadata.items()}


# -- one range, one run -------------------------------------------------------------------------------------------


def test_seven_days_are_one_replay_that_reads_a_little_more(replayed: tuple[World, Any]) -> None:
    world, result = replayed
    assert result.success
    [run] = runs_of(Lakehouse.at(world.root), "tolls")
    assert (run["status"], run["reason"]) == ("succeeded", f"Dagster run {result.run_id}")
    assert run["output_from"] == datetime(2026, 3, 2, tzinfo=UTC)
    assert run["output_to"] == datetime(2026, 3, 9, tzinfo=UTC)
    assert run["read_from"] == datetime(2026, 3, 1, 22, 55, tzinfo=UTC)
    assert run["read_to"] == datetime(2026, 3, 9, 0, 5, tzinfo=UTC)


def test_each_of_the_seven_days_is_materialised_in_every_asset(replayed: tuple[World, Any]) -> None:
    _, result = replayed
    days = [f"2026-03-{day:02d}" for day in range(2, 9)]
    for key in (ARRIVALS, WINDOWS, VERDICTS):
        assert sorted(e.partition for e in result.get_asset_materialization_events() if e.asset_key == key) == days


def test_all_checks_pass_in_the_run(replayed: tuple[World, Any]) -> None:
    _, result = replayed
    found = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
    assert {name: evaluation.passed for name, evaluation in found.items()} == {
        "arrival_contract": True,
        "arrival_order": True,
        "conservation": True,
        "reproducible": True,
        "window_contract": True,
    }
    # seven days of two partitions and three events, of which one is late
    assert found["arrival_order"].metadata["rows"].value == 42
    assert found["conservation"].metadata["events"].value == 42
    assert found["conservation"].metadata["verdict_rows"].value == 14


def test_the_metadata_of_a_day_of_arrivals_describe_the_log(replayed: tuple[World, Any]) -> None:
    _, result = replayed
    found = metadata(result, ARRIVALS, "2026-03-04")
    assert found["dagster/partition_row_count"] == 6
    assert found["events"] == 6
    assert found["first_arrival"] == "2026-03-04T00:02:00Z"
    assert found["last_arrival"] == "2026-03-04T23:59:59Z"
    assert (found["cars_partitions"], found["cars_batches"], found["batches"]) == ("0, 1", "first", 1)
    assert found["cars_end_of_log"] == "2026-03-09T23:59:59Z"


def test_the_metadata_of_a_day_of_results_are_its_read_range_counts_and_fingerprint(
    replayed: tuple[World, Any],
) -> None:
    _, result = replayed
    for key, rows in ((WINDOWS, 6), (VERDICTS, 2)):
        found = metadata(result, key, "2026-03-04")
        # three windows for each booth: that of the day before which ends at midnight, and 00:00-01:00, 12:00-13:00
        assert found["dagster/partition_row_count"] == rows
        assert found["windows"] == 6
        assert (found["read_from"], found["read_to"]) == ("2026-03-03T22:55:00Z", "2026-03-05T00:05:00Z")
        assert (found["events"], found["events_accepted"], found["events_adjusted"]) == (6, 4, 2)
        assert found["events_late"] == 2
        assert found["settled"] is True
        assert len(found["output_fingerprint"]) == 64


def test_the_data_version_is_the_output_fingerprint_and_the_code_version_the_job(replayed: tuple[World, Any]) -> None:
    world, result = replayed
    [run] = runs_of(Lakehouse.at(world.root), "tolls")
    [first, *_] = [e for e in result.get_asset_materialization_events() if e.asset_key == WINDOWS]
    tags = first.materialization.tags or {}
    assert tags["dagster/data_version"] == run["output_fingerprint"]
    assert tags["dagster/code_version"] == tolls().fingerprint


def test_the_plan_is_in_the_log_before_the_first_write(replayed: tuple[World, Any]) -> None:
    world, result = replayed
    lines = [entry.user_message for entry in world.instance.all_logs(result.run_id)]
    plan = lines.index("plan: replay tolls over [2026-03-02T00:00:00Z, 2026-03-09T00:00:00Z)")
    assert "plan: settled: no later arrival changes the result" in lines
    written = [next(at for at, line in enumerate(lines) if line.startswith(f"replace {name}")) for name in TABLES]
    assert [plan, *written] == sorted([plan, *written])


def test_a_day_replayed_alone_gives_the_fingerprint_that_the_range_gave_for_it(
    replayed: tuple[World, Any], written_over: World
) -> None:
    reported = metadata(replayed[1], WINDOWS, "2026-03-05")["output_fingerprint"]
    found = runs_of(Lakehouse.at(written_over.root), "tolls")
    assert [run["output_from"].day for run in found] == [2, 5]
    assert found[-1]["output_fingerprint"] == reported


# -- checks that fail ---------------------------------------------------------------------------------------------


def change(world: World, table: str, edit: Callable[[list[dict[str, Any]]], None], partition: str) -> None:
    """Write straight into a table, past everything that guards it."""
    uri = f"{world.root}/{table}"
    stored = DeltaTable(uri).to_pyarrow_table()
    rows = stored.to_pylist()
    edit(rows)
    write_deltalake(uri, pa.Table.from_pylist(rows, schema=stored.schema), mode="overwrite", partition_by=[partition])


def exchange(rows: list[dict[str, Any]], column: str, one: int, other: int) -> None:
    """Swap a column's values between two sequences of input partition 1."""
    [first] = [row for row in rows if (row["input_partition"], row["sequence"]) == (1, one)]
    [second] = [row for row in rows if (row["input_partition"], row["sequence"]) == (1, other)]
    first[column], second[column] = second[column], first[column]


def test_arrival_order_fails_on_two_arrivals_that_were_swapped_and_names_them(copy: World) -> None:
    change(copy, "arrivals/cars", lambda rows: exchange(rows, "arrival_time", 9, 10), "arrival_date")
    result = copy.materialize("2026-03-04", "2026-03-04", dg.AssetSelection.assets(ARRIVALS))
    [evaluation] = [one for one in result.get_asset_check_evaluations() if one.check_name == "arrival_order"]
    assert not evaluation.passed
    assert evaluation.metadata["failed_rows"].value == 1
    [row] = evaluation.metadata["sample"].records
    assert (row.data["input"], row.data["input_partition"], row.data["sequence"]) == ("cars", 1, 10)
    assert row.data["problem"] == "arrival_time falls: sequence 9 before it arrived at 2026-03-04T12:30:00Z"


def test_arrival_order_fails_on_sequences_swapped_between_two_days(copy: World) -> None:
    # 8 is the last of the third of March, 9 the first of the fourth
    change(copy, "arrivals/cars", lambda rows: exchange(rows, "sequence", 8, 9), "arrival_date")
    evaluation = copy.check(ARRIVALS, "arrival_order")
    assert not evaluation.passed
    assert [row.data["sequence"] for row in evaluation.metadata["sample"].records] == [8]
    assert "an earlier day has sequence 9" in (evaluation.description or "")


def test_arrival_order_fails_on_a_sequence_that_occurs_twice(copy: World) -> None:
    def repeat(rows: list[dict[str, Any]]) -> None:
        rows.append(dict(next(row for row in rows if (row["input_partition"], row["sequence"]) == (0, 4))))

    change(copy, "arrivals/cars", repeat, "arrival_date")
    evaluation = copy.check(ARRIVALS, "arrival_order")
    assert not evaluation.passed
    assert "cars/0/4: sequence 4 occurs twice" in (evaluation.description or "")


def problems(evaluation: dg.AssetCheckEvaluation) -> str:
    assert not evaluation.passed
    return "\n".join(str(row.data["problem"]) for row in evaluation.metadata["sample"].records)  # type: ignore[union-attr]


def test_conservation_fails_when_a_verdict_is_gone(copy: World) -> None:
    change(copy, "verdicts/tolls", lambda rows: rows.pop(), "arrival_date")
    assert "wrote 14 rows of verdicts/tolls" in problems(copy.check(VERDICTS, "conservation"))


def test_conservation_sees_a_verdict_gone_from_a_run_that_was_written_over_in_part(
    written_over: World, copy_written_over: World
) -> None:
    assert written_over.check(VERDICTS, "conservation").passed

    def lose(rows: list[dict[str, Any]]) -> None:
        rows.remove(next(row for row in rows if row["arrival_date"].isoformat() == "2026-03-03"))

    change(copy_written_over, "verdicts/tolls", lose, "arrival_date")
    reported = problems(copy_written_over.check(VERDICTS, "conservation"))
    assert (
        "wrote 6 rows of verdicts/tolls for [2026-03-02T00:00:00Z, 2026-03-05T00:00:00Z); there are 5 now" in reported
    )


def test_conservation_fails_when_a_verdict_occurs_twice(copy: World) -> None:
    change(copy, "verdicts/tolls", lambda rows: rows.append(dict(rows[0])), "arrival_date")
    assert "has 2 verdicts" in problems(copy.check(VERDICTS, "conservation"))


def test_conservation_fails_when_a_verdict_is_no_events(copy: World) -> None:
    def invent(rows: list[dict[str, Any]]) -> None:
        rows[0]["sequence"] = 1000

    change(copy, "verdicts/tolls", invent, "arrival_date")
    assert "1000 has a verdict, but the log has no such event" in problems(copy.check(VERDICTS, "conservation"))


def test_conservation_fails_when_events_came_after_the_replay(copy: World, tmp_path: Path) -> None:
    late = {"arrival_time": "2026-03-04T10:00:00Z", "input_partition": 7, "sequence": 0, "at": "2026-03-04T10:00:00Z"}
    (tmp_path / "more.jsonl").write_text(json.dumps(late) + "\n", encoding="utf-8")
    ingest(tolls(), "cars", [tmp_path / "more.jsonl"], copy.root, "second")
    reported = problems(copy.check(VERDICTS, "conservation"))
    assert "gave 42 verdicts" in reported
    assert "the log has 43 events there" in reported


def test_the_arrival_contract_fails_on_a_kind_that_is_none_and_names_the_row(copy: World) -> None:
    change(copy, "arrivals/cars", lambda rows: rows[0].update(kind="rumour"), "arrival_date")
    evaluation = copy.check(ARRIVALS, "arrival_contract")
    assert not evaluation.passed
    assert evaluation.metadata["failed_rows"].value == 1
    [row] = evaluation.metadata["sample"].records
    assert row.data["problem"] == "kind breaks 'is event or punctuation'"


def test_the_window_contract_and_the_fingerprint_give_away_a_count_that_was_changed(copy: World) -> None:
    change(copy, "windows/tolls", lambda rows: rows[0].update(cars=0), "output_date")
    contract = copy.check(WINDOWS, "window_contract")
    assert not contract.passed
    assert [row.data["problem"] for row in contract.metadata["sample"].records] == ["cars is below 1"]
    again = copy.check(WINDOWS, "reproducible")
    assert not again.passed
    assert "something else has changed the table" in (again.description or "")


def test_a_replay_of_arrivals_that_were_changed_under_it_is_not_reproducible(copy: World) -> None:
    [run] = runs_of(Lakehouse.at(copy.root), "tolls")
    change(copy, "arrivals/cars", lambda rows: rows[0].update(booth="elsewhere"), "arrival_date")
    assert copy.check(WINDOWS, "reproducible").passed, "the version it read is as it was"
    # the first of the log lies outside what was replayed, so the newest version gives the same; a car inside does not
    change(copy, "arrivals/cars", lambda rows: [row.update(booth="elsewhere") for row in rows], "arrival_date")
    record(Lakehouse.at(copy.root), {**run, "versions_read": {"arrivals/cars": 2}})
    evaluation = copy.check(WINDOWS, "reproducible")
    assert not evaluation.passed
    assert f"gave {run['output_fingerprint']}, and now gives" in (evaluation.description or "")


# -- compared with the live run --------------------------------------------------------------------------------------


def live_run(world: World, **changed: Any) -> None:
    """The live run's table: the replay's own rows, the first of the fourth of March changed."""
    stored = DeltaTable(f"{world.root}/windows/tolls").to_pyarrow_table()
    rows = sorted(stored.to_pylist(), key=lambda row: (row["window_end"], row["booth"]))
    next(row for row in rows if row["output_date"].isoformat() == "2026-03-04").update(changed)
    schema = stored.schema.append(pa.field("emitted_at", pa.timestamp("us", "UTC")))
    rows = [{**row, "emitted_at": row["window_end"]} for row in rows]
    uri = f"{world.root}/stream_windows/tolls"
    write_deltalake(uri, pa.Table.from_pylist(rows, schema=schema), partition_by=["output_date"], mode="overwrite")


def compare(world: World, first: str, last: str) -> tuple[dg.ExecuteInProcessResult, dg.AssetCheckEvaluation]:
    """Reconciliation and report of these days in one run."""
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    result = world.run(dg.AssetSelection.assets(RECONCILIATION, REPORT), tags, raise_on_error=False)
    [evaluation] = result.get_asset_check_evaluations()
    return result, evaluation


def made(result: dg.ExecuteInProcessResult) -> set[tuple[str, str]]:
    return {(event.asset_key.path[-1], event.partition) for event in result.get_asset_materialization_events()}  # type: ignore[union-attr, misc]


def test_where_replay_and_live_run_agree_the_report_is_made_and_they_can_be_compared_again(copy: World) -> None:
    live_run(copy)
    result, evaluation = compare(copy, "2026-03-03", "2026-03-04")
    assert result.success
    assert evaluation.passed
    days = ("2026-03-03", "2026-03-04")
    assert made(result) == {(name, day) for name in ("reconciliation", "report") for day in days}
    assert metadata(result, RECONCILIATION, "2026-03-04")["run_equal"] == 12
    page = Path(metadata(result, REPORT, "2026-03-04")["report"])
    assert page == Path(copy.root, "reports/tolls/2026-03-03_2026-03-05.html")
    assert "tolls" in page.read_text(encoding="utf-8")
    assert compare(copy, "2026-03-03", "2026-03-04")[0].success
    assert DeltaTable(f"{copy.root}/reconciliations/tolls").version() == 1


def test_each_report_of_a_range_is_kept_with_the_newest_and_is_a_link_where_reports_are_served(
    copy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = metadata(compare(copy, "2026-03-03", "2026-03-04")[0], REPORT, "2026-03-04")["kept"]
    monkeypatch.setenv("TAILRACE_REPORTS_URL", "https://reports.example/all/")
    found = metadata(compare(copy, "2026-03-03", "2026-03-04")[0], REPORT, "2026-03-03")
    folder = Path(copy.root, "reports/tolls/2026-03-03_2026-03-05")
    kept = sorted(folder.iterdir())
    assert kept[0] == Path(first)
    assert found["kept"] == f"https://reports.example/all/tolls/2026-03-03_2026-03-05/{kept[1].name}"
    assert kept[1].name.startswith("20")
    assert found["report"] == "https://reports.example/all/tolls/2026-03-03_2026-03-05.html"
    assert found["file"] == f"{copy.root}/reports/tolls/2026-03-03_2026-03-05.html"
    assert kept[1].read_bytes() == folder.with_suffix(".html").read_bytes()
    assert len(kept) == 2


def test_a_difference_from_the_live_run_blocks_the_report_and_is_named(copy: World) -> None:
    live_run(copy, cars=41)
    result, evaluation = compare(copy, "2026-03-03", "2026-03-04")
    assert not result.success
    assert (evaluation.check_name, evaluation.passed, evaluation.blocking) == ("matches_stream", False, True)
    assert evaluation.metadata["failed_rows"].value == 1
    assert {name for name, _ in made(result)} == {"reconciliation"}
    assert metadata(result, RECONCILIATION, "2026-03-03")["differing"] == 0
    found = metadata(result, RECONCILIATION, "2026-03-04")
    assert (found["differing"], found["run_by_status"]) == (1, "different 1")
    assert not Path(copy.root, "reports").exists()


def test_without_a_live_run_nothing_is_compared_and_the_report_is_made(copy: World) -> None:
    result, evaluation = compare(copy, "2026-03-04", "2026-03-04")
    assert result.success
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert evaluation.description == "stream_windows/tolls was never written: nothing was compared"
    assert metadata(result, RECONCILIATION, "2026-03-04")["compared"] is False
    assert made(result) == {("reconciliation", "2026-03-04"), ("report", "2026-03-04")}


# -- apart from partitions ----------------------------------------------------------------------------------------


def test_the_replay_job_replays_part_of_a_day_and_gives_the_reason(copy: World) -> None:
    job = copy.defs.resolve_job_def("tolls_replay")
    config = {
        "from": "2026-03-03T00:00:00Z",
        "to": "2026-03-04T12:00:00Z",
        "reason": "the clock of booth 1 was corrected",
    }
    result = job.execute_in_process(
        run_config={"ops": {"replay_tolls": {"config": config}}}, resources=copy.defs.resources, instance=copy.instance
    )
    assert result.success
    last = runs_of(Lakehouse.at(copy.root), "tolls")[-1]
    assert (last["reason"], last["output_to"]) == (config["reason"], datetime(2026, 3, 4, 12, tzinfo=UTC))
    events = [event for event in result.all_events if event.event_type_value.startswith("ASSET_")]
    found = {(event.event_type_value, event.asset_key.path[-1], event.partition) for event in events if event.asset_key}
    assert found == {
        ("ASSET_MATERIALIZATION", "windows", "2026-03-03"),
        ("ASSET_MATERIALIZATION", "verdicts", "2026-03-03"),
        ("ASSET_OBSERVATION", "windows", "2026-03-04"),
        ("ASSET_OBSERVATION", "verdicts", "2026-03-04"),
    }


def test_the_replay_job_asks_for_a_reason(copy: World) -> None:
    job = copy.defs.resolve_job_def("tolls_replay")
    config = {"from": "2026-03-03T00:00:00Z", "to": "2026-03-04T12:00:00Z", "reason": " "}
    with pytest.raises(dg.Failure, match=r"there is no reason.*kept in the run ledger"):
        job.execute_in_process(
            run_config={"ops": {"replay_tolls": {"config": config}}},
            resources=copy.defs.resources,
            instance=copy.instance,
        )
    assert len(runs_of(Lakehouse.at(copy.root), "tolls")) == 1


def test_a_replay_without_a_log_fails_with_the_sentence_that_says_what_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(tmp_path, str(tmp_path / "empty"), instance)
        with pytest.raises(dg.Failure, match=r"the input cars has no arrival log yet.*tailrace ingest"):
            world.materialize("2026-03-02", "2026-03-02")
