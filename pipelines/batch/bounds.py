"""What one cheap pass over a log says of its watermarks: how far they can have come at each arrival, and no further.

For buckets of arrival time, let X be the greatest ``time - arrival`` of the bucket's events and P the greatest time of
all earlier ones. Whatever had arrived when an event arrives at ``a`` lies in an earlier bucket, at P or less, or in its
own, at ``a + X`` or less. So the running maximum of every timeline is at most ``max(a + X, P)`` there: an event that
is not below that minus the out-of-order tolerance is in order, whatever its timeline has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_US, SEQUENCE, TIME_US
from pipelines.core.time import HOUR, MINUTE

BUCKET = "__bucket"
ROWS = "__rows"
IN_RANGE = "__in_range"
LEAST_SEQUENCE = "__least_sequence"
GREATEST_SEQUENCE = "__greatest_sequence"
LEAST_TIME_US = "__least_time_us"
GREATEST_TIME_US = "__greatest_time_us"
LEAST_ARRIVAL_US = "__least_arrival_us"
GREATEST_ARRIVAL_US = "__greatest_arrival_us"
_LEAD_US = "__lead_us"

_COARSE_US = HOUR
_FINE_US = 15 * MINUTE
_MOST_BUCKETS = 20_000
_NOTHING_US = -(2**62)
"""Below every time that is, and still a number after an arrival is added."""


@dataclass(frozen=True)
class _Bucket:
    index: int
    rows: int
    in_range: int
    least_sequence: int
    greatest_sequence: int
    least_time_us: int | None
    greatest_time_us: int | None
    greatest_arrival_us: int
    lead_us: int | None


@dataclass(frozen=True)
class Facts:
    """``table``: one row per timeline, bucket and whatever else was grouped by; ``buckets``: what they say together.

    Rows of ``table`` lie with the executors until the DataFrame is forgotten, so using it again reads no log.
    """

    table: DataFrame
    table_rows: int
    width_us: int
    buckets: tuple[_Bucket, ...]

    @property
    def rows(self) -> int:
        """Events of the log."""
        return sum(bucket.rows for bucket in self.buckets)

    @property
    def rows_in_range(self) -> int:
        """Events of the log whose arrival lies in the output range."""
        return sum(bucket.in_range for bucket in self.buckets)

    @property
    def sequences(self) -> tuple[int, int]:
        """The least and the greatest sequence number."""
        least = min(bucket.least_sequence for bucket in self.buckets)
        return least, max(bucket.greatest_sequence for bucket in self.buckets)

    @property
    def times_us(self) -> tuple[int, int] | None:
        """The least and the greatest time; None if no event has one."""
        least = [bucket.least_time_us for bucket in self.buckets if bucket.least_time_us is not None]
        greatest = [bucket.greatest_time_us for bucket in self.buckets if bucket.greatest_time_us is not None]
        return (min(least), max(greatest)) if least else None

    @property
    def first_arrival_us(self) -> int:
        """The first arrival of an event, or somewhat before."""
        return min(bucket.index for bucket in self.buckets) * self.width_us

    @property
    def last_arrival_us(self) -> int:
        """The last arrival of an event."""
        return max(bucket.greatest_arrival_us for bucket in self.buckets)

    def highest_at(self, arrival_us: Column, carried_us: int | None) -> Column:
        """BIGINT: no timeline has seen more when an event arrives at ``arrival_us``, nor did one bring more than
        ``carried_us`` into the log."""
        width_us, first, leads, earlier = self._bounds(_NOTHING_US if carried_us is None else carried_us)
        index = (_div(arrival_us, width_us) - F.lit(first)).cast("int")
        return F.greatest(arrival_us + F.get(_literals(leads), index), F.get(_literals(earlier), index))

    def _bounds(self, carried_us: int) -> tuple[int, int, list[int], list[int]]:
        """Width and first of coarser buckets if there are many, and X and P of each."""
        merged = self._merged
        first, last = min(merged), max(merged)
        leads, earlier, so_far = [], [], carried_us
        for index in range(first, last + 1):
            lead_us, greatest_us = merged.get(index, (_NOTHING_US, _NOTHING_US))
            leads.append(lead_us)
            earlier.append(so_far)
            so_far = max(so_far, greatest_us)
        return self.width_us * self._coarser, first, leads, earlier

    @cached_property
    def _coarser(self) -> int:
        indexes = [bucket.index for bucket in self.buckets]
        return max(1, -(-(max(indexes) - min(indexes) + 1) // _MOST_BUCKETS))

    @cached_property
    def _merged(self) -> dict[int, tuple[int, int]]:
        merged: dict[int, tuple[int, int]] = {}
        for bucket in self.buckets:
            index = bucket.index // self._coarser
            lead_us, greatest_us = merged.get(index, (_NOTHING_US, _NOTHING_US))
            if bucket.lead_us is not None and bucket.greatest_time_us is not None:
                lead_us, greatest_us = max(lead_us, bucket.lead_us), max(greatest_us, bucket.greatest_time_us)
            merged[index] = lead_us, greatest_us
        return merged


def facts(timed: DataFrame, timeline: Sequence[str], in_range: Column, further: Sequence[Column] = ()) -> Facts | None:
    """One pass over ``timed``, now: events with ARRIVAL_US, SEQUENCE, TIME_US; None if there are none.

    ``timeline`` names columns; more of them make more rows, so buckets are coarser then. ``further`` columns are
    grouped by as well. ``in_range`` tells the events of the output range.
    """
    width_us = _FINE_US if len(timeline) == 1 else _COARSE_US
    bucket = _div(F.col(ARRIVAL_US), width_us).alias(BUCKET)
    table = (
        timed.groupBy(*timeline, bucket, *further)
        .agg(
            F.count(F.lit(1)).alias(ROWS),
            F.count(F.when(in_range, F.lit(1))).alias(IN_RANGE),
            F.min(SEQUENCE).alias(LEAST_SEQUENCE),
            F.max(SEQUENCE).alias(GREATEST_SEQUENCE),
            F.min(TIME_US).alias(LEAST_TIME_US),
            F.max(TIME_US).alias(GREATEST_TIME_US),
            F.min(ARRIVAL_US).alias(LEAST_ARRIVAL_US),
            F.max(ARRIVAL_US).alias(GREATEST_ARRIVAL_US),
            F.max(F.col(TIME_US) - F.col(ARRIVAL_US)).alias(_LEAD_US),
        )
        .localCheckpoint(eager=True)
    )
    found = (
        table.groupBy(BUCKET)
        .agg(
            F.sum(ROWS),
            F.sum(IN_RANGE),
            F.min(LEAST_SEQUENCE),
            F.max(GREATEST_SEQUENCE),
            F.min(LEAST_TIME_US),
            F.max(GREATEST_TIME_US),
            F.max(GREATEST_ARRIVAL_US),
            F.max(_LEAD_US),
            F.count(F.lit(1)),
        )
        .collect()
    )
    if not found:
        return None
    return Facts(table, sum(row[-1] for row in found), width_us, tuple(_Bucket(*row[:-1]) for row in found))


def _div(instant_us: Column, width_us: int) -> Column:
    """The bucket that holds the instant: rounded down, also before 1970."""
    return F.call_function("div", instant_us - F.pmod(instant_us, F.lit(width_us)), F.lit(width_us).cast("bigint"))


def _literals(values: Sequence[int]) -> Column:
    """ARRAY<BIGINT> as one literal, however long."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast("array<bigint>")
