"""What Dagster sees of a folder of job files, before anything runs. No test here starts Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.instance.ref import InstanceRef
from small_jobs import DOCKS, TOLLS, load, tolls

from assets.definitions import build
from assets.partitions import arrivals_mapping, daily, days_of
from pipelines.core.errors import UsageError
from pipelines.core.model import OutputRange
from pipelines.core.time import DAY, MICROSECOND, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.read_range import read_range

ROOT = Path(__file__).parents[2]
NOWHERE = Lakehouse.at("/nowhere")
TOLLS_ASSETS = [
    "tolls/arrivals",
    "tolls/preview",
    "tolls/promotion",
    "tolls/reconciliation",
    "tolls/report",
    "tolls/stream_windows",
    "tolls/verdicts",
    "tolls/windows",
]


def keys(defs: dg.Definitions) -> list[str]:
    return sorted(key.to_user_string() for key in defs.resolve_all_asset_keys())


def graph(defs: dg.Definitions) -> dg.AssetSpec:
    return defs.get_repository_def().asset_graph


# -- loading ------------------------------------------------------------------------------------------------------


def test_loading_the_definitions_imports_no_spark_and_takes_less_than_three_seconds_of_work() -> None:
    code = (
        "import sys, time\n"
        "from assets.definitions import defs\n"
        "defs.get_repository_def()\n"
        "print([name for name in ('pyspark', 'py4j', 'delta') if name in sys.modules], time.process_time() < 3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::dagster.BetaWarning", "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.split() == ["[]", "True"], done.stderr


def test_the_workspace_file_is_valid_for_dagster(jobs: Path) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dagster")), "definitions", "validate", "-w", "workspace.yaml"],
        cwd=ROOT,
        env={**os.environ, "TAILRACE_JOBS": str(jobs), "DAGSTER_DISABLE_TELEMETRY": "yes"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Validation successful for code location tailrace" in done.stderr + done.stdout


def test_each_job_file_becomes_its_assets(jobs: Path) -> None:
    (jobs / "docks.yml").write_text(DOCKS, encoding="utf-8")
    assert keys(build(jobs)) == [
        "docks/arrivals",
        "docks/preview",
        "docks/promotion",
        "docks/reconciliation",
        "docks/report",
        "docks/stream_windows",
        "docks/verdicts",
        "docks/windows",
        *TOLLS_ASSETS,
    ]


def test_the_assets_of_a_job_form_its_group_and_follow_its_arrivals(jobs: Path) -> None:
    nodes = graph(build(jobs))
    arrivals = dg.AssetKey(["tolls", "arrivals"])
    for name in ("windows", "verdicts"):
        node = nodes.get(dg.AssetKey(["tolls", name]))
        assert node.group_name == "tolls"
        assert node.parent_keys == {arrivals}
        assert node.code_version == tolls().fingerprint
        assert isinstance(node.partitions_def, dg.DailyPartitionsDefinition)
        assert node.backfill_policy == dg.BackfillPolicy.single_run()
    assert nodes.get(arrivals).group_name == "tolls"
    assert nodes.get(arrivals).parent_keys == set()


def test_the_report_follows_the_reconciliation_which_follows_both_sides(jobs: Path) -> None:
    nodes = graph(build(jobs))
    reconciliation = dg.AssetKey(["tolls", "reconciliation"])
    both = {dg.AssetKey(["tolls", name]) for name in ("windows", "stream_windows")}
    assert nodes.get(reconciliation).parent_keys == both
    assert reconciliation in nodes.get(dg.AssetKey(["tolls", "report"])).parent_keys
    assert nodes.get(dg.AssetCheckKey(reconciliation, "matches_stream")).blocking


def test_windows_and_verdicts_are_one_computation(jobs: Path) -> None:
    nodes = graph(build(jobs))
    together = nodes.get(dg.AssetKey(["tolls", "windows"])).execution_set_entity_keys
    assert {dg.AssetKey(["tolls", "windows"]), dg.AssetKey(["tolls", "verdicts"])} <= set(together)


def test_the_checks_and_the_replay_job_of_a_job_are_there(jobs: Path) -> None:
    defs = build(jobs)
    checks = {(key.asset_key.to_user_string(), key.name) for key in graph(defs).asset_check_keys}
    assert checks == {
        ("tolls/arrivals", "arrival_contract"),
        ("tolls/arrivals", "arrival_order"),
        ("tolls/preview", "small_change"),
        ("tolls/reconciliation", "matches_stream"),
        ("tolls/verdicts", "conservation"),
        ("tolls/windows", "reproducible"),
        ("tolls/windows", "window_contract"),
    }
    replay = defs.resolve_job_def("tolls_replay")
    config = replay.nodes[0].definition.config_schema.config_type.fields
    assert {name: field.is_required for name, field in config.items()} == {"from": False, "to": False, "reason": True}


def test_the_live_runs_windows_are_observed_and_never_made(jobs: Path) -> None:
    node = graph(build(jobs)).get(dg.AssetKey(["tolls", "stream_windows"]))
    assert node.is_observable
    assert not node.is_materializable
    assert isinstance(node.partitions_def, dg.DailyPartitionsDefinition)


def test_the_schedule_and_the_sensors_start_the_jobs_of_their_job_file(jobs: Path) -> None:
    defs = build(jobs)
    found = {one.name: one.job_name for one in [*(defs.schedules or []), *(defs.sensors or [])]}  # type: ignore[union-attr]
    assert found == {
        "tolls_daily": "tolls_days",
        "tolls_stale_days": "tolls_days",
        "tolls_lost_ranges": "tolls_replay",
    }


def test_everything_that_needs_spark_waits_in_one_pool(jobs: Path) -> None:
    defs = build(jobs)
    nodes = [graph(defs).get(dg.AssetKey(["tolls", name])) for name in ("arrivals", "windows", "verdicts")]
    assert {pool for node in nodes for pool in node.pools} == {"tailrace_spark"}
    assert defs.resolve_job_def("tolls_replay").nodes[0].definition.pool == "tailrace_spark"


def test_runs_stay_in_one_process(jobs: Path) -> None:
    assert build(jobs).executor is dg.in_process_executor


def test_the_code_version_follows_the_meaning_of_a_job_file_not_its_layout(jobs: Path) -> None:
    def version() -> str | None:
        return graph(build(jobs)).get(dg.AssetKey(["tolls", "windows"])).code_version

    before = version()
    (jobs / "tolls.yaml").write_text("# a comment\n" + TOLLS, encoding="utf-8")
    assert version() == before
    (jobs / "tolls.yaml").write_text(TOLLS.replace("late_arrival: 5m", "late_arrival: 6m"), encoding="utf-8")
    assert version() != before


@pytest.mark.parametrize(("name", "storage"), [("dagster-local.yaml", "Sqlite"), ("dagster.yaml", "Postgres")])
def test_both_instance_files_retry_crashes_alone_share_one_pool_and_send_nothing(
    name: str, storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOST", "USERNAME", "PASSWORD", "DB"):
        monkeypatch.setenv(f"DAGSTER_PG_{variable}", "somewhere")
    monkeypatch.setenv("DAGSTER_PG_PORT", "5432")
    shutil.copy(ROOT / "deploy" / name, tmp_path / "dagster.yaml")
    found = InstanceRef.from_dir(str(tmp_path))
    assert storage in found.run_storage_data.class_name or storage in found.storage_data.class_name
    assert found.settings["run_retries"] == {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False}
    assert found.settings["run_monitoring"]["enabled"]
    assert found.settings["concurrency"]["pools"] == {"default_limit": 1, "granularity": "run"}
    assert (found.settings["telemetry"], found.settings["nux"]) == ({"enabled": False}, {"enabled": False})


# -- files that are no jobs ---------------------------------------------------------------------------------------


def test_a_broken_job_file_is_shown_and_takes_no_other_down(jobs: Path, caplog: pytest.LogCaptureFixture) -> None:
    (jobs / "bad-file.yaml").write_text(TOLLS.replace("late_arrival", "late_arival"), encoding="utf-8")
    defs = build(jobs)
    assert keys(defs) == ["bad_file/job_file", *TOLLS_ASSETS]
    node = graph(defs).get(dg.AssetKey(["bad_file", "job_file"]))
    assert "did you mean 'late_arrival'?" in (node.description or "")
    assert not node.is_executable
    assert "no assets for bad-file.yaml" in caplog.text


def test_the_check_of_a_broken_job_file_fails_until_it_is_corrected(jobs: Path) -> None:
    path = jobs / "bad.yaml"
    path.write_text(TOLLS.replace("profile: stream_analytics", "profile: flink"), encoding="utf-8")
    defs = build(jobs)

    def evaluated() -> tuple[bool, str]:
        checks = [check for check in defs.asset_checks or [] if "valid_job_file" in check.node_def.name]
        [evaluation] = dg.materialize(
            checks, selection=dg.AssetSelection.all_asset_checks()
        ).get_asset_check_evaluations()
        return evaluation.passed, evaluation.description or ""

    passed, reported = evaluated()
    assert not passed
    assert "'flink' is not one of" in reported
    path.write_text(TOLLS.replace("job: tolls", "job: other"), encoding="utf-8")
    assert evaluated()[0]


def test_a_second_file_of_the_same_job_is_an_error_not_a_clash_of_keys(jobs: Path) -> None:
    (jobs / "zzz.yaml").write_text(TOLLS, encoding="utf-8")
    defs = build(jobs)
    assert keys(defs) == [*TOLLS_ASSETS, "zzz/job_file"]
    reported = graph(defs).get(dg.AssetKey(["zzz", "job_file"])).description or ""
    assert "job 'tolls' is already defined in tolls.yaml" in reported


def test_a_folder_that_is_not_there_fails_with_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="TAILRACE_JOBS names no folder"):
        build(tmp_path / "nothing")


# -- days ---------------------------------------------------------------------------------------------------------


def test_days_begin_with_2013_as_long_as_nothing_was_ingested(jobs: Path) -> None:
    partitions = graph(build(jobs)).get(dg.AssetKey(["tolls", "windows"])).partitions_def
    assert partitions is not None
    assert partitions.get_first_partition_key() == "2013-01-01"


def test_days_begin_where_the_first_arrival_may_count(tmp_path: Path) -> None:
    # the first arrival is at 2026-03-01T00:02:00Z and may count up to five minutes earlier
    assert days_of(tolls(), Lakehouse.at(load(tmp_path)))[0] == date(2026, 2, 28)


def test_without_a_late_bound_days_begin_a_week_before_the_first_arrival(tmp_path: Path) -> None:
    job = parse_job(TOLLS.replace("late_arrival: 5m", "late_arrival: unbounded"))
    assert days_of(job, Lakehouse.at(load(tmp_path)))[0] == date(2026, 2, 22)


def test_the_environment_overrides_where_days_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_START", "2020-02-29")
    assert days_of(tolls(), Lakehouse.at(load(tmp_path)))[0] == date(2020, 2, 29)


@pytest.mark.parametrize("variable", ["TAILRACE_START", "TAILRACE_END"])
def test_a_start_or_an_end_that_is_no_day_is_an_error(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "soon")
    with pytest.raises(UsageError, match=f"{variable}: 'soon' is not a day"):
        days_of(tolls(), NOWHERE)


def old_log(folder: Path, last_arrival: str) -> Lakehouse:
    """A log of two cars, the first on New Year's Day of 2013."""
    lines = [
        {"arrival_time": arrival, "input_partition": 0, "sequence": place, "at": arrival, "booth": "b"}
        for place, arrival in enumerate(["2013-01-01T00:05:00Z", last_arrival])
    ]
    (folder / "old.jsonl").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    root = str(folder / "old")
    ingest(tolls(), "cars", [folder / "old.jsonl"], root, "first")
    return Lakehouse.at(root)


