"""The Spark plans of steps: how often each relation shuffles and sorts its rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from steps_rows import columns_of, input_frame, job_of, reference_frame

from pipelines.batch.steps.outputs import evaluate
from pipelines.core.model import Reference
from pipelines.core.query import Aggregate, Grid, Sliding, SortKey
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Computed,
    InputRows,
    Joined,
    Projected,
    Referenced,
    ReferenceRows,
    Rows,
    Side,
    Windowed,
)
from pipelines.core.time import HOUR, MINUTE

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_a_replay")]

COLUMNS = "k STRING, x BIGINT, d DOUBLE, unread STRING"
CARS, VANS = InputRows("cars"), InputRows("vans")
COUNT = Aggregate("n", "count")


def select(rows: Rows, **columns: str) -> Projected:
    return Projected(rows, tuple(Computed(name, text) for name, text in columns.items()))


def group(rows: Rows, window: Grid | Sliding, aggregate: Aggregate) -> Windowed:
    return Windowed(rows, window, (Computed("k", "k"),), (aggregate,))


def over(name: str, function: str, argument: str) -> Analytic:
    aggregate = Aggregate(name, function, argument)
    return Analytic(name, "aggregate", partition_by=("k",), within_us=MINUTE, aggregate=aggregate)


FUNCTIONS = (
    Analytic("a", "lag", "x", partition_by=("k",), within_us=MINUTE),
    Analytic("b", "last", "x", partition_by=("k",), when="x > 1", within_us=HOUR),
    Analytic("c", "is_first", partition_by=("k",), within_us=HOUR),
    over("e", "sum", "d"),
    over("f", "max", "x"),
    over("g", "count", "x"),
)
FIVE, DAILY = Grid(5 * MINUTE, 5 * MINUTE), Grid(24 * HOUR, 24 * HOUR)
PLANS: dict[str, tuple[Rows, dict[str, int]]] = {
    "a projection": (select(CARS, y="x + 1"), {"Exchange": 0, "Sort": 0, "Scan": 1}),
    "analytic functions that share their keys": (
        select(Analysed(CARS, FUNCTIONS), **{one.name: one.name for one in FUNCTIONS}),
        {"Exchange": 1, "Sort": 1, "Scan": 1},
    ),
    "a tumbling window": (group(CARS, FIVE, COUNT), {"Exchange": 1, "Sort": 0, "Scan": 1}),
    "CollectTop": (
        group(CARS, FIVE, Aggregate("t", "collect_top", "x", order_by=(SortKey("d", True),), limit=3)),
        {"Exchange": 1, "Sort": 0, "Scan": 1},
    ),
    "a window over windows": (
        group(group(CARS, FIVE, COUNT), DAILY, Aggregate("m", "sum", "n")),
        {"Exchange": 2, "Sort": 0, "Scan": 1},
    ),
    "LAG over windows": (
        Analysed(group(CARS, FIVE, COUNT), (Analytic("a", "lag", "n", partition_by=("k",), within_us=HOUR),)),
        {"Exchange": 2, "Sort": 1, "Scan": 1},
    ),
    "a join": (
        select(Joined(Side("c", CARS), Side("v", VANS), MINUTE, 0, 5, (("k", "k"),)), x="c.x", d="v.d"),
        {"Exchange": 2, "Sort": 2, "Scan": 2},
    ),
}


@pytest.fixture(scope="module")
def plans(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The physical plan of each case over files, as it stands before any stage has run."""
    folder = tmp_path_factory.mktemp("plans")
    job = job_of({"cars": COLUMNS, "vans": COLUMNS}, {name: rows for name, (rows, _) in PLANS.items()})
    frames = {one.name: _on_disk(input_frame(spark, one, []), folder / one.name) for one in job.inputs}
    return planned(evaluate(job, frames, {}).outputs, broadcast="-1")


def planned(found: Mapping[str, DataFrame], *, broadcast: str) -> dict[str, str]:
    """The physical plans where Spark broadcasts tables up to that size."""
    (spark,) = {frame.sparkSession for frame in found.values()}
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": broadcast}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    plans = {name: frame._jdf.queryExecution().executedPlan().toString() for name, frame in found.items()}
    for name, value in before.items():
        spark.conf.set(name, str(value))
    return plans


def _on_disk(frame: DataFrame, folder: Path) -> DataFrame:
    frame.write.parquet(str(folder))
    return frame.sparkSession.read.parquet(str(folder))


@pytest.mark.parametrize("name", PLANS)
def test_each_relation_shuffles_and_sorts_no_more_than_it_must(plans: dict[str, str], name: str) -> None:
    assert operators(plans[name], "Exchange", "Sort", "Scan") == PLANS[name][1]


def operators(plan: str, *names: str) -> dict[str, int]:
    """How often each of ``names`` is an operator of the plan."""
    found = Counter(re.findall(r"^[\s:|+-]*(?:\*\(\d+\) )?(?:File)?(\w+) ", plan, re.MULTILINE))
    return {name: found[name] for name in names}


def test_rows_are_neither_shuffled_nor_sorted_for_reference_data_that_is_small(
    spark: SparkSession, tmp_path: Path
) -> None:
    owners = Reference("owners", columns_of("k STRING, owner STRING"))
    served = Referenced(Side("c", CARS), Side("o", ReferenceRows("owners")), (("k", "k"),))
    job = job_of({"cars": COLUMNS}, {"served": select(served, owner="o.owner")}, references=[owners])
    cars = _on_disk(input_frame(spark, job.inputs[0], []), tmp_path / "cars")
    data = _on_disk(reference_frame(spark, owners, [{"k": "a", "owner": "b"}]), tmp_path / "owners")
    plan = planned(evaluate(job, {"cars": cars}, {"owners": data}).outputs, broadcast="10MB")["served"]
    counts = {"BroadcastExchange": 1, "Exchange": 0, "Sort": 0, "Scan": 2}
    assert operators(plan, *counts) == counts


def test_only_the_columns_that_are_read_leave_the_files(plans: dict[str, str]) -> None:
    schemas = re.findall(r"ReadSchema: struct<(.*?)>$", plans["a join"], re.MULTILINE)
    assert [re.findall(r"(\w+):", schema) for schema in schemas] == [
        ["k", "x", "system_timestamp"],
        ["k", "d", "system_timestamp"],
    ]
