"""The combined watermark of an Atlas input, and what it has closed, just before each row arrived.

Of each input partition ``p`` two bounds are known, both rising: ``E_p``, the largest valid event time, and ``P_p``, the
largest punctuation that speaks for ``p`` (its own, or one that speaks for all). With allowed lateness ``L``:

- the watermark is the least over the partitions of ``max(E_p, P_p)`` (A3; idle closes are punctuations, A10);
- a window is closed once its ``end <= closed``, the least over the partitions of ``max(E_p - L, P_p)`` (A4).

So lateness delays only what events say. With one partition, or for a punctuation that speaks for all, this is "closed
once ``end <= max(E - L, P)``"; a punctuation for one of several partitions lifts that partition's bound and the others
still hold theirs back. A partition without either bound holds everything back: both columns are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_US, EVENT_US, PARTITION, PUNCTUATION_US, SEQUENCE, WATERMARK_US
from pipelines.core.model import Input
from pipelines.plan.initial_state import InitialState, TimelineState

CLOSED_US = "__closed_us"
"""Everything that ends at or before this instant is closed; null where nothing can be closed yet."""
_ORDER = (ARRIVAL_US, PARTITION, SEQUENCE)


def partitions_of(log: DataFrame, source: Input, initial_state: InitialState | None) -> tuple[int, ...]:
    """The partitions whose minimum is the watermark: ``0 .. n-1`` if the input says so, else all that the log names.

    Without an initial state, which knows them, the latter reads one column of ``log`` at once; all else here is lazy.
    """
    if source.partitions is not None:
        return tuple(range(source.partitions))
    if initial_state is not None:
        return tuple(sorted(initial_state.partitions))
    rows = log.select(PARTITION).where(F.col(PARTITION).isNotNull()).distinct().collect()
    return tuple(sorted(row[0] for row in rows))


def with_watermark(
    log: DataFrame, partitions: Sequence[int], lateness_us: int, seen: Sequence[TimelineState] = ()
) -> DataFrame:
    """``log`` (events and punctuations) with WATERMARK_US and CLOSED_US as they stood before each row.

    ``seen``: what the partitions had seen before the first row. Cost: one sort of the log by arrival order in one
    task, and two running maxima a partition.
    """
    before = Window.partitionBy().orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)

    def bound(value: Column, partition: int, recalled_us: int | None) -> Column:
        # greatest passes over nulls
        return F.greatest(F.max(F.when(_of(partition), value)).over(before), F.lit(recalled_us).cast("bigint"))

    return log.withColumns(
        {
            WATERMARK_US: _least([bound(_watermark(), p, _recalled(seen, p, 0)) for p in partitions]),
            CLOSED_US: _least([bound(_closing(lateness_us), p, _recalled(seen, p, lateness_us)) for p in partitions]),
        }
    )


def closed_at_end(
    log: DataFrame, partitions: Sequence[int], lateness_us: int, seen: Sequence[TimelineState] | None
) -> DataFrame:
    """One row, one column CLOSED_US: what is closed after the last row of the log (A12).

    ``seen``: what the partitions have seen by then; None: ``log`` is the whole of it and says so.
    """
    if seen is not None:
        recalled = [_recalled(seen, partition, lateness_us) for partition in partitions]
        known = [bound for bound in recalled if bound is not None]
        closed_us = min(known) if known and len(known) == len(partitions) else None
        return log.sparkSession.range(1).select(F.lit(closed_us).cast("bigint").alias(CLOSED_US))
    bounds = {f"__bound_{p}": F.max(F.when(_of(p), _closing(lateness_us))) for p in partitions}
    if not bounds:
        return log.agg(F.max(F.lit(None).cast("bigint")).alias(CLOSED_US))
    heard = log.agg(*(bound.alias(name) for name, bound in bounds.items()))
    return heard.select(_least([F.col(name) for name in bounds]).alias(CLOSED_US))


def _recalled(seen: Sequence[TimelineState], partition: int, lateness_us: int) -> int | None:
    """The bound of one partition after what it has seen, punctuations that speak for all included."""
    mine = [one for one in seen if one.partition in (None, partition)]
    times = [one.time_us - lateness_us for one in mine if one.time_us is not None]
    return max(times + [one.punctuation_us for one in mine if one.punctuation_us is not None], default=None)


def _of(partition: int) -> Column:
    """Whether a row speaks for the partition: its own rows, and punctuations that speak for all."""
    return F.col(PARTITION).isNull() | (F.col(PARTITION) == partition)


def _watermark() -> Column:
    return F.coalesce(F.col(EVENT_US), F.col(PUNCTUATION_US))


def _closing(lateness_us: int) -> Column:
    return F.coalesce(F.col(EVENT_US) - lateness_us, F.col(PUNCTUATION_US))


def _least(bounds: Sequence[Column]) -> Column:
    """The least of ``bounds``, null as soon as one is null (or there is none)."""
    if not bounds:
        return F.lit(None).cast("bigint")
    return reduce(lambda least, bound: F.when(bound < least, bound).when(bound >= least, least), bounds)