@pytest.mark.parametrize(
    ("last", "end"),
    [
        # the last arrival may count five minutes later, in an hour that ends up to an hour after that
        ("2013-12-31T22:54:00Z", "2014-01-01"),
        ("2013-12-31T22:56:00Z", "2014-01-02"),
    ],
)
def test_the_days_of_history_end_with_its_last_result(
    tmp_path: Path, last: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TAILRACE_END")
    assert days_of(tolls(), old_log(tmp_path, last)) == (date(2013, 1, 1), date.fromisoformat(end))
    keys = daily(tolls(), old_log(tmp_path, last)).get_partition_keys()
    assert keys[-1] == (date.fromisoformat(end) - timedelta(days=1)).isoformat()


def test_days_go_on_with_the_clock_while_a_log_was_added_to_within_a_year(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TAILRACE_END")
    lately = datetime.now(UTC) - timedelta(days=365)
    assert days_of(tolls(), old_log(tmp_path, lately.strftime("%Y-%m-%dT%H:%M:%SZ")))[1] is None
    assert days_of(tolls(), NOWHERE) == (date(2013, 1, 1), None)


@pytest.mark.parametrize(
    ("late", "size", "first", "last"),
    [
        ("0s", "1h", "2026-03-03", "2026-03-05"),
        ("5m", "1h", "2026-03-03", "2026-03-05"),
        ("5m", "1435m", "2026-03-03", "2026-03-05"),  # before is exactly a day
        ("5m", "1436m", "2026-03-02", "2026-03-05"),  # a minute more
        ("1439m", "1h", "2026-03-02", "2026-03-05"),
        ("1d", "1h", "2026-03-02", "2026-03-06"),  # after reaches the first instant of the day after the next
        ("20d", "1h", "2026-02-11", "2026-03-25"),
    ],
)
def test_an_output_day_depends_on_the_days_of_arrivals_that_its_read_range_touches(
    late: str, size: str, first: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_START", "2026-01-01")
    job = parse_job(TOLLS.replace("late_arrival: 5m", f"late_arrival: {late}").replace("size: 1h", f"size: {size}"))
    found = upstream_days(daily(job, NOWHERE), arrivals_mapping(job), "2026-03-04")
    assert (found[0], found[-1]) == (first, last)
    begin_us = parse_instant("2026-03-04")
    read = read_range(job, OutputRange(begin_us, begin_us + DAY))
    assert read.from_us is not None
    assert read.to_us is not None
    assert parse_instant(found[0]) <= read.from_us < parse_instant(found[0]) + DAY
    assert parse_instant(found[-1]) <= read.to_us < parse_instant(found[-1]) + DAY
    assert parse_instant(found[-1]) + DAY - MICROSECOND >= read.to_us


@pytest.mark.parametrize("text", [DOCKS, TOLLS.replace("early_arrival: 5m", "early_arrival: off")])
def test_an_output_day_depends_on_all_arrivals_where_the_read_range_is_open(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_START", "2026-03-01")
    job = parse_job(text)
    partitions = daily(job, NOWHERE)
    assert upstream_days(partitions, arrivals_mapping(job), "2026-03-04") == partitions.get_partition_keys()


def test_the_first_and_the_newest_day_need_no_days_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_START", "2026-03-01")
    partitions = daily(tolls(), NOWHERE)
    newest = partitions.get_partition_keys()[-1]
    for day in ("2026-03-01", newest):
        result = mapped(partitions, arrivals_mapping(tolls()), day)
        assert result.required_but_nonexistent_subset.is_empty
        assert day in result.partitions_subset


def mapped(partitions: dg.PartitionsDefinition, mapping: dg.PartitionMapping, day: str):  # type: ignore[no-untyped-def]
    return mapping.get_upstream_mapped_partitions_result_for_partitions(
        partitions.subset_with_partition_keys([day]), partitions, partitions
    )


def upstream_days(partitions: dg.PartitionsDefinition, mapping: dg.PartitionMapping, day: str) -> list[str]:
    return sorted(mapped(partitions, mapping, day).partitions_subset.get_partition_keys())
