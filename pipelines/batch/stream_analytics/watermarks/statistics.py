"""What one cheap pass over a log finds: bounds of its watermarks, for buckets of arrival time.

For a bucket, let X be the greatest ``time - arrival`` of its events and P the greatest time of all earlier buckets.
Whatever had arrived when an event arrives at ``a`` is in an earlier bucket, at P or less, or in the event's own, at
``a + X`` or less. So the running maximum of every timeline is at most ``max(a + X, P)`` there. An event that is not
below that minus the out-of-order tolerance is in order, whatever its timeline has seen (S4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_US, PARTITION, SEQUENCE, TIME_US
from pipelines.core.time import MINUTE

BUCKET_US = 15 * MINUTE
MOST_ROWS = 500_000
"""More statistics would not fit the driver's memory with ease."""
_MOST_BUCKETS = 20_000
_NO_TIME_US = -(2**62)
"""Below every time that is, and still a number after an arrival is added."""


class BucketStatistics(NamedTuple):
    """Statistics of the events of one partition and bucket of arrival, and of one cell where cells were asked for.

    ``in_range``: those of its ``rows`` that arrived in the output range. ``lead_us``: the greatest ``time - arrival``.
    """

    partition: int
    bucket: int
    cell_us: int | None
    rows: int
    in_range: int
    least_sequence: int
    greatest_sequence: int
    least_time_us: int | None
    greatest_time_us: int | None
    lead_us: int | None
    least_arrival_us: int

    @property
    def arrival_us(self) -> int:
        """Where its bucket begins."""
        return self.bucket * BUCKET_US


@dataclass(frozen=True)
class LogStatistics:
    """The statistics of a log that has events."""

    buckets: tuple[BucketStatistics, ...]

    @cached_property
    def rows(self) -> int:
        """Events of the log."""
        return sum(one.rows for one in self.buckets)

    @cached_property
    def rows_in_range(self) -> int:
        """Events of the log whose arrival is in the output range."""
        return sum(one.in_range for one in self.buckets)

    @cached_property
    def partitions(self) -> list[int]:
        """The partitions that have events, rising."""
        return sorted({one.partition for one in self.buckets})

    @cached_property
    def sequences(self) -> tuple[int, int]:
        """The least and the greatest sequence number."""
        return min(one.least_sequence for one in self.buckets), max(one.greatest_sequence for one in self.buckets)

    @cached_property
    def times_us(self) -> tuple[int, int] | None:
        """The least and the greatest time; None if no event has one."""
        least = [one.least_time_us for one in self.buckets if one.least_time_us is not None]
        greatest = [one.greatest_time_us for one in self.buckets if one.greatest_time_us is not None]
        return (min(least), max(greatest)) if least else None

    @cached_property
    def end_us(self) -> int:
        """Where the last bucket ends: no event arrives later."""
        return (max(one.bucket for one in self.buckets) + 1) * BUCKET_US

    @cached_property
    def rows_by_bucket(self) -> Mapping[int, int]:
        """How many events arrive in each bucket that has some, rising."""
        found: dict[int, int] = {}
        for one in self.buckets:
            found[one.bucket] = found.get(one.bucket, 0) + one.rows
        return dict(sorted(found.items()))

    def greatest_time_at(self, arrival_us: Column, before_us: int | None) -> Column:
        """BIGINT: no timeline has seen more when an event arrives at ``arrival_us``; ``before_us`` is the greatest time
        that any had seen before the log's first arrival."""
        first, leads, greatest = self._bounds
        earlier = list(accumulate(greatest, max, initial=_NO_TIME_US if before_us is None else before_us))[:-1]
        index = (_bucket(arrival_us, BUCKET_US * self._coarser) - F.lit(first)).cast("int")
        return F.greatest(arrival_us + F.get(_literals(leads), index), F.get(_literals(earlier), index))

    @cached_property
    def _bounds(self) -> tuple[int, list[int], list[int]]:
        """The first of coarser buckets if there are many, and of each its greatest lead and time."""
        first = min(one.bucket for one in self.buckets) // self._coarser
        last = max(one.bucket for one in self.buckets) // self._coarser
        leads, greatest = [_NO_TIME_US] * (last - first + 1), [_NO_TIME_US] * (last - first + 1)
        for one in self.buckets:
            if one.lead_us is not None and one.greatest_time_us is not None:
                index = one.bucket // self._coarser - first
                leads[index] = max(leads[index], one.lead_us)
                greatest[index] = max(greatest[index], one.greatest_time_us)
        return first, leads, greatest

    @cached_property
    def _coarser(self) -> int:
        buckets = [one.bucket for one in self.buckets]
        return max(1, -(-(max(buckets) - min(buckets) + 1) // _MOST_BUCKETS))


def log_statistics(timed: DataFrame, in_range: Column, cell: Column | None = None) -> LogStatistics | None:
    """One pass over ``timed``, now: events with PARTITION, ARRIVAL_US, SEQUENCE, TIME_US.

    ``in_range`` is whether an event arrived in the output range; ``cell`` is grouped by as well. None if there are no
    events, or more than :data:`MOST_ROWS` statistics.
    """
    keys = {"partition": F.col(PARTITION), "bucket": _bucket(F.col(ARRIVAL_US), BUCKET_US)}
    if cell is not None:
        keys["cell_us"] = cell
    values = {
        "rows": F.count(F.lit(1)),
        "in_range": F.count(F.when(in_range, F.lit(1))),
        "least_sequence": F.min(SEQUENCE),
        "greatest_sequence": F.max(SEQUENCE),
        "least_time_us": F.min(TIME_US),
        "greatest_time_us": F.max(TIME_US),
        "lead_us": F.max(F.col(TIME_US) - F.col(ARRIVAL_US)),
        "least_arrival_us": F.min(ARRIVAL_US),
    }
    grouped = timed.groupBy(*(key.alias(name) for name, key in keys.items()))
    rows = grouped.agg(*(value.alias(name) for name, value in values.items())).limit(MOST_ROWS + 1).collect()
    if not 0 < len(rows) <= MOST_ROWS:
        return None
    return LogStatistics(tuple(BucketStatistics(**{"cell_us": None, **row.asDict()}) for row in rows))


def _bucket(instant_us: Column, width_us: int) -> Column:
    """The number of the bucket that contains the instant: rounded down, also before 1970."""
    return F.call_function("div", instant_us - F.pmod(instant_us, F.lit(width_us)), F.lit(width_us).cast("bigint"))


def _literals(values: Sequence[int]) -> Column:
    """ARRAY<BIGINT> as one literal, however long."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast("array<bigint>")
