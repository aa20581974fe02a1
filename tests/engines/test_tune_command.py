"""``tailrace tune`` on real Delta tables: its figures are those of replays under each setting."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from test_replay import JOB, T, _ingest, _records

from pipelines.cli.main import run
from pipelines.core.model import Job, OutputRange
from pipelines.replay.run import replay
from pipelines.tune.run import tune
from pipelines.tune.settings import settings_of
from pipelines.tune.truth import truth_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

RANGE = OutputRange(T("2026-01-01T06:00:00Z"), T("2026-01-02T00:00:00Z"))
LISTS = {"--late": "5m,20m,unbounded", "--out-of-order": "0s,15m"}
JOB_TEXT = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}
ordering: {late_arrival: 20m, out_of_order: 1m, action: adjust}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 1h}}, aggregates: {cars: "count(*)"}}
"""


@pytest.fixture(scope="module")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune") / "lakehouse"
    _ingest(folder, _records(30))
    return folder


def replayed(job: Job, lakehouse: Path, spark: SparkSession) -> tuple[Any, dict[Any, Any]]:
    """What a replay of the range finds, and its windows by key."""
    summary = replay(job, RANGE, lakehouse, spark=spark)
    rows = DeltaTable(str(lakehouse / "windows" / job.name)).to_pyarrow_table().to_pylist()
    return summary.found, {(row["window_end"], row["booth"]): (row["cars"], row["mean"]) for row in rows}


def test_figures_of_a_range_are_those_of_replays(lakehouse: Path, spark: SparkSession) -> None:
    _, truth = replayed(dataclasses.replace(truth_of(JOB), name="truth"), lakehouse, spark)
    found = tune(JOB, RANGE, lakehouse, LISTS, spark=spark)
    assert [one.setting for one in found.settings] == list(settings_of(JOB, LISTS))
    for number, one in enumerate(found.settings):
        run_of, windows = replayed(dataclasses.replace(one.setting.job, name=f"try{number}"), lakehouse, spark)
        assert one.decisions.counts_by_verdict == run_of.counts_by_verdict
        assert one.decisions.counts_by_reason == run_of.counts_by_reason
        keys = {*windows, *truth}
        differ = [key for key in keys if windows.get(key) != truth.get(key)]
        assert (one.differences.windows, one.differences.differ) == (len(keys), len(differ))
        cars = dict(one.differences.values)["cars"]
        amounts = [abs(windows.get(key, (0,))[0] - truth.get(key, (0,))[0]) for key in keys]
        assert (cars.sum, cars.max) == (sum(amounts), max(amounts))
    assert len({one.differences.differ for one in found.settings}) > 2


def test_the_command_prints_all_settings_and_writes_the_page(
    lakehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    file = tmp_path / "cars.yaml"
    file.write_text(JOB_TEXT)
    command = ["tune", str(file), "--late", "5m,20m", "--from", "2026-01-01", "--lakehouse", str(lakehouse)]
    assert run([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["late_arrival"], one["own"], one["wait_us"]) for one in told["settings"]] == [
        ("5m", False, 360_000_000),
        ("20m", True, 1_260_000_000),
    ]
    assert Counter(told["settings"][1]["counts_by_verdict"]).total() == told["settings"][1]["events"] == 120
    page = Path(told["report"]).read_text()
    assert page.count("<svg") == 2
    assert told["sentence"] in page
    assert run(command) == 0
    assert told["sentence"] in capsys.readouterr().out


def test_a_flag_of_another_profile_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cars.yaml"
    file.write_text(JOB_TEXT)
    assert run(["tune", str(file), "--delay", "5s", "--lakehouse", str(tmp_path)]) == 2
    assert "--delay: profile stream_analytics has no such setting" in capsys.readouterr().err
