"""All methods of finding watermarks give the same verdicts and windows, also where numbers are at their limits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any

import pytest
from batch_log import Row, logs, reference, slices
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipelines.batch import engine
from pipelines.batch.engine import Result, StepsResult
from pipelines.batch.spark.local_rows import local_rows, local_rows_of_each
from pipelines.batch.stream_analytics.watermarks import file_order, task_ranges
from pipelines.batch.stream_analytics.watermarks import strategy as strategies
from pipelines.batch.stream_analytics.watermarks.file_order import NOT_IN_ORDER
from pipelines.batch.stream_analytics.watermarks.packed import packed
from pipelines.batch.stream_analytics.watermarks.task_ranges import TaskRanges
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import MINUTE, SECOND, format_instant, parse_instant
from pipelines.job.load import parse_job
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy
from pipelines.transcripts.engines import verdict_row

pytestmark = pytest.mark.spark

NOON_US = parse_instant("2026-01-01T12:00:00Z")
PACKED = WatermarkStrategy("packed", "packed", "asked for")
GRID_CELLS = WatermarkStrategy("packed", "grid_cells", "asked for")
FILE_ORDER = WatermarkStrategy("file_order", "file_order", "asked for")
FILE_ORDER_IN_CELLS = WatermarkStrategy("file_order", "grid_cells", "asked for")


def job(
    window: str = "tumbling: {size: 1m}",
    *,
    out_of_order: str = "10s",
    action: str = "adjust",
    early: str = "5m",
    late: str = "2m",
    over: str = "[]",
    keep: str = "exceptions",
    end: str = "flush",
    aggregates: str = "{n: count(*), total: sum(x), last: max(x)}",
    having: str = "",
) -> Job:
    return parse_job(f"""
tailrace: 1
job: methods
profile: stream_analytics
inputs:
  readings:
    columns: "at TIMESTAMP, k STRING, x DOUBLE"
    timestamp_by: at
    over: {over}
    partitions: 3
ordering: {{early_arrival: {early}, late_arrival: {late}, out_of_order: {out_of_order}, action: {action}}}
query:
  from: readings
  group_by: [k]
  window: {{{window}}}
  aggregates: {aggregates}
  {having and f"having: {having}"}
