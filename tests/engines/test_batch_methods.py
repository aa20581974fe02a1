"""All methods of finding watermarks give the same verdicts and windows, also where numbers are at their limits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from batch_log import logs, slices
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipelines.batch import engine
from pipelines.batch.stream_analytics import ordering
from pipelines.batch.stream_analytics.watermarks import file_order, task_ranges
from pipelines.batch.stream_analytics.watermarks.file_order import NOT_IN_ORDER
from pipelines.batch.stream_analytics.watermarks.packed import packing
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import MINUTE, SECOND, format_instant, parse_instant
from pipelines.job.load import parse_job
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy, cell_of

pytestmark = pytest.mark.spark

NOON_US = parse_instant("2026-01-01T12:00:00Z")
PACKED = WatermarkStrategy("packed", "packed", "asked for")
FIRST_PASSAGE = WatermarkStrategy("packed", "first_passage", "asked for")
STORED = WatermarkStrategy("stored", "stored", "asked for")
STORED_IN_CELLS = WatermarkStrategy("stored", "first_passage", "asked for")


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


def answer(
    spark: SparkSession, asked: Job, rows: Sequence[Mapping[str, Any]], method: WatermarkStrategy, output: OutputRange
) -> tuple[Counter[Any], Counter[Any], int]:
    """Exceptions, windows, and how many events simply counted."""
    lie = slices(spark, asked, rows) if method.verdicts == "stored" else None
    result = engine.run(asked, logs(spark, asked, rows), output, method=method, slices=lie)
    fates = [tuple(map(repr, row)) for row in result.verdicts.collect()]
    plain = [fate for fate in fates if "'accepted'" in fate and "[]" in fate]
    simply = sum(result.events.values()) - len(fates) + len(plain) if result.events else len(plain)
    return Counter(fates) - Counter(plain), counted(result.windows), simply


def counted(frame: DataFrame) -> Counter[Any]:
    return Counter(tuple(map(repr, row)) for row in frame.collect())


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
def several_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small logs as large ones are cut."""
    monkeypatch.setattr(task_ranges, "ROWS_PER_TASK", 100)


@pytest.mark.parametrize("name", JOBS)
def test_every_method_gives_what_sorting_gives(spark: SparkSession, name: str) -> None:
    asked, rows = JOBS[name], random_log(name)
    part = OutputRange(NOON_US + 20 * MINUTE, NOON_US + 100 * MINUTE + 1)
    expected = answer(spark, asked, rows, SORT, part)
    assert all(expected)
    assert answer(spark, asked, rows, PACKED, part) == expected
    assert answer(spark, asked, rows, FIRST_PASSAGE, part) == expected
    alone = engine.windows_alone(asked, logs(spark, asked, rows), part, method=FIRST_PASSAGE)
    assert counted(alone) == expected[1]
    assert answer(spark, asked, rows, STORED, part) == expected
    if cell_of(asked) is not None:
        assert answer(spark, asked, rows, STORED_IN_CELLS, part) == expected
    lie = slices(spark, asked, rows)
    alone = engine.windows_alone(asked, logs(spark, asked, rows), part, method=STORED_IN_CELLS, slices=lie)
    assert counted(alone) == expected[1]


@pytest.mark.parametrize("name", ["adjust", "over", "session"])
@pytest.mark.parametrize("fault", ["swapped", "there twice"])
def test_what_was_taken_to_be_in_order_and_is_not_gives_no_numbers(spark: SparkSession, name: str, fault: str) -> None:
    asked, rows = JOBS[name], random_log(name)
    one, other = [index for index, row in enumerate(rows) if row["partition"] == 1][7:9]
    wrong = list(rows)
    wrong[other] = rows[one] if fault == "there twice" else {**rows[one], "arrival": rows[other]["arrival"]}
    wrong[one] = rows[one] if fault == "there twice" else {**rows[other], "arrival": rows[one]["arrival"]}
    for method in (STORED, STORED_IN_CELLS):
        given, lie = logs(spark, asked, rows), slices(spark, asked, wrong)
        result = engine.run(asked, given, method=method, slices=lie)
        told = f"{NOT_IN_ORDER}: sequence {rows[one]['sequence']} of partition 1 lies after a later"
        with pytest.raises(PySparkException, match=told):
            result.verdicts.collect()


