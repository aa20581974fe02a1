"""The Spark plans of the main paths: no sort of all events, no Python worker and no second read may come back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from textwrap import indent
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import builtin

from pipelines.batch import engine
from pipelines.batch.logs import LogSlice
from pipelines.batch.stream_analytics.watermarks import task_ranges
from pipelines.core.model import Action, StreamAnalyticsOrdering
from pipelines.core.time import HOUR, parse_instant
from pipelines.core.verdicts import IS_EXCEPTION_SQL
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_a_replay")]

PACKED = WatermarkStrategy("packed", "packed", "asked for")
GRID_CELLS = WatermarkStrategy("packed", "grid_cells", "asked for")
FILE_ORDER = WatermarkStrategy("file_order", "file_order", "asked for")
NOON_US = parse_instant("2026-01-01T12:00:00Z")
JOB = parse_job("""
tailrace: 1
job: plans
profile: stream_analytics
inputs: {readings: {columns: "at TIMESTAMP, k INT, x DOUBLE", timestamp_by: at}}
ordering: {early_arrival: 5m, late_arrival: 1m, out_of_order: 5s}
query:
  from: readings
  group_by: [k]
  window: {tumbling: {size: 1m}}
  aggregates: {n: "count(*)", total: "sum(x)"}
""")

_PASSED_OVER = {"Project", "Filter", "WholeStageCodegen", "InputAdapter", "ColumnarToRow"}


@pytest.fixture(scope="module")
def log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Two partitions that speak every second for an hour, as a Delta table."""
    folder = tmp_path_factory.mktemp("plans")
    file = folder / "log.jsonl"
    with file.open("w") as lines:
        for number in range(7200):
            second = f"2026-01-01T12:{number // 120:02}:{number // 2 % 60:02}Z"
            row = {"arrival_time": second, "input_partition": number % 2, "sequence": number, "at": second, "k": 1}
            lines.write(json.dumps(row | {"x": 0.5}) + "\n")
    ingest(JOB, "readings", [file], folder / "lakehouse")
    return spark.read.format("delta").load(str(folder / "lakehouse" / "arrivals" / "readings"))


def plan(frame: DataFrame) -> str:
    """The operators that move or order rows, or read, from the result down to the log; indented where they branch."""
    executed: str = frame._jdf.queryExecution().executedPlan().toString()
    found = []
    for line in executed.splitlines():
        match = re.match(r"^([\s:|+-]*)(?:\*\(\d+\) )?([A-Z]\w+(?: parquet| ExistingRDD)?)(.*)", line)
        if match is not None and match[2] not in _PASSED_OVER:
            details = re.search(r"hashpartitioning|SinglePartition|Coalesce \d+", line)
            found.append((len(match[1]), match[2] + (f" {details[0]}" if details and match[2] == "Exchange" else "")))
    depths = sorted({depth for depth, _ in found})
    return "\n".join("  " * depths.index(depth) + name for depth, name in found)


@pytest.fixture(autouse=True)
def as_planned(spark: SparkSession) -> Iterator[None]:
    """Plans as they stand before any stage has run, shuffles included."""
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", before or "true")


AGGREGATION = """\
ObjectHashAggregate
  Exchange hashpartitioning
    ObjectHashAggregate
      HashAggregate
        Exchange hashpartitioning
          HashAggregate
"""
"""Of windows: rows meet in a hash map before anything is shuffled, and are sorted nowhere."""


BY_CELL = """\
            BroadcastHashJoin
                  FileScan parquet
              BroadcastExchange
                LocalTableScan"""
"""Each event looks up the steps of its partition's watermark, which are part of the plan."""


def test_windows_by_first_passage_read_the_log_once_and_sort_nothing(log: DataFrame) -> None:
    alone = engine.windows_alone(JOB, {"readings": log}, strategy=GRID_CELLS)
    assert plan(alone) == AGGREGATION + BY_CELL


def test_windows_with_verdicts_come_by_first_passage_too(log: DataFrame) -> None:
    assert plan(engine.run(JOB, {"readings": log}, strategy=GRID_CELLS).windows) == AGGREGATION + BY_CELL


def test_timelines_inside_partitions_shuffle_only_what_lies_near_an_event_that_asks(log: DataFrame) -> None:
    source = replace(JOB.inputs[0], over=("k",))
    alone = engine.windows_alone(replace(JOB, inputs=(source,)), {"readings": log}, strategy=GRID_CELLS)
    found = plan(alone).splitlines()
    scans = [index for index, line in enumerate(found) if line.strip() == "FileScan parquet"]
    assert len(scans) == 2
    # the one meets its steps and is counted; the other is narrowed to what is near before anything is shuffled
    above = [line.strip() for line in found[: scans[0]]]
    assert [line for line in above if "Exchange" in line or "Sort" in line or line == "Window"] == [
        "Exchange hashpartitioning",
        "Exchange hashpartitioning",
    ]
    near = [line.strip() for line in found[: scans[1]]]
    assert near[-3:] == ["Exchange hashpartitioning", "HashAggregate", "BroadcastHashJoin"]