end_of_log: {end}
keep_verdicts: {keep}
""")


def random_log(seed: str, events: int = 400, first_sequence: int = 0, gap: int = 1) -> list[dict[str, Any]]:
    """Three partitions over two hours, ties in arrival time, lateness on and around every bound, a pause."""
    chance = random.Random(seed)
    rows = []
    arrival_us = NOON_US
    following = dict.fromkeys(range(3), first_sequence)
    for index in range(events):
        arrival_us += chance.choice([0, 0, 1, SECOND, 20 * SECOND, 40 * SECOND])
        if index == events // 2:
            arrival_us += 50 * MINUTE
        partition = chance.choice([0, 0, 0, 1, 2])
        ago_us = chance.choice([0, 0, 1, 5, 10, 10, 11, 60, 119, 120, 121, 600, -1, -30, -299, -300, -301]) * SECOND
        at_us = None if chance.random() < 0.03 else arrival_us - ago_us + chance.choice([-1, 0, 0, 1])
        rows.append(
            {
                "partition": partition,
                "sequence": following[partition],
                "arrival": format_instant(arrival_us),
                "at": None if at_us is None else format_instant(at_us),
                "k": chance.choice(["x", "x", "y", None]),
                "x": chance.choice([0.1, 1e-9, 3.5, -7.25]),
            }
        )
        following[partition] += chance.randrange(1, gap + 1)
    return rows


Answer = tuple[Counter[str], Counter[str], int]
"""Verdicts but those that simply count, windows, and how many events simply count."""


def answer(
    spark: SparkSession, asked: Job, rows: Sequence[Row], strategy: WatermarkStrategy, output: OutputRange = EVERYTHING
) -> Answer:
    lie = slices(spark, asked, rows) if strategy.verdicts == "file_order" else None
    given, how = logs(spark, asked, rows), {"strategy": strategy, "slices": lie}
    result: Result | StepsResult
    if asked.steps is None:
        result = engine.run(asked, given, output, **how)
        windows = result.windows.drop("output_date")
    else:
        result = engine.run_steps(asked, given, {}, output, **how)
        (windows,) = result.outputs.values()
    decided, counts = local_rows_of_each(result.verdicts, windows)
    exceptions = exceptions_of(map(verdict_row, decided))
    return exceptions, counted(counts), (sum(result.events.values()) or len(decided)) - exceptions.total()


def expected(asked: Job, rows: Sequence[Row], output: OutputRange = EVERYTHING) -> Answer:
    """What the reference engine gives."""
    found = reference(asked, rows, output)
    exceptions = exceptions_of(found.verdicts)
    assert exceptions
    assert found.windows
    return exceptions, counted(found.windows), len(found.verdicts) - exceptions.total()


def exceptions_of(verdicts: Iterable[Row]) -> Counter[str]:
    return counted(row for row in verdicts if row["verdict"] != "accepted")


def counted(rows: Iterable[Row]) -> Counter[str]:
    """Rows without the order of their columns, values to the bit."""
    return Counter(repr(sorted((name, plain(value)) for name, value in row.items())) for row in rows)


def plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


JOBS = {
    "adjust": job(),
    "in order at once": job(out_of_order="0s"),
    "drop": job(action="drop"),
    "no guard": job(early="off"),
    "unbounded": job(early="off", late="unbounded"),
    "over": job(over="[k]"),
    "over, however late": job(over="[k]", late="unbounded", out_of_order="0s"),
    "over, gaps": job("hopping: {size: 20s, hop: 1m, offset: 7s}", over="[k]", early="off"),
    "over and drop": job(over="[k]", action="drop"),
    "all verdicts": job(keep="all"),
    "hold": job(end="hold"),
    "hopping": job("hopping: {size: 90s, hop: 1m}"),
    "gaps": job("hopping: {size: 20s, hop: 1m, offset: 7s}"),
    "several": job("any_of: {a: {tumbling: {size: 1m}}, b: {hopping: {size: 5m, hop: 2m, offset: 30s}}}"),
    "sliding": job("sliding: {size: 1m}"),
    "session": job("session: {timeout: 1m, max_duration: 5m}"),
    "ordered": job(aggregates="{first: first(x), all: collect(x)}"),
}


@pytest.fixture(autouse=True)
def several_task_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small logs as large ones are cut."""
    monkeypatch.setattr(task_ranges, "ROWS_PER_TASK", 100)


STRATEGIES = {
    "packed": PACKED,
    "grid_cells": GRID_CELLS,
    "file_order": FILE_ORDER,
    "file_order in cells": FILE_ORDER_IN_CELLS,
}
PART = OutputRange(NOON_US + 20 * MINUTE, NOON_US + 100 * MINUTE + 1)


def combinations(*strategies: str) -> Iterator[Any]:
    """Every job with every strategy, all but one of a job's slow; each strategy is with several jobs that are not."""
    for row, name in enumerate(JOBS):
        for column, strategy in enumerate(strategies):
            marks = [pytest.mark.slow] if (row + column) % len(strategies) else []
            yield pytest.param(name, strategy, marks=marks, id=f"{name}, {strategy}")


def windows_alone(
    spark: SparkSession, asked: Job, rows: Sequence[Row], strategy: WatermarkStrategy, output: OutputRange = EVERYTHING
) -> Counter[str]:
    lie = slices(spark, asked, rows) if strategy.verdicts == "file_order" else None
    found = engine.windows_alone(asked, logs(spark, asked, rows), output, strategy=strategy, slices=lie)
    return counted(local_rows(found.drop("output_date")))


