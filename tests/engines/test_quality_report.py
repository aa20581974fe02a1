"""The report where it needs Spark: event times that are expressions, and all checks in one go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from report_lakehouse import JOB, JOB_TEXT, arrivals, build

from pipelines.cli.main import run
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import HOUR, MINUTE, parse_instant
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.run_checks import run_checks
from pipelines.report.axes import all_bands, bins_over
from pipelines.report.events import FileEvents, SparkEvents, events_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    # the checks' libraries warn about each other's future
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

EXPRESSION = parse_job(JOB_TEXT.replace("timestamp_by: at", 'timestamp_by: "CAST(at AS STRING)"'))
MORNING = OutputRange(parse_instant("2026-01-02T06:00:00Z"), parse_instant("2026-01-02T12:00:00Z"))


@pytest.fixture(scope="module")
def lakehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    return build(tmp_path_factory.mktemp("spark") / "lakehouse", live=True)


@pytest.mark.parametrize("output", [EVERYTHING, MORNING])
def test_spark_counts_the_same_cells_as_the_files(lakehouse: Lakehouse, output: OutputRange) -> None:
    files, spark = events_of(lakehouse, JOB.inputs[0], output), events_of(lakehouse, EXPRESSION.inputs[0], output)
    assert isinstance(files, FileEvents)
    assert isinstance(spark, SparkEvents)
    extent = files.extent()
    assert extent is not None
    assert extent == spark.extent()
    assert extent.events == (288 if output == EVERYTHING else 24)
    decided = [OutputRange(None, parse_instant("2026-01-02T08:00:00Z"))]
    shape = (bins_over(extent.first_us, extent.last_us), all_bands(5 * MINUTE, 20 * MINUTE), decided)
    assert files.cells(*shape) == spark.cells(*shape)
    assert sum(files.cells(*shape).decided.values()) == (128 if output == EVERYTHING else 8)


def test_events_on_a_bound_lie_in_the_same_band_for_both(lakehouse: Lakehouse) -> None:
    lags_us = [0, 1, -1, 20 * MINUTE, 20 * MINUTE + 1, -5 * MINUTE, -5 * MINUTE - 1, HOUR]
    bands = all_bands(5 * MINUTE, 20 * MINUTE)
    want = [sum(edge_us < lag_us for edge_us in bands.lags_us) for lag_us in lags_us]
    at_us = parse_instant("2026-01-01T12:00:00Z")
    rows = pa.table(
        {
            "arrival_time": pa.array([at_us] * len(lags_us), pa.timestamp("us", "UTC")),
            "at": pa.array([at_us - lag_us for lag_us in lags_us], pa.timestamp("us", "UTC")),
            "kind": ["event"] * len(lags_us),
        }
    )
    place = f"{lakehouse.root}/arrivals/bounds"
    write_deltalake(place, rows)
    shape = (bins_over(at_us, at_us), bands, [])
    for found in (
        FileEvents(DeltaTable(place).to_pyarrow_dataset(), "at", EVERYTHING),
        SparkEvents(place, "at", EVERYTHING),
    ):
        assert found.cells(*shape).counts == {(0, band): want.count(band) for band in want}


def test_every_check_passes_on_what_is_right_and_says_what_was_not_checked(lakehouse: Lakehouse) -> None:
    results, skipped = run_checks(JOB, lakehouse, EVERYTHING)
    assert [(result.name, result.passed) for result in results] == [
        ("arrival_order", True),
        ("arrival_contract", True),
        ("conservation", True),
        ("window_schema", True),
        ("window_contract", True),
    ]
    assert skipped == ["windows/cars was not reconciled, so whether the results match the live run's was not checked."]


def test_a_failed_check_stands_on_the_page_and_ends_the_command_with_1(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lakehouse = build(tmp_path / "lakehouse", live=True, hours=6)
    table = DeltaTable(lakehouse.uri("windows/cars"))
    rows = table.to_pyarrow_table()
    doubled = pa.concat_tables([rows, rows.slice(0, 1)])
    write_deltalake(table, doubled, mode="overwrite")
    (tmp_path / "cars.yaml").write_text(JOB_TEXT)
    job = str(tmp_path / "cars.yaml")
    assert run(["report", job, "--lakehouse", lakehouse.root, "--json"]) == 1
    reported = json.loads(capsys.readouterr().out)
    failed = {check["name"]: check["failed_rows"] for check in reported["checks"] if not check["passed"]}
    assert failed == {"window_schema": 2, "window_contract": 2}
    assert "window_contract" in Path(reported["report"]).read_text()


def test_a_log_without_a_replay_is_checked_as_far_as_it_goes(spark: SparkSession, tmp_path: Path) -> None:
    lakehouse = build(tmp_path / "lakehouse", replay=False, hours=len(arrivals()) // 48)
    results, skipped = run_checks(JOB, lakehouse, EVERYTHING)
    assert [result.name for result in results] == ["arrival_order", "arrival_contract"]
    assert skipped == ["No replay has written windows/cars, so neither results nor verdicts were checked."]
