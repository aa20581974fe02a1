"""Parts of profile stream_insight in the batch engine: triggers in chunks, windows over lifetimes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.core.model import Window

pytestmark = pytest.mark.spark

ZERO_US = 1_767_225_600_000_000


def test_more_triggers_than_one_chunk_holds_are_all_found(spark: SparkSession) -> None:
    from pipelines.batch.stream_insight import current_time as cti

    maxima = spark.range(0, 12_000, 3).selectExpr("id AS instant_us")
    found = sorted(row[0] for row in cti._jump_chain(maxima, 10, None).collect())
    assert found == list(range(0, 12_000, 12)), "every 10 among multiples of 3 is every 12"
    assert len(found) > cti._CHUNK


def members(
    spark: SparkSession,
    window: Window,
    *lifetimes: tuple[str, int, int | None],
    limit: int | None = None,
    hold: bool = False,
) -> dict[tuple[int, int], list[str]]:
    """Windows of lifetimes named ``group/name``: {(start, end): names}."""
    from pipelines.batch.columns import LIFETIME_END_US, SYSTEM_US, WINDOW_END_US, WINDOW_START_US
    from pipelines.batch.stream_insight.lifetimes import LIMIT_US, lifetime_members

    data = [
        (name.split("/")[0] or None, name, ZERO_US + begin, None if ends is None else ZERO_US + ends)
        for name, begin, ends in lifetimes
    ]
    frame = spark.createDataFrame(data, f"g STRING, name STRING, {SYSTEM_US} BIGINT, {LIFETIME_END_US} BIGINT")
    bound = None if limit is None else spark.createDataFrame([(ZERO_US + limit,)], f"{LIMIT_US} BIGINT")
    result = defaultdict(list)
    rows = lifetime_members(frame, window, ["g"], hold=hold, limit=bound)
    for begin, ends, name in rows.select(WINDOW_START_US, WINDOW_END_US, "name").collect():
        result[begin - ZERO_US, ends - ZERO_US].append(name)
    return {key: sorted(names) for key, names in sorted(result.items())}


def grid(size: int, hop: int, offset: int = 0) -> Window:
    from pipelines.core.model import Grid

    return Grid(size, hop, offset, ZERO_US)


def test_a_lifetime_falls_in_every_window_that_it_overlaps(spark: SparkSession) -> None:
    found = members(spark, grid(10, 5), ("g/to", 8, 15), ("g/over", 8, 16), ("g/point", 15, 16), ("g/old", -3, -2))
    assert found == {
        (-10, 0): ["g/old"],
        (-5, 5): ["g/old"],
        (0, 10): ["g/over", "g/to"],
        (5, 15): ["g/over", "g/to"],
        (10, 20): ["g/over", "g/point", "g/to"],
        (15, 25): ["g/over", "g/point"],
    }


def test_a_hop_longer_than_the_window_leaves_gaps(spark: SparkSession) -> None:
    found = members(spark, grid(3, 10, -1), ("g/in", 1, 2), ("g/gap", 2, 9), ("g/across", 1, 10), ("g/next", 9, 10))
    assert found == {(-1, 2): ["g/across", "g/in"], (9, 12): ["g/across", "g/next"]}


def test_an_open_lifetime_falls_in_windows_that_start_at_or_before_the_limit(spark: SparkSession) -> None:
    assert list(members(spark, grid(10, 5), ("g/open", 4, None), limit=10)) == [(-5, 5), (0, 10), (5, 15), (10, 20)]
    assert list(members(spark, grid(10, 5), ("g/open", 4, None), limit=9)) == [(-5, 5), (0, 10), (5, 15)]


def test_windows_under_hold_end_at_or_before_the_limit(spark: SparkSession) -> None:
    both = (("g/open", 4, None), ("g/short", 4, 11))
    assert list(members(spark, grid(10, 5), *both, limit=15, hold=True)) == [(-5, 5), (0, 10), (5, 15)]
    assert list(members(spark, grid(10, 5), *both, limit=14, hold=True)) == [(-5, 5), (0, 10)]


def test_snapshots_lie_between_neighbouring_endpoints_of_their_group(spark: SparkSession) -> None:
    from pipelines.core.model import Snapshot

    lifetimes = (("g/a", 0, 10), ("g/b", 5, 20), ("g/c", 20, 21), ("g/d", 30, None), ("h/e", 7, 9), ("/null", 1, 2))
    found = members(spark, Snapshot(), *lifetimes)
    assert found == {
        (0, 5): ["g/a"],
        (1, 2): ["/null"],
        (5, 10): ["g/a", "g/b"],
        (7, 9): ["h/e"],
        (10, 20): ["g/b"],
        (20, 21): ["g/c"],
    }, "no row for the gap from 21 to 30, none for the snapshot that never ends"
    assert list(members(spark, Snapshot(), *lifetimes, limit=10, hold=True)) == [(0, 5), (1, 2), (5, 10), (7, 9)]


def test_count_windows_span_n_distinct_starts_of_their_group(spark: SparkSession) -> None:
    from pipelines.core.model import Count

    lifetimes = (
        ("g/a", 0, 1),
        ("g/long", 0, 7),
        ("g/b", 5, 6),
        ("g/c", 8, 9),
        ("g/open", 8, None),
        ("g/d", 9, 10),
        ("h/alone", 3, 4),
    )
    found = members(spark, Count(2), *lifetimes)
    assert found == {
        (0, 6): ["g/a", "g/b", "g/long"],
        (5, 9): ["g/b", "g/c", "g/long", "g/open"],
        (8, 10): ["g/c", "g/d", "g/open"],
    }
    assert list(members(spark, Count(2), *lifetimes, limit=9, hold=True)) == [(0, 6), (5, 9)]
    assert list(members(spark, Count(1), *lifetimes)) == [(0, 1), (3, 4), (5, 6), (8, 9), (9, 10)]
