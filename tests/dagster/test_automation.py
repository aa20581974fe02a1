"""Schedule and sensor ticks against a real instance, over a lakehouse whose ledger the test writes. No Spark."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.observe import observe
from deltalake import DeltaTable, write_deltalake
from small_jobs import DAYS, DOCKS, TOLLS, load, tolls

from assets.definitions import build
from pipelines.core.errors import UsageError
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse

WINDOWS = dg.AssetKey(["tolls", "windows"])


class World:
    """A job folder, a lakehouse with nine days of arrivals, and a Dagster instance in memory."""

    def __init__(self, folder: Path, jobs: Path, instance: dg.DagsterInstance) -> None:
        self.folder, self.jobs, self.instance = folder, jobs, instance
        self.root = load(folder)
        self.lakehouse = Lakehouse.at(self.root)
        self.defs = build(jobs, self.root)
        self._replays = 0

    def replayed(self, first: str | None, end: str | None, *, status: str = runs.SUCCEEDED, **row: Any) -> str:
        """A row of the ledger, as a replay of ``[first, end)`` leaves it; its id."""
        self._replays += 1
        log = DeltaTable(f"{self.root}/arrivals/cars")
        run_id = f"run{self._replays}"
        entry = {
            "run_id": run_id,
            "job": "tolls",
            "kind": "replay",
            "status": status,
            "job_fingerprint": tolls().fingerprint,
            "output_from": instant(first),
            "output_to": instant(end),
            "versions_read": {"arrivals/cars": log.version()},
            "started_at": datetime.now(UTC),
            "process": f"{socket.gethostname()}/{os.getpid()}",
        }
        runs.record(self.lakehouse, {**entry, "status": runs.RUNNING, **row})
        if status != runs.RUNNING:
            runs.record(self.lakehouse, {**entry, **row})
        return run_id

    def arrive(self, arrival: str, *, partition: int = 7, batch: str = "second") -> None:
        """One more car."""
        line = {"arrival_time": arrival, "input_partition": partition, "sequence": 1000, "at": arrival, "booth": "b"}
        path = self.folder / f"{batch}.jsonl"
        path.write_text(json.dumps(line) + "\n", encoding="utf-8")
        assert ingest(tolls(), "cars", [path], self.root, batch).appended == 1

    def schedule(self) -> dg.RunRequest | dg.SkipReason:
        context = dg.build_schedule_context(
            instance=self.instance, repository_def=self.defs.get_repository_def(), scheduled_execution_time=now()
        )
        data = self.defs.resolve_schedule_def("tolls_daily").evaluate_tick(context)
        if data.run_requests:
            [request] = data.run_requests
            return request
        return dg.SkipReason(data.skip_message)

    def sensor(self, name: str) -> Any:
        context = dg.build_sensor_context(instance=self.instance, repository_def=self.defs.get_repository_def())
        return self.defs.resolve_sensor_def(name).evaluate_tick(context)

    def stale(self) -> list[tuple[str, str]]:
        """First and last day of each run that the sensor asks for."""
        return [
            (tags["dagster/asset_partition_range_start"], tags["dagster/asset_partition_range_end"])
            for tags in (request.tags for request in self.sensor("tolls_stale_days").run_requests)
        ]

    def lost(self) -> list[tuple[str, str]]:
        """The ranges that the sensor asks to replay."""
        configs = [
            request.run_config["ops"]["replay_tolls"]["config"]
            for request in self.sensor("tolls_lost_ranges").run_requests
        ]
        return [(config["from"], config["to"]) for config in configs]

    def start(self, request: dg.RunRequest) -> dg.DagsterRun:
        """The run that the daemon would create for a request of the sensor for lost ranges."""
        job = self.defs.resolve_job_def("tolls_replay")
        return self.instance.create_run_for_job(
            job, run_config=request.run_config, tags={**job.tags, **request.tags}, status=dg.DagsterRunStatus.STARTED
        )


def now() -> datetime:
    return datetime.now(UTC)


def instant(day: str | None) -> datetime | None:
    return None if day is None else datetime.fromisoformat(day).replace(tzinfo=UTC)


@pytest.fixture
def world(tmp_path: Path, jobs: Path) -> Iterator[World]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(tmp_path, jobs, instance)


def skipped(found: dg.RunRequest | dg.SkipReason) -> str:
    assert isinstance(found, dg.SkipReason)
    return found.skip_message or ""


def asked(found: dg.RunRequest | dg.SkipReason) -> dg.RunRequest:
    assert isinstance(found, dg.RunRequest)
    return found


# -- the newest settled day ---------------------------------------------------------------------------------------


def test_the_schedule_replays_the_last_day_whose_tolerance_every_partition_has_passed(world: World) -> None:
    # the log ends at 2026-03-09T23:59:59Z, less than five minutes before the ninth would be settled
    request = asked(world.schedule())
    assert request.partition_key == "2026-03-08"
    assert (
        "the log has all of the slowest partition, cars/0, up to 2026-03-09T23:59:59Z" in request.tags["tailrace/why"]
    )


def test_a_living_partition_that_lags_holds_a_day_back(world: World) -> None:
    world.arrive("2026-03-10T00:10:00Z", partition=0, batch="one")
    # partition 1 last spoke at 23:59:59 and may still bring what counts on the ninth
    assert asked(world.schedule()).partition_key == "2026-03-08"
    world.arrive("2026-03-10T00:10:00Z", partition=1, batch="two")
    assert asked(world.schedule()).partition_key == "2026-03-09"


def test_a_partition_exactly_at_the_tolerance_still_holds_the_day_back(world: World) -> None:
    for partition in (0, 1):
        world.arrive("2026-03-10T00:05:00Z", partition=partition, batch=f"b{partition}")
    assert asked(world.schedule()).partition_key == "2026-03-08"


def test_a_partition_that_was_silent_for_a_day_is_not_waited_for(world: World) -> None:
    world.arrive("2026-03-12T00:10:00Z", partition=0)
    assert asked(world.schedule()).partition_key == "2026-03-11"


def test_the_schedule_skips_a_day_that_was_replayed_from_the_same_arrivals(world: World) -> None:
    world.replayed("2026-03-08", "2026-03-09")
    assert "2026-03-08, the newest settled day, is replayed already" in skipped(world.schedule())


def test_a_day_replayed_in_part_only_is_replayed_by_the_schedule(world: World) -> None:
    world.replayed("2026-03-08T12:00:00", "2026-03-09")
    assert asked(world.schedule()).partition_key == "2026-03-08"


def test_the_schedule_replays_a_day_again_when_the_job_file_changed(world: World) -> None:
    world.replayed("2026-03-08", "2026-03-09")
    (world.jobs / "tolls.yaml").write_text(TOLLS.replace("late_arrival: 5m", "late_arrival: 6m"), encoding="utf-8")
    assert "the job file changed" in asked(world.schedule()).tags["tailrace/why"]


def docks_daily(world: World, text: str) -> dg.ScheduleExecutionData:
    """A tick of an atlas job's schedule; its bikes arrive as they happen, the last one minutes after midnight."""
    (world.jobs / "docks.yaml").write_text(text, encoding="utf-8")
    times = ["2026-03-01T12:00:00Z", "2026-03-02T23:00:00Z", "2026-03-03T00:04:00Z", "2026-03-03T00:05:00Z"]
    lines = [
        json.dumps({"arrival_time": time, "at": time, "input_partition": 0, "sequence": number, "dock": "a"}) + "\n"
        for number, time in enumerate(times)
    ]
    path = world.folder / "bikes.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    assert ingest(parse_job(text), "bikes", [path], world.root).appended == 4
    defs = build(world.jobs, world.root)
    context = dg.build_schedule_context(
        instance=world.instance, repository_def=defs.get_repository_def(), scheduled_execution_time=now()
    )
    return defs.resolve_schedule_def("docks_daily").evaluate_tick(context)


