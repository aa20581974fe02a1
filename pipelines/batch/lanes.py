"""Lanes: ranges of arrival that one task each reads, and where they begin."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession

from pipelines.batch.bounds import Facts
from pipelines.batch.columns import PARTITION
from pipelines.batch.local_rows import local_frame
from pipelines.core.carry import greater
from pipelines.core.facts import WIDTH_US
from pipelines.core.time import format_instant

RANK = "__rank"
"""The number of a timeline."""

ROWS_A_LANE = 4_000_000
_LEAST_ROWS_A_LANE = 250_000
_MOST_LANES = 64
_PLAIN_PARTITIONS = 256


def cuts(facts: Facts, cores: int) -> tuple[int, ...]:
    """Arrivals at which a new lane begins, so that lanes have about as many rows and cores about as many lanes."""
    wanted = max(-(-facts.rows // ROWS_A_LANE), min(cores, facts.rows // _LEAST_ROWS_A_LANE), 1)
    share = facts.rows / min(-(-wanted // cores) * cores if wanted > cores else wanted, _MOST_LANES)
    found: list[int] = []
    rows = 0
    for (_, count), (following, _) in pairwise(facts.rows_by_bucket.items()):
        rows += count
        if rows >= share * (len(found) + 1):
            found.append(following * WIDTH_US)
    return tuple(found)


def ends(cuts: Sequence[int]) -> Iterator[tuple[int | None, int | None]]:
    """``[from, to)`` of each lane; None: open."""
    return zip([None, *cuts], [*cuts, None], strict=True)


def arrived(
    rows: DataFrame, from_us: int | None, to_us: int | None, time: str = "arrival_time", day: str = "arrival_date"
) -> DataFrame:
    """What arrived in ``[from, to)``; files and row groups of other times are not read. ``day`` may be missing."""
    bounds = []
    for sign, end_us in ((">=", from_us), ("<", to_us)):
        if end_us is not None:
            instant = format_instant(end_us)
            bounds.append(f"{time} {sign} TIMESTAMP '{instant}'")
            if day in rows.columns:
                bounds.append(f"{day} {sign.rstrip('=')}= DATE '{instant[:10]}'")
    return rows.filter(" AND ".join(bounds)) if bounds else rows


def ranks_of_partitions(spark: SparkSession, facts: Facts) -> tuple[dict[int, int], DataFrame | None]:
    """Numbers of the partitions; and as rows of PARTITION and RANK, unless each partition is its own number."""
    partitions = facts.partitions
    if partitions[0] >= 0 and partitions[-1] < _PLAIN_PARTITIONS:
        return {one: one for one in partitions}, None
    ranks = {one: number for number, one in enumerate(partitions)}
    return ranks, local_frame(spark, [(PARTITION, "int"), (RANK, "bigint")], list(ranks.items()))


def highest_before(facts: Facts, cuts: Sequence[int]) -> dict[int, list[int | None]]:
    """By partition: the greatest time that it had seen before each lane, the first included; None: nothing yet."""
    greatest: dict[int, list[int | None]] = {one: [None] * (len(cuts) + 1) for one in facts.partitions}
    for fact in facts.each:
        lanes, lane = greatest[fact.partition], bisect_right(cuts, fact.arrival_us)
        lanes[lane] = greater(lanes[lane], fact.greatest_time_us)
    return {partition: risen(lanes) for partition, lanes in greatest.items()}


def risen(greatest: Sequence[int | None]) -> list[int | None]:
    """The greatest of all lanes before each one, from the greatest of each."""
    before: list[int | None] = [None]
    for time_us in greatest[:-1]:
        before.append(greater(before[-1], time_us))
    return before
