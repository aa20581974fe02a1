"""A preview: what a replay would change, in side tables; promoted, it is that replay."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import CommitProperties, write_deltalake
from reconcile_rows import ingested

from pipelines.cli.main import run as tailrace
from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.intervals import parse_range
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import HOUR
from pipelines.job.load import parse_job
from pipelines.lakehouse import previews, runs
from pipelines.lakehouse.previews import find_preview, previews_of
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.reconcile.differences import Differences, differences
from pipelines.reconcile.stored import stored, stored_now
from pipelines.replay import promote as promoting
from pipelines.replay.promote import promote
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

TEXT = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}
ordering: {late_arrival: 5m, out_of_order: 0s, action: adjust}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 10m}}, aggregates: {cars: "count(*)", n: "sum(n)"}}
keep_verdicts: all
"""
JOB = parse_job(TEXT)
DROPS = parse_job(TEXT.replace("action: adjust", "action: drop"))
COUNTS_ALL = parse_job(TEXT.replace('"sum(n)"', '"sum(n + 1)"'))
NOON = parse_range("2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z")
CARS = [
    # the car at 12:31 comes 9 minutes late
    {"arrival_time": f"2026-01-01T12:{minute:02d}:30Z", "at": f"2026-01-01T12:{at:02d}:00Z", "booth": "a", "n": minute}
    for minute, at in [(1, 1), (12, 12), (13, 13), (25, 25), (40, 31), (41, 41), (59, 59)]
]
LATER = [
    {"arrival_time": "2026-01-01T12:59:40Z", "at": "2026-01-01T12:59:10Z", "booth": "b", "n": 5, "sequence": 100},
    {"arrival_time": "2026-01-01T13:30:00Z", "at": "2026-01-01T13:30:00Z", "booth": "a", "n": 1, "sequence": 101},
]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A log that is replayed."""
    place = ingested(JOB, tmp_path_factory.mktemp("replayed") / "lakehouse", {"cars": CARS})
    replay(JOB, EVERYTHING, place, spark=spark)
    return place


@pytest.fixture(scope="module")
def replayed_and_previewed(replayed: Path, spark: SparkSession) -> Path:
    """The same with a preview ``night`` of the job that drops."""
    place = Path(shutil.copytree(replayed, replayed.parent / "previewed"))
    replay(DROPS, EVERYTHING, place, spark=spark, preview="night")
    return place


@pytest.fixture
def lakehouse(replayed: Path, tmp_path: Path) -> Lakehouse:
    """A copy of the replayed lakehouse to change."""
    return Lakehouse.at(Path(shutil.copytree(replayed, tmp_path / "lakehouse")))


@pytest.fixture
def previewed(replayed_and_previewed: Path, tmp_path: Path) -> Lakehouse:
    """A copy of the lakehouse with the preview to change."""
    return Lakehouse.at(Path(shutil.copytree(replayed_and_previewed, tmp_path / "lakehouse")))


def _results(place: Lakehouse, job: Job = JOB) -> dict[str, list[dict[str, Any]]]:
    return {
        name: plain_rows(rows) for name in ("verdicts", "windows") if (rows := rows_of(job, name, place)) is not None
    }


def _files(place: Lakehouse) -> dict[str, bytes]:
    """Every file that readers of results and logs see, with its bytes."""
    tables = ("windows", "verdicts", "arrivals", "stream_windows", "reconciliations")
    files = [path for name in tables for path in (place.folder / name).rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in files}


def _preview(
    spark: SparkSession, place: Lakehouse, job: Job, output: OutputRange = EVERYTHING, name: str = "night"
) -> Differences:
    replay(job, output, place, spark=spark, preview=name)
    return _differences(spark, place, job, name)


def _differences(spark: SparkSession, place: Lakehouse, job: Job, name: str = "night") -> Differences:
    return differences(spark, place, job, stored(place, job, f"preview:{name}"), stored_now(place, job), EVERYTHING)


def test_a_preview_changes_no_byte_that_readers_see(lakehouse: Lakehouse, spark: SparkSession) -> None:
    before = _files(lakehouse)
    assert before
    assert _preview(spark, lakehouse, DROPS).differing
    assert _files(lakehouse) == before


# random jobs and ranges, as in properties/test_promoted_previews.py, have the other combinations
@pytest.mark.parametrize(("output", "writer"), [(NOON, "driver"), (EVERYTHING, "spark")])
def test_a_promoted_preview_is_the_replay(
    output: OutputRange, writer: str, lakehouse: Lakehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    if writer == "spark":
        monkeypatch.setattr("pipelines.replay.builder.writer_of", lambda *_: "spark")
        monkeypatch.setattr(promoting, "MOST_ROWS", -1)
    made = replay(DROPS, output, lakehouse, spark=spark, preview="night")
    row = promote(DROPS, "night", lakehouse, spark=spark)
    promoted = _results(lakehouse)
    again = replay(DROPS, output, lakehouse, spark=spark)
    assert promoted == _results(lakehouse)
    assert row["output_fingerprint"] == made.output_fingerprint == again.output_fingerprint
    ours, theirs = [run for run in runs.runs_of(lakehouse, "cars") if run["kind"] == "replay"][-2:]
    same = ("status", "output_from", "output_to", "read_from", "read_to", "versions_read", "rows_written",
            "counts_by_verdict", "counts_by_reason", "fingerprints", "job_fingerprint", "settled")  # fmt: skip
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    assert previews_of(lakehouse, "cars") == []


def test_a_changed_policy_is_named_with_totals_and_the_largest_changes(
    previewed: Lakehouse, spark: SparkSession
) -> None:
    windows, verdicts = _differences(spark, previewed, DROPS).tables
    # the late car counted in the window that ends at 12:40, with n 40
    assert windows.by_status == {"removed": 1}
    assert windows.by_cause == {"policy": 1}
    assert windows.totals == {"cars": (7.0, 6.0), "n": (191.0, 151.0)}
    (largest,) = windows.largest
    assert (largest["window_end"], largest["change"]) == ("2026-01-01T12:40:00Z", 40.0)
    assert (largest["before"], largest["now"]) == ({"cars": 1, "n": 40}, None)
    assert windows.by_time[0] == {"at": "2026-01-01T12:00:00Z", "rows": 5, "added": 0, "removed": 1, "changed": 0}
    assert windows.step_us == HOUR
    assert (verdicts.table, verdicts.by_status) == ("verdicts/cars", {"changed": 1})


def test_a_changed_query_and_arrivals_since_are_told_apart(lakehouse: Lakehouse, spark: SparkSession) -> None:
    assert _preview(spark, lakehouse, COUNTS_ALL).tables[0].by_cause == {"query": 6}
    ingested(JOB, lakehouse.folder, {"cars": LATER}, "later")
    late = _preview(spark, lakehouse, JOB).tables[0]
    assert (late.by_status, late.by_cause) == ({"added": 2}, {"late_arrivals": 2})
    assert "batch later" in late.evidence["late_arrivals"]
    assert _preview(spark, lakehouse, COUNTS_ALL).tables[0].by_cause == {"query+late_arrivals": 8}


def test_windows_that_nobody_replayed_are_added(tmp_path: Path, spark: SparkSession) -> None:
    place = Lakehouse.at(ingested(JOB, tmp_path / "lakehouse", {"cars": CARS}))
    found = _preview(spark, place, JOB, NOON).tables[0]
    assert (found.by_status, found.by_cause) == ({"added": 5}, {"not_replayed": 5})


def test_promotion_is_refused_after_arrivals_in_the_read_range(lakehouse: Lakehouse, spark: SparkSession) -> None:
    _preview(spark, lakehouse, DROPS, NOON)
    ingested(JOB, lakehouse.folder, {"cars": LATER}, "later")
    before = _files(lakehouse)
    with pytest.raises(UsageError, match=r"arrivals of arrivals/cars were added by batch later in version 1; make"):
        promote(DROPS, "night", lakehouse, spark=spark)
    assert _files(lakehouse) == before


def test_promotion_is_refused_after_another_replay(previewed: Lakehouse, spark: SparkSession) -> None:
    run_id = replay(JOB, EVERYTHING, previewed, spark=spark).run_id
    with pytest.raises(UsageError, match=rf"windows/cars was changed in version 1 \(replay, run {run_id}\)"):
        promote(DROPS, "night", previewed, spark=spark)


def test_promotion_is_refused_after_a_change_of_the_job_file(previewed: Lakehouse, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="the job file changed"):
        promote(JOB, "night", previewed, spark=spark)


@pytest.mark.parametrize(("writer", "moment"), [("driver", "_ledger_row"), ("driver", "_rows"), ("spark", "_rows")])
def test_a_replay_that_commits_during_a_promotion_is_named(
    writer: str, moment: str, previewed: Lakehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    if writer == "spark":
        monkeypatch.setattr(promoting, "MOST_ROWS", -1)
    then = getattr(promoting, moment)

    def meanwhile(*given: Any, **more: Any) -> Any:
        if moment != "_rows" or "windows/cars" in given:
            table = previewed.open("windows/cars")
            assert table is not None
            about = CommitProperties(custom_metadata={"tailrace": "replay", "run_id": "other"})
            write_deltalake(table, table.to_pyarrow_table(), mode="overwrite", commit_properties=about)
        return then(*given, **more)

    monkeypatch.setattr(promoting, moment, meanwhile)
    windows = _results(previewed)["windows"]
    with pytest.raises(EnvironmentUnfit, match=r"windows/cars was changed in version 1 \(replay, run other\)"):
        promote(DROPS, "night", previewed, spark=spark)
    assert _results(previewed)["windows"] == windows
    assert runs.runs_of(previewed, "cars")[-1]["status"] == "failed"


def test_previews_are_replaced_listed_dropped_and_expire(
    lakehouse: Lakehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = replay(DROPS, EVERYTHING, lakehouse, spark=spark, preview="night")
    second = replay(COUNTS_ALL, NOON, lakehouse, spark=spark, preview="night")
    assert first.output_fingerprint != second.output_fingerprint
    assert [(one.name, one.run_id) for one in previews_of(lakehouse, "cars")] == [("night", second.run_id)]
    monkeypatch.setenv(previews.DAYS_VARIABLE, "0")
    replay(JOB, EVERYTHING, lakehouse, spark=spark, preview="day")
    assert [one.name for one in previews_of(lakehouse, "cars")] == ["day"]
    assert find_preview(lakehouse, "cars", "day").expires_at <= datetime.now(UTC) + timedelta(seconds=1)
    previews.drop_preview(lakehouse, find_preview(lakehouse, "cars", "day"))
    assert previews_of(lakehouse, "cars") == []
    assert not (lakehouse.folder / "previews/cars/day/windows/cars").exists()


@pytest.mark.parametrize("name", ["Night", "", "a/b", "../x", "1st"])
def test_a_preview_has_a_plain_name(name: str, lakehouse: Lakehouse, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="a preview cannot be called"):
        replay(JOB, EVERYTHING, lakehouse, spark=spark, preview=name)


@pytest.fixture
def command(lakehouse: Lakehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a command on the job file, which drops; its exit code and what it prints."""
    file = tmp_path / "cars.yaml"
    file.write_text(TEXT.replace("action: adjust", "action: drop"))

    def call(name: str, *arguments: str) -> tuple[int, str]:
        code = tailrace([name, str(file), *arguments, "--lakehouse", lakehouse.root])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def test_the_commands_preview_list_compare_promote_and_drop(
    lakehouse: Lakehouse, command: Callable[..., tuple[int, str]]
) -> None:
    code, text = command("replay", "--preview", "night")
    assert code == 1
    assert "windows/cars: 1 of 6 row(s) differ between preview:night and the tables as they are" in text
    assert "total of n: 191 before, 151 now (-20.9 %)" in text
    assert "tailrace promote cars night" in text
    assert "█" in text
    assert "tailrace promote cars night" in (lakehouse.folder / "reports/cars/preview/night.html").read_text()
    code, text = command("show", "previews", "--json")
    assert (code, [one["name"] for one in json.loads(text)]) == (0, ["night"])
    code, text = command("reconcile", "--against", "preview:night", "--json")
    # seen from the tables as they are, the preview lacks the window
    assert (code, json.loads(text)["tables"][0]["by_status"]) == (1, {"added": 1})
    code, text = command("promote", "night", "--json")
    assert code == 0
    promoted = json.loads(text)
    assert promoted["versions_written"] == {"verdicts/cars": 1, "windows/cars": 1}
    code, text = command("reconcile", "--against", "version:0", "--json")
    found = json.loads(text)
    assert (code, [one["table"] for one in found["tables"]]) == (1, ["windows/cars"])
    assert found["tables"][0]["by_cause"] == {"policy": 1}
    assert command("reconcile", "--against", f"run:{promoted['run_id']}", "--json")[0] == 0
    assert command("replay", "--preview")[0] == 0
    code, text = command("promote", "preview", "--drop")
    assert (code, re.sub(r"\s+", " ", text).strip()) == (0, "cars: preview preview is removed")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("replay", "night"), "'night' is the name of a preview"),
        (("promote", "night"), "job cars has no preview 'night'"),
        (("reconcile", "--against", "version:x"), "'x' is not a version"),
        (
            ("reconcile", "--against", "version:7"),
            "the table windows/cars cannot be read at version 7: its newest is 0",
        ),
        (("reconcile", "--against", "run:none"), "job cars has no replay 'none' that succeeded"),
    ],
)
def test_what_is_not_there_is_refused_by_name(
    arguments: tuple[str, ...], said: str, command: Callable[..., tuple[int, str]]
) -> None:
    code, text = command(*arguments)
    assert code == 2
    assert said in text
