"""Previews in Dagster: metadata of what would change, a check that blocks, and a person who promotes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from small_jobs import TOLLS, load, tolls

from assets.definitions import build
from assets.previewed import CHECK
from pipelines.core.model import EVERYTHING
from pipelines.lakehouse.previews import previews_of
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

PREVIEW, PROMOTION = dg.AssetKey(["tolls", "preview"]), dg.AssetKey(["tolls", "promotion"])
WINDOWS = dg.AssetKey(["tolls", "windows"])
DROPS = TOLLS.replace("action: adjust", "action: drop")
MARCH: dict[str, object] = {"preview": "drops", "from": "2026-03-02T00:00:00Z", "to": "2026-03-04T00:00:00Z"}


def config_of(**by_op: dict[str, object]) -> dict[str, object]:
    """Run config of ``preview``, ``promotion`` or both."""
    return {"ops": {f"tolls__{name}": {"config": config} for name, config in by_op.items()}}


class World:
    """Nine days of cars, replayed, and the definitions of the same job with ``action: drop``."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance, spark: SparkSession) -> None:
        self.place, self.instance = Lakehouse.at(load(folder)), instance
        replay(tolls(), EVERYTHING, self.place, spark=spark)
        jobs = folder / "jobs"
        jobs.mkdir()
        (jobs / "tolls.yaml").write_text(DROPS, encoding="utf-8")
        self.defs = build(jobs, self.place.root)

    def run(self, job: str, config: dict[str, object]) -> dg.ExecuteInProcessResult:
        found = self.defs.resolve_job_def(job)
        return found.execute_in_process(config, instance=self.instance, raise_on_error=False)

    def run_both(self, config: dict[str, Any]) -> dg.ExecuteInProcessResult:
        """Preview and promotion in one run."""
        return dg.materialize(
            [*(self.defs.assets or [])],  # type: ignore[arg-type]
            selection=dg.AssetSelection.assets(PREVIEW, PROMOTION),
            resources=self.defs.resources,
            instance=self.instance,
            run_config=config,
            raise_on_error=False,
        )

    def windows(self) -> list[dict[str, Any]]:
        return DeltaTable(f"{self.place.root}/windows/tolls").to_pyarrow_table().to_pylist()


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(tmp_path, instance, spark)


def test_a_preview_that_changes_much_is_blocked_until_a_person_promotes_it(world: World) -> None:
    before = world.windows()
    result = world.run("tolls_preview", config_of(preview=MARCH))
    [evaluation] = result.get_asset_check_evaluations()
    assert (evaluation.check_name, evaluation.passed, evaluation.blocking) == (CHECK, False, True)
    # on each of the two days the car that is 20 minutes late is dropped at both booths
    assert evaluation.description is not None
    assert "windows/tolls: 4 of 12 rows differ, 33.3 %, which is more than 1 %" in evaluation.description
    assert "the total of cars goes from 12 to 8, by 33.3 %, which is more than 5 %" in evaluation.description
    [made] = result.asset_materializations_for_node("tolls__preview")
    about = {name: value.value for name, value in made.metadata.items()}
    assert (about["preview"], about["windows_differing"], about["windows_removed"]) == ("drops", 4, 4)
    assert about["windows_by_cause"] == "policy 4"
    assert world.windows() == before

    both = world.run_both(config_of(preview=MARCH, promotion={"preview": "drops"}))
    assert not both.success
    assert both.asset_materializations_for_node("tolls__promotion") == []
    assert world.windows() == before

    promoted = world.run("tolls_promote", config_of(promotion={"preview": "drops", "reason": "late cars are errors"}))
    assert promoted.success
    events = promoted.get_asset_materialization_events()
    days = {event.partition for event in events if event.asset_key == WINDOWS}
    assert days == {"2026-03-02", "2026-03-03"}
    assert len(world.windows()) == len(before) - 4
    run = runs_of(world.place, "tolls")[-1]
    assert (run["kind"], run["status"], run["reason"]) == ("replay", "succeeded", "late cars are errors")
    assert previews_of(world.place, "tolls") == []

    again = world.run("tolls_promote", config_of(promotion={"preview": "drops"}))
    [failure] = [event for event in again.all_events if event.is_step_failure]
    assert "job tolls has no preview 'drops'" in str(failure.step_failure_data.user_failure_data)


def test_a_preview_within_the_thresholds_is_promoted_in_the_same_run(world: World) -> None:
    generous = {**MARCH, "windows_percent": 50.0, "aggregate_percent": 50.0}
    result = world.run_both(config_of(preview=generous, promotion={"preview": "drops"}))
    assert result.success
    [evaluation] = result.get_asset_check_evaluations()
    assert evaluation.passed
    assert runs_of(world.place, "tolls")[-1]["kind"] == "replay"
    assert sum(row["cars"] for row in world.windows()) == 54 - 4


def test_a_threshold_that_is_no_percentage_and_a_name_that_cannot_be_one_are_refused(world: World) -> None:
    for config, message in (
        ({"windows_percent": -1.0}, "windows_percent: -1.0 is not a percentage"),
        ({"preview": "Drops"}, "a preview cannot be called 'Drops'"),
        ({"from": "2026-03-32"}, "2026-03-32"),
    ):
        result = world.run("tolls_preview", config_of(preview=config))
        [failure] = [event for event in result.all_events if event.is_step_failure]
        assert message in str(failure.step_failure_data.user_failure_data), message
    assert previews_of(world.place, "tolls") == []