def test_an_atlas_job_that_does_not_say_how_many_partitions_there_are_has_no_settled_day(world: World) -> None:
    skip = docks_daily(world, DOCKS).skip_message or ""
    assert "no day is settled: the watermark would wait for an input partition" in skip


def test_the_schedule_replays_an_atlas_day_that_all_declared_partitions_have_closed(world: World) -> None:
    requests = docks_daily(world, DOCKS.replace("timestamp_by: at}", "timestamp_by: at, partitions: 1}")).run_requests
    assert [request.partition_key for request in requests or []] == ["2026-03-02"]


def test_without_a_log_the_schedule_names_what_is_missing(jobs: Path, tmp_path: Path) -> None:
    schedule = build(jobs, str(tmp_path / "empty")).resolve_schedule_def("tolls_daily")
    with dg.DagsterInstance.ephemeral() as instance:
        data = schedule.evaluate_tick(dg.build_schedule_context(instance=instance, scheduled_execution_time=now()))
    assert "the log of cars is empty" in (data.skip_message or "")


# -- stale days ---------------------------------------------------------------------------------------------------


def test_nothing_is_stale_after_a_replay_and_nothing_is_that_was_never_replayed(world: World) -> None:
    assert world.stale() == []
    world.replayed("2026-03-02", "2026-03-09")
    assert world.stale() == []
    world.arrive("2026-03-10T12:00:00Z")
    assert world.stale() == []


