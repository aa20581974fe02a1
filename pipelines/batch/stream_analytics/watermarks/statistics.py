"""What one cheap pass over a log says of its watermarks: how far they can have come at each arrival, and no further.

For buckets of arrival time, let X be the greatest ``time - arrival`` of the bucket's events and P the greatest time of
all earlier ones. Whatever had arrived when an event arrives at ``a`` lies in an earlier bucket, at P or less, or in its
own, at ``a + X`` or less. So the running maximum of every timeline is at most ``max(a + X, P)`` there: an event that
is not below that minus the out-of-order tolerance is in order, whatever its timeline has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_DAY, ARRIVAL_US, PARTITION, SEQUENCE, TIME_US
from pipelines.core.time import date_of
from pipelines.plan.watermark_stats import MOST_FACTS, NOTHING, WIDTH_US, Fact, Recalled

_MOST_BUCKETS = 20_000
_NOTHING_US = -(2**62)
"""Below every time that is, and still a number after an arrival is added."""


@dataclass(frozen=True)
class Facts:
    """All facts of a log that has events; ``found``: those that were not recalled."""

    each: tuple[Fact, ...]
    found: tuple[Fact, ...] = ()

    @cached_property
    def rows(self) -> int:
        """Events of the log."""
        return sum(fact.rows for fact in self.each)

    @cached_property
    def rows_in_range(self) -> int:
        """Events of the log whose arrival lies in the output range."""
        return sum(fact.in_range for fact in self.each)

    @cached_property
    def partitions(self) -> list[int]:
        """The partitions that were heard, rising."""
        return sorted({fact.partition for fact in self.each})

    @cached_property
    def sequences(self) -> tuple[int, int]:
        """The least and the greatest sequence number."""
        return min(fact.least_sequence for fact in self.each), max(fact.greatest_sequence for fact in self.each)

    @cached_property
    def times_us(self) -> tuple[int, int] | None:
        """The least and the greatest time; None if no event has one."""
        least = [fact.least_time_us for fact in self.each if fact.least_time_us is not None]
        greatest = [fact.greatest_time_us for fact in self.each if fact.greatest_time_us is not None]
        return (min(least), max(greatest)) if least else None

    @cached_property
    def lead_us(self) -> int:
        """By how much an event's time was ahead of its arrival at most; negative: all were behind."""
        return max((fact.lead_us for fact in self.each if fact.lead_us is not None), default=0)

    @cached_property
    def end_us(self) -> int:
        """Where the last bucket ends: no event arrives later."""
        return (max(fact.bucket for fact in self.each) + 1) * WIDTH_US

    @cached_property
    def rows_by_bucket(self) -> Mapping[int, int]:
        """How many events arrive in each bucket that has some, rising."""
        found: dict[int, int] = {}
        for fact in self.each:
            found[fact.bucket] = found.get(fact.bucket, 0) + fact.rows
        return dict(sorted(found.items()))

    def highest_at(self, arrival_us: Column, carried_us: int | None) -> Column:
        """BIGINT: no timeline has seen more when an event arrives at ``arrival_us``, nor did one bring more than
        ``carried_us`` into the log."""
        first, leads, greatest = self._bounds
        earlier = list(accumulate(greatest, max, initial=_NOTHING_US if carried_us is None else carried_us))[:-1]
        index = (_div(arrival_us, WIDTH_US * self._coarser) - F.lit(first)).cast("int")
        return F.greatest(arrival_us + F.get(_literals(leads), index), F.get(_literals(earlier), index))

    @cached_property
    def _bounds(self) -> tuple[int, list[int], list[int]]:
        """The first of coarser buckets if there are many, and of each its greatest lead and time."""
        first = min(fact.bucket for fact in self.each) // self._coarser
        last = max(fact.bucket for fact in self.each) // self._coarser
        leads, greatest = [_NOTHING_US] * (last - first + 1), [_NOTHING_US] * (last - first + 1)
        for fact in self.each:
            if fact.lead_us is not None and fact.greatest_time_us is not None:
                index = fact.bucket // self._coarser - first
                leads[index] = max(leads[index], fact.lead_us)
                greatest[index] = max(greatest[index], fact.greatest_time_us)
        return first, leads, greatest

    @cached_property
    def _coarser(self) -> int:
        buckets = [fact.bucket for fact in self.each]
        return max(1, -(-(max(buckets) - min(buckets) + 1) // _MOST_BUCKETS))


def facts(
    timed: DataFrame, *, counted: Column | None = None, cell: Column | None = None, recalled: Recalled = NOTHING
) -> Facts | None:
    """One pass over ``timed``, now: events with PARTITION, ARRIVAL_US, SEQUENCE, TIME_US.

    ``counted`` tells the events of the output range (None: all). ``cell`` is grouped by as well. Days that are
    ``recalled`` are passed over by their ARRIVAL_DAY. None if there are no events, or more than
    :data:`pipelines.plan.watermark_stats.MOST_FACTS` facts.
    """
    found = () if recalled.complete else _found(timed, counted, cell, recalled.days)
    each = (*recalled.each, *found)
    return Facts(each, found) if 0 < len(each) <= MOST_FACTS else None


def _found(timed: DataFrame, counted: Column | None, cell: Column | None, but: Collection[int]) -> tuple[Fact, ...]:
    keys = {"partition": F.col(PARTITION), "bucket": _div(F.col(ARRIVAL_US), WIDTH_US)}
    if cell is not None:
        keys["cell_us"] = cell
    found = {
        "rows": F.count(F.lit(1)),
        "in_range": F.count(F.lit(1) if counted is None else F.when(counted, F.lit(1))),
        "least_sequence": F.min(SEQUENCE),
        "greatest_sequence": F.max(SEQUENCE),
        "least_time_us": F.min(TIME_US),
        "greatest_time_us": F.max(TIME_US),
        "lead_us": F.max(F.col(TIME_US) - F.col(ARRIVAL_US)),
        "least_arrival_us": F.min(ARRIVAL_US),
    }
    if but:
        timed = timed.filter(~F.col(ARRIVAL_DAY).isin([date_of(day) for day in sorted(but)]))
    grouped = timed.groupBy(*(key.alias(name) for name, key in keys.items()))
    rows = grouped.agg(*(one.alias(name) for name, one in found.items())).limit(MOST_FACTS + 1).collect()
    return tuple(Fact(**{"cell_us": None, **row.asDict()}) for row in rows)


def _div(instant_us: Column, width_us: int) -> Column:
    """The bucket that holds the instant: rounded down, also before 1970."""
    return F.call_function("div", instant_us - F.pmod(instant_us, F.lit(width_us)), F.lit(width_us).cast("bigint"))


def _literals(values: Sequence[int]) -> Column:
    """ARRAY<BIGINT> as one literal, however long."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast("array<bigint>")