@cache
def expected_of(name: str) -> Answer:
    return expected(JOBS[name], random_log(name), PART)


@pytest.mark.parametrize(("name", "strategy"), list(combinations(*STRATEGIES)))
def test_every_method_gives_what_the_reference_gives(spark: SparkSession, name: str, strategy: str) -> None:
    assert answer(spark, JOBS[name], random_log(name), STRATEGIES[strategy], PART) == expected_of(name)


@pytest.mark.parametrize(("name", "strategy"), list(combinations("grid_cells", "file_order in cells")))
def test_windows_without_verdicts_are_the_same(spark: SparkSession, name: str, strategy: str) -> None:
    rows, chosen = random_log(name), STRATEGIES[strategy]
    assert windows_alone(spark, JOBS[name], rows, chosen, PART) == expected_of(name)[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_windows_that_a_step_reads_are_the_same(spark: SparkSession, strategy: str) -> None:
    asked, rows = job(having="n > 1"), random_log("having")
    assert answer(spark, asked, rows, STRATEGIES[strategy], PART) == answer(spark, asked, rows, SORT, PART)


@pytest.mark.parametrize("name", ["adjust", "over", "session"])
@pytest.mark.parametrize("fault", ["swapped", "there twice"])
def test_what_was_taken_to_be_in_order_and_is_not_gives_no_numbers(spark: SparkSession, name: str, fault: str) -> None:
    asked, rows = JOBS[name], random_log(name)
    one, other = [index for index, row in enumerate(rows) if row["partition"] == 1][7:9]
    wrong = list(rows)
    wrong[other] = rows[one] if fault == "there twice" else {**rows[one], "arrival": rows[other]["arrival"]}
    wrong[one] = rows[one] if fault == "there twice" else {**rows[other], "arrival": rows[one]["arrival"]}
    for strategy in (FILE_ORDER, FILE_ORDER_IN_CELLS):
        given, lie = logs(spark, asked, rows), slices(spark, asked, wrong)
        result = engine.run(asked, given, strategy=strategy, slices=lie)
        sentence = f"{NOT_IN_ORDER}: sequence {rows[one]['sequence']} of partition 1 follows a later one"
        with pytest.raises(PySparkException, match=sentence):
            result.verdicts.collect()


def test_slices_out_of_order_give_no_numbers_either(spark: SparkSession) -> None:
    asked, rows = JOBS["adjust"], random_log("pieces")
    files = slices(spark, asked, rows)["readings"]()
    lie = {"readings": lambda: files[::-1]}
    result = engine.run(asked, logs(spark, asked, rows), strategy=FILE_ORDER, slices=lie)
    with pytest.raises(PySparkException, match=NOT_IN_ORDER):
        result.windows.collect()


@pytest.mark.parametrize("over", ["[]", "[k]"])
def test_what_arrives_where_a_task_range_begins_counts_there_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, over: str
) -> None:
    monkeypatch.setattr(task_ranges, "ROWS_PER_TASK", 1)
    begin = [NOON_US + 15 * MINUTE, NOON_US + 30 * MINUTE]
    found: list[tuple[int, ...]] = []
    in_order = file_order._in_order
    monkeypatch.setattr(file_order, "_in_order", lambda *given: found.append(given[1].cuts) or in_order(*given))
    # the first raises what the second, still before the range, does not reach; of the ties the first does, and the last
    # knows the one between
    places_us = [(-2, 30), (-1, 29), (0, 30), (0, 40), (0, 39), (1, 39)]
    asked = job(over=over, out_of_order="0s", aggregates="{n: count(*)}")
    rows = [
        {
            "sequence": 6 * task_range + index,
            "arrival": format_instant(cut + after_us),
            "at": format_instant(cut + ahead_us),
            "k": "x",
            "x": 1.0,
        }
        for task_range, cut in enumerate(begin)
        for index, (after_us, ahead_us) in enumerate(places_us)
    ]
    lie = slices(spark, asked, rows, count=len(rows))
    for strategy in (FILE_ORDER, SORT, PACKED, GRID_CELLS):
        result = engine.run(asked, logs(spark, asked, rows), strategy=strategy, slices=lie)
        moved = result.verdicts.filter("system_timestamp > event_time").collect()
        late = sorted((row["sequence"], row["system_timestamp"].microsecond) for row in moved)
        assert late == [(1, 30), (4, 40), (5, 40), (7, 30), (10, 40), (11, 40)]
        assert [row["n"] for row in result.windows.collect()] == [6, 6]
    assert found == [tuple(begin)]


