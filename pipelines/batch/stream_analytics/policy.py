"""Profile stream_analytics: early guard, late tolerance, out-of-order tolerance, and the verdicts that follow.

With arrival time ``a``, event time ``e``, late tolerance L and out-of-order tolerance O, in this order:

- early iff ``e > a + guard``: dropped whatever the action, and its time moves no watermark (S2);
- late iff ``e < a - L``: moved to ``a - L``, or dropped (S3);
- out of order iff the time so far is ``< W``: moved to ``W``, or dropped (S4),

where ``W = max(M, a - L) - O`` (S7) and M is the largest late-adjusted time of the timeline's events that came before
and were neither early nor invalid. What late or out-of-order events were in the end does not matter to M: a late event
sits at ``a - L``, below which no later event of the partition can lie; an out-of-order one is below M already. That is
why M is a plain prefix maximum (S5). Every comparison is strict; equality is in tolerance. Punctuations are passed
over: an idle watermark never overtakes the arrival it waits for.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import (
    ARRIVAL_US,
    EVENT_US,
    KEY_VALID,
    LIFETIME_END_US,
    MAX_BEFORE_US,
    MISSED_US,
    REASONS,
    SYSTEM_US,
    TIME_US,
    VERDICT,
    WATERMARK_US,
)
from pipelines.core.model import StreamAnalyticsOrdering

_LATE = "__late"
_OUT_OF_ORDER = "__out_of_order"
_REFUSAL = "__refusal"


def at_arrival(events: DataFrame) -> DataFrame:
    """Without ``timestamp_by`` an event counts when it arrives: no policy applies, there is no watermark (S8)."""
    return events.withColumns(
        {
            TIME_US: F.col(EVENT_US),
            LIFETIME_END_US: F.lit(None).cast("bigint"),
            MISSED_US: F.array().cast("array<bigint>"),
            VERDICT: F.lit("accepted"),
            REASONS: F.array().cast("array<string>"),
            SYSTEM_US: F.col(EVENT_US),
            WATERMARK_US: F.lit(None).cast("bigint"),
        }
    )


def with_time(rows: DataFrame, policy: StreamAnalyticsOrdering) -> DataFrame:
    """Normalised rows with TIME_US, which is null for punctuations."""
    event, floor = F.col(EVENT_US), _floor(policy)
    moved = event if floor is None else F.greatest(event, floor)
    return rows.withColumn(TIME_US, F.when(_is_valid() & ~_is_early(policy), moved))


def with_verdict(scanned: DataFrame, policy: StreamAnalyticsOrdering) -> DataFrame:
    """Events with TIME_US and MAX_BEFORE_US to events with VERDICT .. MISSED_US."""
    tested = scanned.withColumn(WATERMARK_US, F.when(_is_valid(), _watermark(policy))).withColumns(
        {
            _LATE: F.coalesce(F.col(EVENT_US) < F.col(TIME_US), F.lit(False)),
            _OUT_OF_ORDER: F.coalesce(F.col(TIME_US) < F.col(WATERMARK_US), F.lit(False)),
        }
    )
    return tested.withColumn(_REFUSAL, _refusal(policy)).withColumns(_judgement())


def _is_valid() -> Column:
    return F.col(EVENT_US).isNotNull() & F.col(KEY_VALID)


def _is_early(policy: StreamAnalyticsOrdering) -> Column:
    if policy.early_arrival_us is None:
        return F.lit(False)
    return F.col(EVENT_US) > F.col(ARRIVAL_US) + policy.early_arrival_us


def _floor(policy: StreamAnalyticsOrdering) -> Column | None:
    """The least time at which an event may count; None if there is none."""
    return None if policy.late_arrival_us is None else F.col(ARRIVAL_US) - policy.late_arrival_us


def _watermark(policy: StreamAnalyticsOrdering) -> Column:
    """In force when the event arrived, from MAX_BEFORE_US; null where nothing set one yet."""
    floor = _floor(policy)
    # greatest passes over the null of a timeline that has had no event yet
    highest = F.col(MAX_BEFORE_US) if floor is None else F.greatest(F.col(MAX_BEFORE_US), floor)
    return highest - policy.out_of_order_us


def is_exception(policy: StreamAnalyticsOrdering) -> Column:
    """Whether an event with MAX_BEFORE_US does not simply count at its own time; never null."""
    return ~_simply_counts(F.coalesce(F.col(TIME_US) >= _watermark(policy), F.lit(True)))


def is_settled(highest_us: Column, policy: StreamAnalyticsOrdering) -> Column:
    """Whether an event simply counts where its timeline has seen no more than ``highest_us``; never null."""
    return _simply_counts(F.col(TIME_US) >= highest_us - policy.out_of_order_us)


def _simply_counts(in_order: Column) -> Column:
    return F.coalesce((F.col(EVENT_US) == F.col(TIME_US)) & in_order, F.lit(False))


def _refusal(policy: StreamAnalyticsOrdering) -> Column:
    """The name of the first test that refused the event (G7, S1, S2, ..), or null."""
    refusal = (
        F.when(F.col(EVENT_US).isNull(), "invalid_time")
        .when(~F.col(KEY_VALID), "invalid_key")
        .when(_is_early(policy), "early")
    )
    if policy.action == "drop":
        refusal = refusal.when(F.col(_LATE), "late").when(F.col(_OUT_OF_ORDER), "out_of_order")
    return refusal


def _judgement() -> dict[str, Column]:
    refusal = F.col(_REFUSAL)
    late, out_of_order, none = F.lit("late"), F.lit("out_of_order"), F.array().cast("array<string>")
    # said case by case: a lambda over an array would cut Spark's generated code in two
    moved_by = (
        F.when(F.col(_LATE) & F.col(_OUT_OF_ORDER), F.array(late, out_of_order))
        .when(F.col(_LATE), F.array(late))
        .when(F.col(_OUT_OF_ORDER), F.array(out_of_order))
        .otherwise(none)
    )
    moved = F.col(_LATE) | F.col(_OUT_OF_ORDER)
    return {
        VERDICT: F.when(refusal.isNotNull(), "dropped").when(moved, "adjusted").otherwise("accepted"),
        REASONS: F.when(refusal.isNotNull(), F.array(refusal)).otherwise(moved_by),
        SYSTEM_US: F.when(refusal.isNull(), F.greatest(F.col(TIME_US), F.col(WATERMARK_US))),
        LIFETIME_END_US: F.lit(None).cast("bigint"),
        MISSED_US: F.array().cast("array<bigint>"),
    }
