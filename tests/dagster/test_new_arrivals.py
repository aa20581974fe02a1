"""Arrivals that load themselves: the sensor asks, the job ingests, the days count as materialised; all else follows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from capture_files import message, write_capture
from secrets_planted import MARK, files_with, plant
from small_jobs import TOLLS

from assets.definitions import build
from assets.schedules import WAITING_CRON

DAYS = ["2026-03-01", "2026-03-02"]


class World:
    """A job whose cars come from a capture, an empty lakehouse, and a Dagster instance on disk."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.hub, self.root, self.instance = folder / "hub", str(folder / "lakehouse"), instance
        (folder / "jobs").mkdir()
        source = 'timestamp_by: at, partitions: 2, source: {kind: eventhubs_capture, path: "../hub"}'
        (folder / "jobs" / "tolls.yaml").write_text(TOLLS.replace("timestamp_by: at", source), encoding="utf-8")
        self.defs = build(folder / "jobs", self.root)

    def capture(self, partition: int, day: str, *bodies: Any) -> None:
        begin = 100 * DAYS.index(day)
        messages = [message(begin + place, f"{day}T12:{place:02d}:00Z", body) for place, body in enumerate(bodies)]
        write_capture(self.hub, partition, f"{day}T12:30:00", messages)

    def sensor(self) -> Any:
        context = dg.build_sensor_context(instance=self.instance, repository_def=self.defs.get_repository_def())
        return self.defs.resolve_sensor_def("tolls_new_arrivals").evaluate_tick(context)

    def ingest(self) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def("tolls_ingest").execute_in_process(instance=self.instance)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("TAILRACE_START", DAYS[0])
    (tmp_path / "instance").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "instance")) as instance:
        yield World(tmp_path, instance)


def car(at: str) -> dict[str, str]:
    return {"at": at, "booth": "b"}


def test_what_is_new_in_a_source_is_asked_for_and_ingested_once(world: World) -> None:
    assert "there is no folder" in world.sensor().skip_message
    world.capture(0, DAYS[0], car(f"{DAYS[0]}T12:00:00Z"), b"{")
    world.capture(1, DAYS[0], b"{")
    world.capture(1, DAYS[1], car(f"{DAYS[1]}T12:00:00Z"))
    [request] = world.sensor().run_requests
    assert request.tags["tailrace/why"].startswith("the source of cars has ")
    events = world.ingest().get_asset_materialization_events()
    made = {event.partition: event.materialization.metadata for event in events}
    assert sorted(made) == DAYS
    about = made[DAYS[0]]
    assert [about[f"cars_{name}"].value for name in ("appended", "quarantined", "duplicates", "held_at_last")] == [
        *(2, 2, 0, 0)
    ]
    # an input partition that was silent for a day is taken for ended
    assert set(about["cars_lag_seconds"].value) == {"1"}
    assert about["rows_ingested"].value == 1
    assert "the logs have all that the sources have" in world.sensor().skip_message
    world.capture(0, DAYS[1], car(f"{DAYS[1]}T12:00:00Z"))
    [again] = world.sensor().run_requests
    assert again.run_key != request.run_key


def test_a_job_without_a_source_has_neither_and_one_with_it_waits_for_it(world: World, tmp_path: Path) -> None:
    assert world.defs.resolve_schedule_def("tolls_daily").cron_schedule == WAITING_CRON
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tolls.yaml").write_text(TOLLS, encoding="utf-8")
    names = {sensor.name for sensor in build(tmp_path / "other", world.root).sensors or ()}
    assert names == {"tolls_stale_days", "tolls_lost_ranges"}


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.usefixtures("spark")
def test_one_run_goes_from_a_source_and_an_empty_lakehouse_to_a_report_and_writes_no_secret(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch)
    world.capture(0, DAYS[0], car(f"{DAYS[0]}T12:00:00Z"), car(f"{DAYS[0]}T12:01:00Z"))
    world.capture(1, DAYS[1], car(f"{DAYS[1]}T12:00:00Z"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        result = dg.materialize(
            list(world.defs.assets or ()),  # type: ignore[arg-type]
            selection=dg.AssetSelection.assets("tolls/report").upstream(),
            resources=world.defs.resources,
            instance=world.instance,
            tags={"dagster/asset_partition_range_start": DAYS[0], "dagster/asset_partition_range_end": DAYS[1]},
        )
    assert result.success
    made = {(event.asset_key.path[-1], event.partition): event.materialization.metadata for event in events_of(result)}
    assert made["arrivals", DAYS[0]]["cars_appended"].value == 3
    assert made["arrivals", DAYS[0]]["events"].value == 2
    assert made["windows", DAYS[0]]["windows"].value == 2
    assert Path(world.root, "reports/tolls", f"{DAYS[0]}_2026-03-03.html").is_file()
    assert files_with(tmp_path, MARK) == []
    assert MARK.decode() not in "".join(capfd.readouterr())
    found = {path.relative_to(tmp_path).parts[0] for path in files_with(tmp_path, b"tolls")}
    assert found >= {"instance", "lakehouse"}, "the search finds what is there"


def events_of(result: dg.ExecuteInProcessResult) -> list[dg.DagsterEvent]:
    return list(result.get_asset_materialization_events())