def test_a_timeline_that_only_ever_came_early_borrows_no_other_watermark(spark: SparkSession) -> None:
    rows = random_log("early")
    last = rows[-1]
    early = {**last, "sequence": last["sequence"] + 1, "k": "never in time", "at": "2026-01-03T00:00:00Z"}
    for strategy in (PACKED, FILE_ORDER, FILE_ORDER_IN_CELLS):
        assert answer(spark, JOBS["over"], [*rows, early], strategy) == expected(JOBS["over"], [*rows, early])


@pytest.mark.parametrize(
    ("first", "gap", "verdicts", "windows"),
    [
        (2**63 - 2000, 2, (PACKED, FILE_ORDER), (GRID_CELLS, FILE_ORDER_IN_CELLS)),
        (0, 2**53, (PACKED,), (FILE_ORDER_IN_CELLS,)),
        (-(2**40), 3, (FILE_ORDER,), (GRID_CELLS,)),
    ],
)
def test_positions_may_lie_anywhere_in_63_bits(
    spark: SparkSession,
    first: int,
    gap: int,
    verdicts: Sequence[WatermarkStrategy],
    windows: Sequence[WatermarkStrategy],
) -> None:
    rows = random_log("positions", first_sequence=first, gap=gap)
    wanted = expected(JOBS["adjust"], rows)
    for strategy in verdicts:
        assert answer(spark, JOBS["adjust"], rows, strategy) == wanted
    for strategy in windows:
        assert windows_alone(spark, JOBS["adjust"], rows, strategy) == wanted[1]


@pytest.mark.parametrize("limit", ["grid_cells.MOST_ASKED", "grid_cells.MOST_STEPS", "statistics.MOST_ROWS"])
def test_what_is_too_much_for_a_method_is_answered_by_another(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    asked, rows = JOBS["over"], random_log("too much")
    monkeypatch.setattr(f"pipelines.batch.stream_analytics.watermarks.{limit}", 0)
    assert answer(spark, asked, rows, GRID_CELLS) == expected(asked, rows)
    assert windows_alone(spark, asked, rows, GRID_CELLS) == expected(asked, rows)[1]


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("file_order.MOST_STATES", 35),
        ("file_order.MOST_STATES", 36),
        ("task_ranges._MOST_NUMBERED_PARTITIONS", 2),
        ("task_ranges._MOST_NUMBERED_PARTITIONS", 3),
    ],
)
def test_what_tasks_cannot_keep_is_packed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    asked, rows = JOBS["over"], random_log("too many")
    monkeypatch.setattr(f"pipelines.batch.stream_analytics.watermarks.{limit}", most)
    done = Counter[str]()
    monkeypatch.setattr(strategies, "packed", lambda *given: done.update(["packed"]) or packed(*given))
    made = TaskRanges.timelines.func
    counted_once = cached_property(lambda ranges: done.update(["timelines"]) or made(ranges))
    counted_once.__set_name__(TaskRanges, "timelines")
    monkeypatch.setattr(TaskRanges, "timelines", counted_once)
    assert answer(spark, asked, rows, FILE_ORDER) == expected(asked, rows)
    assert done["packed"] == (most in (35, 2))
    # whoever asks, and whoever asks again
    assert done["timelines"] == 1