def test_a_tick_reads_neither_ledger_nor_logs_again_until_one_has_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.replayed("2026-03-03", "2026-03-05")
    assert (world.stale(), world.lost()) == ([], [])
    with monkeypatch.context() as unread:
        unread.setattr(Lakehouse, "open", lambda *_: pytest.fail("opened again"))
        assert (world.stale(), world.lost()) == ([], [])
    world.arrive("2026-03-04T12:00:00Z")
    assert world.stale() == [("2026-03-04", "2026-03-04")]
    world.replayed("2026-03-04", "2026-03-05", status=runs.FAILED, error="broken")
    assert world.lost() == [("2026-03-04T00:00:00Z", "2026-03-05T00:00:00Z")]


def test_an_arrival_in_the_middle_of_a_day_makes_that_day_stale_and_no_other(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-09")
    world.arrive("2026-03-04T12:00:00Z")
    [request] = world.sensor("tolls_stale_days").run_requests
    assert world.stale() == [("2026-03-04", "2026-03-04")]
    reported = "arrivals of 2026-03-04T12:00:00Z to 2026-03-04T12:00:00Z added by batch second in version 1"
    assert reported in request.tags["tailrace/why"]
    assert json.loads(world.sensor("tolls_stale_days").cursor)["stale"] == {"2026-03-04": [reported]}


@pytest.mark.parametrize(
    ("arrival", "days"),
    [
        # a day reads the arrivals [from - 65m, to + 5m], both ends included
        ("2026-03-04T22:54:59Z", ("2026-03-04", "2026-03-04")),
        ("2026-03-04T22:55:00Z", ("2026-03-04", "2026-03-05")),
        ("2026-03-05T00:05:00Z", ("2026-03-04", "2026-03-05")),
        ("2026-03-05T00:05:01Z", ("2026-03-05", "2026-03-05")),
        ("2026-03-01T22:54:59Z", None),  # before anything that was replayed
        ("2026-03-09T00:05:00Z", ("2026-03-08", "2026-03-08")),
    ],
)
def test_an_arrival_near_midnight_makes_stale_exactly_the_days_that_read_it(
    world: World, arrival: str, days: tuple[str, str] | None
) -> None:
    world.replayed("2026-03-02", "2026-03-09")
    world.arrive(arrival)
    assert world.stale() == ([] if days is None else [days])


@pytest.mark.parametrize(
    ("settled", "arrival", "is_stale"),
    [
        (False, "2026-03-12T00:00:00Z", True),
        # the log's statistics have milliseconds: next to the last arrival that the replay knew, and after it
        (True, "2026-03-12T00:00:00.000999Z", True),
        (True, "2026-03-12T00:00:00.001Z", False),
        (True, "2026-03-04T12:00:00Z", True),
    ],
)
def test_what_arrives_after_the_log_that_settled_a_day_makes_it_stale_no_more(
    world: World, settled: bool, arrival: str, is_stale: bool
) -> None:
    text = TOLLS.replace("late_arrival: 5m", "late_arrival: unbounded")
    (world.jobs / "tolls.yaml").write_text(text, encoding="utf-8")
    meant = {"job_fingerprint": parse_job(text).fingerprint, "end_of_log": instant("2026-03-12"), "settled": settled}
    world.replayed("2026-03-02", "2026-03-09", **meant)
    world.arrive(arrival)
    assert bool(world.stale()) == is_stale


def test_days_apart_become_runs_of_their_own(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-09")
    world.arrive("2026-03-04T12:00:00Z", partition=7, batch="one")
    world.arrive("2026-03-07T12:00:00Z", partition=8, batch="two")
    assert world.stale() == [("2026-03-04", "2026-03-04"), ("2026-03-07", "2026-03-07")]


def test_a_day_replayed_since_is_fresh_again(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-09")
    world.arrive("2026-03-04T12:00:00Z")
    world.replayed("2026-03-04", "2026-03-05")
    assert world.stale() == []


def test_a_changed_job_file_makes_every_replayed_day_stale(world: World) -> None:
    world.replayed("2026-03-03", "2026-03-06")
    (world.jobs / "tolls.yaml").write_text(TOLLS.replace("size: 1h", "size: 2h"), encoding="utf-8")
    assert world.stale() == [("2026-03-03", "2026-03-05")]


def test_compacting_the_log_makes_nothing_stale(world: World) -> None:
    # the same day in a second file, so that there is something to compact; then it is replayed
    world.arrive("2026-03-04T12:00:00Z")
    world.replayed("2026-03-02", "2026-03-09")
    log = DeltaTable(f"{world.root}/arrivals/cars")
    before = log.version()
    assert log.optimize.compact()["numFilesRemoved"] > 0
    assert log.version() > before
    assert world.stale() == []


def test_rows_taken_out_of_the_log_make_their_day_stale(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-09")
    DeltaTable(f"{world.root}/arrivals/cars").delete("arrival_date = DATE '2026-03-06'")
    # the whole day's file went: it held what the days next to it read, too
    assert world.stale() == [("2026-03-05", "2026-03-07")]


def test_commits_that_were_cleaned_away_are_stood_in_for_by_the_files_written_since(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-09")
    world.arrive("2026-03-04T12:00:00Z")
    log = DeltaTable(f"{world.root}/arrivals/cars")
    log.create_checkpoint()
    Path(world.root, "arrivals/cars/_delta_log", f"{log.version():020d}.json").unlink()
    assert world.stale() == [("2026-03-04", "2026-03-04")]


def test_the_same_staleness_is_requested_under_one_key_until_it_is_repaired(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-09")
    world.arrive("2026-03-04T12:00:00Z", batch="one")
    [first] = world.sensor("tolls_stale_days").run_requests
    [again] = world.sensor("tolls_stale_days").run_requests
    assert again.run_key == first.run_key
    world.replayed("2026-03-04", "2026-03-05")
    world.arrive("2026-03-04T13:00:00Z", partition=8, batch="two")
    [other] = world.sensor("tolls_stale_days").run_requests
    assert other.run_key != first.run_key


def test_a_broken_job_file_starts_nothing_and_is_named(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-09")
    (world.jobs / "tolls.yaml").write_text(TOLLS.replace("late_arrival", "late_arival"), encoding="utf-8")
    for name in ("tolls_stale_days", "tolls_lost_ranges"):
        assert "did you mean 'late_arrival'?" in world.sensor(name).skip_message


# -- lost ranges --------------------------------------------------------------------------------------------------


def dead_process() -> str:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return f"{socket.gethostname()}/{ended.pid}"


def test_the_range_of_a_failed_run_is_replayed_and_the_reason_recorded(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-04", status=runs.FAILED, error="the disk is full")
    [request] = world.sensor("tolls_lost_ranges").run_requests
    config = request.run_config["ops"]["replay_tolls"]["config"]
    assert (config["from"], config["to"]) == ("2026-03-02T00:00:00Z", "2026-03-04T00:00:00Z")
    assert config["reason"] == (
        "run run1 lost [2026-03-02T00:00:00Z, 2026-03-04T00:00:00Z) (failed: the disk is full); attempt 1,"
        " reads [2026-03-01T22:55:00Z, 2026-03-04T00:05:00Z]"
    )
    assert request.tags["tailrace/read"] == "[2026-03-01T22:55:00Z, 2026-03-04T00:05:00Z]"


def test_a_run_whose_process_is_gone_is_recognised(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-04", status=runs.RUNNING, process=dead_process())
    assert world.lost() == [("2026-03-02T00:00:00Z", "2026-03-04T00:00:00Z")]
    assert [run["status"] for run in runs.runs_of(world.lakehouse, "tolls")] == ["abandoned"]


def test_a_run_that_goes_on_is_left_alone(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-04", status=runs.RUNNING)
    assert world.lost() == []


def test_only_what_no_later_run_repaired_is_replayed(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-08", status=runs.FAILED, error="x")
    world.replayed("2026-03-04", "2026-03-05")
    assert world.lost() == [
        ("2026-03-02T00:00:00Z", "2026-03-04T00:00:00Z"),
        ("2026-03-05T00:00:00Z", "2026-03-08T00:00:00Z"),
    ]
    world.replayed(None, None)
    assert world.lost() == []


def test_a_success_before_the_failure_does_not_mend_it(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-08")
    world.replayed("2026-03-03", "2026-03-04", status=runs.FAILED, error="x")
    assert world.lost() == [("2026-03-03T00:00:00Z", "2026-03-04T00:00:00Z")]


def test_what_a_person_interrupted_is_left_alone(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-04", status=runs.FAILED, error="KeyboardInterrupt")
    assert world.lost() == []


def test_a_failure_of_last_month_is_history(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-04", status=runs.FAILED, error="x", started_at=now() - timedelta(days=30))
    assert world.lost() == []


def test_a_range_is_replayed_twice_for_a_cause_and_then_left_to_a_person(world: World) -> None:
    world.replayed("2026-03-02", "2026-03-04", status=runs.FAILED, error="the disk is full")
    for attempt in ("1", "2"):
        [request] = world.sensor("tolls_lost_ranges").run_requests
        assert request.tags["tailrace/attempt"] == attempt
        run = world.start(request)
        assert world.lost() == [], "while it is under way nothing else is asked for"
        world.replayed("2026-03-02", "2026-03-04", status=runs.FAILED, error="the disk is full")
        world.instance.report_run_failed(run)
    reported = world.sensor("tolls_lost_ranges").skip_message
    assert "was replayed 2 times and lost again: the disk is full" in reported
    # another cause has attempts of its own
    world.replayed("2026-03-02", "2026-03-04", status=runs.RUNNING, process=dead_process())
    assert world.lost() == [("2026-03-02T00:00:00Z", "2026-03-04T00:00:00Z")]


def dagster_run(world: World, status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
    """A run of the assets of the second to the fourth of March, which left nothing in the ledger."""
    job = world.defs.resolve_job_def("tolls_days")
    days = {"dagster/asset_partition_range_start": DAYS[1], "dagster/asset_partition_range_end": DAYS[3]}
    return world.instance.create_run_for_job(job, tags={**job.tags, **days, **tags}, status=status)


def test_a_run_that_died_before_it_wrote_to_the_ledger_is_known_from_dagster(world: World) -> None:
    world.instance.report_run_failed(dagster_run(world, dg.DagsterRunStatus.STARTED))
    assert world.lost() == [("2026-03-02T00:00:00Z", "2026-03-05T00:00:00Z")]


def test_a_run_that_dagster_will_retry_is_waited_for(world: World) -> None:
    run = dagster_run(world, dg.DagsterRunStatus.STARTED, **{"dagster/will_retry": "true"})
    world.instance.report_run_failed(run)
    assert world.lost() == []


def test_a_retry_that_never_came_is_not_waited_for_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.history._RETRY_WITHIN_US", 0)
    run = dagster_run(world, dg.DagsterRunStatus.STARTED, **{"dagster/will_retry": "true"})
    world.instance.report_run_failed(run)
    assert world.lost() == [("2026-03-02T00:00:00Z", "2026-03-05T00:00:00Z")]


def test_a_run_that_a_person_cancelled_is_left_alone(world: World) -> None:
    run = dagster_run(world, dg.DagsterRunStatus.STARTED)
    world.replayed("2026-03-02", "2026-03-05", status=runs.FAILED, error="DagsterExecutionInterruptedError")
    world.instance.report_run_canceled(run)
    assert world.lost() == []


def test_a_run_whose_replay_stands_but_whose_check_failed_is_no_loss(world: World) -> None:
    run = dagster_run(world, dg.DagsterRunStatus.STARTED)
    world.replayed("2026-03-02", "2026-03-05")
    world.instance.report_run_failed(run)
    assert world.lost() == []


def test_a_run_of_another_machine_is_dead_when_dagster_says_so(world: World) -> None:
    run = dagster_run(world, dg.DagsterRunStatus.STARTED)
    world.replayed("2026-03-02", "2026-03-05", status=runs.RUNNING, process="elsewhere/1")
    assert world.lost() == []
    world.instance.report_run_failed(run)
    assert world.lost() == [("2026-03-02T00:00:00Z", "2026-03-05T00:00:00Z")]


# -- the live run --------------------------------------------------------------------------------------------------


def observed(world: World) -> dict[str, tuple[int, str]]:
    """Rows and data version of each day that one observation of the live run's windows tells."""
    live = dg.AssetKey(["tolls", "stream_windows"])
    [asset] = [one for one in world.defs.assets or [] if isinstance(one, dg.AssetsDefinition) and live in one.keys]
    result = observe([asset], resources=world.defs.resources, instance=world.instance)
    found = [
        event.asset_observation_data.asset_observation
        for event in result.all_events
        if event.event_type_value == "ASSET_OBSERVATION"
    ]
    return {
        one.partition: (one.metadata["dagster/partition_row_count"].value, one.tags["dagster/data_version"])
        for one in found
    }


def live_windows(world: World, *ends: str, by_day: bool) -> None:
    """Windows of the live run that end at ``ends``."""
    times = [datetime.fromisoformat(end) for end in ends]
    kind = pa.timestamp("us", "UTC")
    rows = pa.table({"window_end": pa.array(times, kind), "output_date": pa.array([one.date() for one in times])})
    layout = {"partition_by": ["output_date"]} if by_day else {}
    write_deltalake(f"{world.root}/stream_windows/tolls", rows, mode="append", **layout)


@pytest.mark.parametrize("by_day", [True, False])
def test_the_live_runs_days_are_observed_with_their_rows(world: World, by_day: bool) -> None:
    assert observed(world) == {}
    live_windows(world, "2026-03-02T00:00:00+00:00", "2026-03-02T23:00:00+00:00", by_day=by_day)
    before = observed(world)
    assert {day: rows for day, (rows, _) in before.items()} == {"2026-03-02": 2}
    live_windows(world, "2026-03-03T01:00:00+00:00", by_day=by_day)
    after = observed(world)
    assert {day: rows for day, (rows, _) in after.items()} == {"2026-03-02": 2, "2026-03-03": 1}
    assert (after["2026-03-02"] == before["2026-03-02"]) is by_day


def test_a_day_that_the_live_run_made_or_changed_counts_as_materialised_once(world: World) -> None:
    live = dg.AssetKey(["tolls", "stream_windows"])

    def made() -> dict[str, int]:
        found = world.instance.fetch_materializations(live, limit=100).records
        return dict(Counter(str(record.partition_key) for record in found))

    live_windows(world, "2026-03-02T01:00:00+00:00", "2026-03-03T01:00:00+00:00", by_day=True)
    for _ in range(2):
        observed(world)
        assert made() == {"2026-03-02": 1, "2026-03-03": 1}
    live_windows(world, "2026-03-03T02:00:00+00:00", by_day=True)
    observed(world)
    assert made() == {"2026-03-02": 1, "2026-03-03": 2}


# -- switched on and off ------------------------------------------------------------------------------------------


def test_schedules_and_sensors_begin_switched_off_unless_the_environment_says_on(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started() -> set[str]:
        defs = build(jobs)
        found = [*(defs.schedules or []), *(defs.sensors or [])]
        return {one.default_status.value for one in found}  # type: ignore[union-attr]

    assert started() == {"STOPPED"}
    monkeypatch.setenv("TAILRACE_AUTOMATION", "on")
    assert started() == {"RUNNING"}
    monkeypatch.setenv("TAILRACE_AUTOMATION", "perhaps")
    with pytest.raises(UsageError, match="'perhaps' is neither on nor off"):
        build(jobs)
