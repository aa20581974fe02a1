"""A job of two outputs in Dagster: an asset, a data version and a contract for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake
from small_jobs import load

from assets.definitions import build
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # Great Expectations warns about what others have deprecated
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

JOB = """\
tailrace: 1
job: tolls
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING"}}
ordering: {early_arrival: 5m, late_arrival: 5m, out_of_order: 1m, action: adjust}
query:
  sql: |
    SELECT booth, COUNT(*) AS cars INTO counts FROM cars TIMESTAMP BY at GROUP BY booth, TumblingWindow(hour, 1)
    SELECT booth, PartitionId INTO Passages FROM cars TIMESTAMP BY at WHERE booth = 'b1'
"""
ARRIVALS, VERDICTS = (dg.AssetKey(["tolls", name]) for name in ("arrivals", "verdicts"))
COUNTS, PASSAGES = (dg.AssetKey(["tolls", "outputs", name]) for name in ("counts", "passages"))
STREAM = dg.AssetKey(["tolls", "stream_outputs", "passages"])
RECONCILIATION = dg.AssetKey(["tolls", "reconciliation"])
DAYS = {
    "dagster/asset_partition_range_start": "2026-03-02",
    "dagster/asset_partition_range_end": "2026-03-03",
}


@pytest.fixture(scope="module")
def world(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dg.Definitions, str, dg.DagsterInstance]]:
    folder = tmp_path_factory.mktemp("outputs")
    (folder / "jobs").mkdir()
    (folder / "jobs" / "tolls.yaml").write_text(JOB, encoding="utf-8")
    root = load(folder)
    with dg.DagsterInstance.ephemeral() as instance:
        yield build(folder / "jobs", root), root, instance


def run(world: tuple[dg.Definitions, str, dg.DagsterInstance], selection: Any) -> dg.ExecuteInProcessResult:
    defs, _, instance = world
    return dg.materialize(
        [*(defs.assets or []), *(defs.asset_checks or [])],  # type: ignore[arg-type]
        selection=selection,
        resources=defs.resources,
        instance=instance,
        tags=DAYS,
        # a blocking check that fails fails the run
        raise_on_error=False,
    )


def test_each_output_is_an_asset_with_its_rows_its_version_and_its_contract(
    world: tuple[dg.Definitions, str, dg.DagsterInstance],
) -> None:
    _, root, _ = world
    graph = world[0].resolve_asset_graph()
    assert {STREAM, COUNTS, PASSAGES} <= graph.get_all_asset_keys()
    assert graph.get(RECONCILIATION).parent_keys == {
        *(COUNTS, PASSAGES),
        *(dg.AssetKey(["tolls", "stream_outputs", name]) for name in ("counts", "passages")),
    }
    result = run(world, dg.AssetSelection.assets(ARRIVALS, VERDICTS, COUNTS, PASSAGES))
    assert result.success
    (ledger,) = runs_of(Lakehouse.at(root), "tolls")
    prints = dict(ledger["fingerprints"])
    for key, rows in ((COUNTS, 6), (PASSAGES, 3)):
        made = [event for event in result.get_asset_materialization_events() if event.asset_key == key]
        assert [event.partition for event in made] == ["2026-03-02", "2026-03-03"]
        for event in made:
            metadata = event.materialization.metadata
            assert metadata["dagster/partition_row_count"].value == rows
            assert metadata["dagster/table_name"].value == f"outputs/tolls/{key.path[-1]}"
            tags = event.materialization.tags or {}
            assert tags["dagster/data_version"] == prints[f"outputs/tolls/{key.path[-1]}"]
    checks = {(one.asset_key, one.check_name): one.passed for one in result.get_asset_check_evaluations()}
    assert checks == {
        (ARRIVALS, "arrival_order"): True,
        (ARRIVALS, "arrival_contract"): True,
        (VERDICTS, "conservation"): True,
        (COUNTS, "output_contract"): True,
        (COUNTS, "reproducible"): True,
        (PASSAGES, "output_contract"): True,
    }


def test_the_reconciliation_compares_the_outputs_that_the_live_run_has(
    world: tuple[dg.Definitions, str, dg.DagsterInstance],
) -> None:
    _, root, _ = world
    rows = DeltaTable(f"{root}/outputs/tolls/passages").to_pyarrow_table()
    write_deltalake(f"{root}/stream_outputs/tolls/passages", rows.slice(1))
    result = run(world, dg.AssetSelection.assets(RECONCILIATION))
    made = [event for event in result.get_asset_materialization_events() if event.asset_key == RECONCILIATION]
    counted = [event.materialization.metadata["differing"].value for event in made]
    assert sorted(counted) == [0, 1]
    assert {event.materialization.metadata["run_equal"].value for event in made} == {5}
    (check,) = result.get_asset_check_evaluations()
    assert not check.passed