def test_pieces_out_of_order_give_no_numbers_either(spark: SparkSession) -> None:
    asked, rows = JOBS["adjust"], random_log("pieces")
    files = slices(spark, asked, rows)["readings"]()
    lie = {"readings": lambda: files[::-1]}
    result = engine.run(asked, logs(spark, asked, rows), method=STORED, slices=lie)
    with pytest.raises(PySparkException, match=NOT_IN_ORDER):
        result.windows.collect()


@pytest.mark.parametrize("over", ["[]", "[k]"])
def test_what_arrives_where_a_lane_begins_counts_there_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, over: str
) -> None:
    monkeypatch.setattr(task_ranges, "ROWS_PER_TASK", 1)
    begin = [NOON_US + 15 * MINUTE, NOON_US + 30 * MINUTE]
    found: list[tuple[int, ...]] = []
    looked = file_order._looked
    monkeypatch.setattr(file_order, "_looked", lambda *given: found.append(given[1].cuts) or looked(*given))
    # the first raises what the second, still before the lane, does not reach; of the ties the first does, and the last
    # is told of the one between
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
    for method in (STORED, SORT, PACKED, FIRST_PASSAGE):
        result = engine.run(asked, logs(spark, asked, rows), method=method, slices=lie)
        moved = result.verdicts.filter("system_timestamp > event_time").collect()
        late = sorted((row["sequence"], row["system_timestamp"].microsecond) for row in moved)
        assert late == [(1, 30), (4, 40), (5, 40), (7, 30), (10, 40), (11, 40)]
        assert [row["n"] for row in result.windows.collect()] == [6, 6]
    assert found == [tuple(begin)]


def test_a_timeline_that_only_ever_came_early_borrows_no_other_watermark(spark: SparkSession) -> None:
    rows = random_log("early")
    last = rows[-1]
    early = {**last, "sequence": last["sequence"] + 1, "k": "never in time", "at": "2026-01-03T00:00:00Z"}
    expected = answer(spark, JOBS["over"], [*rows, early], SORT, EVERYTHING)
    for method in (PACKED, STORED, STORED_IN_CELLS):
        assert answer(spark, JOBS["over"], [*rows, early], method, EVERYTHING) == expected


@pytest.mark.parametrize(("first", "gap"), [(2**63 - 2000, 2), (0, 2**53), (-(2**40), 3)])
def test_positions_may_lie_anywhere_in_63_bits(spark: SparkSession, first: int, gap: int) -> None:
    rows = random_log("positions", first_sequence=first, gap=gap)
    expected = answer(spark, JOBS["adjust"], rows, SORT, EVERYTHING)
    for method in (PACKED, STORED, STORED_IN_CELLS):
        assert answer(spark, JOBS["adjust"], rows, method, EVERYTHING) == expected
    alone = engine.windows_alone(JOBS["adjust"], logs(spark, JOBS["adjust"], rows), method=FIRST_PASSAGE)
    assert counted(alone) == expected[1]


@pytest.mark.parametrize("limit", ["first_passage.MOST_ASKED", "first_passage.MOST_STEPS", "bounds.MOST_FACTS"])
def test_what_is_too_much_for_a_method_is_answered_by_another(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    asked, rows = JOBS["over"], random_log("too much")
    expected = answer(spark, asked, rows, SORT, EVERYTHING)
    monkeypatch.setattr(f"pipelines.batch.{limit}", 0)
    assert answer(spark, asked, rows, FIRST_PASSAGE, EVERYTHING) == expected
    alone = engine.windows_alone(asked, logs(spark, asked, rows), method=FIRST_PASSAGE)
    assert counted(alone) == expected[1]


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("stored_order.MOST_REMEMBERED", 35),
        ("stored_order.MOST_REMEMBERED", 36),
        ("lanes._PLAIN_PARTITIONS", 2),
        ("lanes._PLAIN_PARTITIONS", 3),
    ],
)
def test_what_tasks_cannot_remember_is_packed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    asked, rows = JOBS["over"], random_log("too many")
    expected = answer(spark, asked, rows, SORT, EVERYTHING)
    monkeypatch.setattr(f"pipelines.batch.{limit}", most)
    done = Counter[str]()
    monkeypatch.setattr(ordering, "packing", lambda *given: done.update(["packed"]) or packing(*given))
    numbered = task_ranges._numbered
    monkeypatch.setattr(task_ranges, "_numbered", lambda *given: done.update(["numbered"]) or numbered(*given))
    assert answer(spark, asked, rows, STORED, EVERYTHING) == expected
    assert done["packed"] == (most in (35, 2))
    # whoever asks, and whoever asks again
    assert done["numbered"] == 1