def test_packed_verdicts_are_sorted_where_they_are_read_without_a_shuffle(log: DataFrame) -> None:
    verdicts = engine.run(JOB, {"readings": log}, strategy=PACKED).verdicts
    assert plan(verdicts) == "Window\n  Sort\n    Coalesce\n      FileScan parquet"


@pytest.fixture(scope="module")
def slices(log: DataFrame) -> engine.LogSlices:
    """The log's one file."""
    return {"readings": lambda: [LogSlice(log, NOON_US, NOON_US + HOUR)]}


@pytest.fixture
def two_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour each."""
    monkeypatch.setattr(task_ranges, "ROWS_PER_TASK", 3600)


RANGES = """\
Union
  Coalesce
    FileScan parquet
  Coalesce
    FileScan parquet"""


@pytest.mark.usefixtures("two_ranges")
def test_verdicts_as_files_lie_are_neither_sorted_nor_shuffled(log: DataFrame, slices: engine.LogSlices) -> None:
    verdicts = engine.run(JOB, {"readings": log}, strategy=FILE_ORDER, slices=slices).verdicts
    assert plan(verdicts) == RANGES


@pytest.mark.usefixtures("two_ranges")
def test_windows_as_files_lie_read_the_log_once_and_sort_nothing(log: DataFrame, slices: engine.LogSlices) -> None:
    windows = engine.run(JOB, {"readings": log}, strategy=FILE_ORDER, slices=slices).windows
    assert plan(windows) == AGGREGATION + indent(RANGES, " " * 12)


@pytest.mark.usefixtures("two_ranges")
def test_timelines_as_files_lie_look_up_their_numbers_and_sort_nothing(
    log: DataFrame, slices: engine.LogSlices
) -> None:
    over = replace(JOB, inputs=(replace(JOB.inputs[0], over=("k",)),))
    alone = engine.windows_alone(over, {"readings": log}, strategy=FILE_ORDER, slices=slices)
    numbers = "            BroadcastHashJoin\n" + indent(RANGES, " " * 16) + "\n              BroadcastExchange"
    assert plan(alone).startswith(AGGREGATION + numbers)
    assert plan(alone).count("FileScan") == 2


def test_windows_with_packed_verdicts_sort_no_event_that_is_settled(log: DataFrame) -> None:
    both = engine.run(JOB, {"readings": log}, strategy=PACKED).windows
    sources = """\
            Union
              FileScan parquet
              Window
                Sort
                  Coalesce
                    FileScan parquet"""
    assert plan(both) == AGGREGATION + sources


def test_the_method_window_shuffles_and_sorts_once(log: DataFrame) -> None:
    sorted_out = engine.run(JOB, {"readings": log}).windows
    one_sort = """\
            Window
              Sort
                Exchange hashpartitioning
                  FileScan parquet"""
    assert plan(sorted_out) == AGGREGATION + one_sort


@pytest.mark.usefixtures("two_ranges")
@pytest.mark.parametrize("method", [SORT, PACKED, FILE_ORDER, GRID_CELLS], ids=lambda method: method.windows)
def test_no_row_leaves_the_java_process(log: DataFrame, slices: engine.LogSlices, method: WatermarkStrategy) -> None:
    result = engine.run(JOB, {"readings": log}, strategy=method, slices=slices)
    alone = engine.windows_alone(JOB, {"readings": log}, strategy=method, slices=slices)
    for frame in (result.verdicts, result.windows, alone):
        assert not re.search("Python|Arrow|Pandas", frame._jdf.queryExecution().executedPlan().toString())


def test_where_a_function_is_in_the_java_process_is_asked_once(spark: SparkSession) -> None:
    context = spark.sparkContext
    assert builtin._get_jvm_function("greatest", context) is builtin._get_jvm_function("greatest", context)


@pytest.mark.usefixtures("two_ranges")
@pytest.mark.parametrize("method", [PACKED, FILE_ORDER, GRID_CELLS], ids=lambda method: method.windows)
@pytest.mark.parametrize("action", ["drop", "adjust"])
def test_the_java_process_compiles_what_spark_generates(
    log: DataFrame, slices: engine.LogSlices, method: WatermarkStrategy, action: Action
) -> None:
    policy = JOB.ordering("readings")
    assert isinstance(policy, StreamAnalyticsOrdering)
    job = replace(JOB, orderings=(("readings", replace(policy, action=action)),))
    result = engine.run(job, {"readings": log}, strategy=method, slices=slices)
    for frame in (result.verdicts.filter(IS_EXCEPTION_SQL), result.windows):
        # a longer method is interpreted, which is several times slower
        assert 0 < largest_method_bytes(frame) <= 8000


def largest_method_bytes(frame: DataFrame) -> int:
    """The length of the longest method that Spark generates for the frame, in bytes of bytecode."""
    jvm: Any = frame.sparkSession._jvm
    debug = getattr(getattr(jvm.org.apache.spark.sql.execution.debug, "package$"), "MODULE$")
    stages = debug.codegenStringSeq(frame._jdf.queryExecution().executedPlan())
    return max(stages.apply(index)._3().maxMethodCodeSize() for index in range(stages.size()))
