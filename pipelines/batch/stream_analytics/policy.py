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

from typing import NamedTuple

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
from pipelines.core.model import StreamAnalyticsOrdering, Verdict

_OUTCOME = "__outcome"


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


class Outcome(NamedTuple):
    """A verdict and its reasons."""

    verdict: Verdict
    reasons: tuple[str, ...]


def outcomes(policy: StreamAnalyticsOrdering) -> list[Outcome]:
    """What the policy can decide of an event, by the numbers that :func:`outcome` gives; accepted is 0."""
    refusals = [Outcome("dropped", (reason,)) for reason in ("invalid_time", "invalid_key", "early")]
    if policy.action == "drop":
        moves = [Outcome("dropped", ("late",)), Outcome("dropped", ("out_of_order",))]
    else:
        moves = [Outcome("adjusted", why) for why in (("late", "out_of_order"), ("late",), ("out_of_order",))]
    return [Outcome("accepted", ()), *refusals, *moves]


def outcome(policy: StreamAnalyticsOrdering, time: Column, watermark: Column) -> Column:
    """The number of the first of :func:`outcomes` that applies to an event with this TIME_US and WATERMARK_US."""
    late = F.coalesce(F.col(EVENT_US) < time, F.lit(False))
    out_of_order = F.coalesce(time < watermark, F.lit(False))
    refusals = [F.col(EVENT_US).isNull(), ~F.col(KEY_VALID), _is_early(policy)]
    moves = [late, out_of_order] if policy.action == "drop" else [late & out_of_order, late, out_of_order]
    found = F.when(refusals[0], 1)
    for number, applies in enumerate([*refusals[1:], *moves], 2):
        found = found.when(applies, number)
    return found.otherwise(0)


def counts_at_us(policy: StreamAnalyticsOrdering, number: Column, time: Column, watermark: Column) -> Column:
    """SYSTEM_US of an event with that outcome; null if it is dropped."""
    last_refusal = max(place for place, one in enumerate(outcomes(policy)) if one.verdict == "dropped")
    return F.when((number == 0) | (number > last_refusal), F.greatest(time, watermark))


def with_time(rows: DataFrame, policy: StreamAnalyticsOrdering) -> DataFrame:
    """Normalised rows with TIME_US, which is null for punctuations."""
    return rows.withColumn(TIME_US, time_us(policy))


def time_us(policy: StreamAnalyticsOrdering) -> Column:
    """The time of a normalised row that feeds the watermark; null where none does."""
    event, floor = F.col(EVENT_US), _floor(policy)
    moved = event if floor is None else F.greatest(event, floor)
    return F.when(is_valid() & ~_is_early(policy), moved)


def with_verdict(scanned: DataFrame, policy: StreamAnalyticsOrdering) -> DataFrame:
    """Events with TIME_US and MAX_BEFORE_US to events with VERDICT .. MISSED_US."""
    time, watermark = F.col(TIME_US), F.col(WATERMARK_US)
    tested = scanned.withColumn(WATERMARK_US, F.when(is_valid(), watermark_us(policy)))
    numbered = tested.withColumn(_OUTCOME, outcome(policy, time, watermark))
    # Spark folds both lists to constants; cases would repeat the outcome, and make more code than the JVM compiles
    known, number = outcomes(policy), F.col(_OUTCOME)
    verdicts = F.array(*(F.lit(one.verdict) for one in known))
    reasons = F.array(*(F.array(*map(F.lit, one.reasons)).cast("array<string>") for one in known))
    return numbered.withColumns(
        {
            VERDICT: verdicts[number],
            REASONS: reasons[number],
            SYSTEM_US: counts_at_us(policy, number, time, watermark),
            LIFETIME_END_US: F.lit(None).cast("bigint"),
            MISSED_US: F.array().cast("array<bigint>"),
        }
    )


def is_valid() -> Column:
    """Whether an event has a time and a key (G7, S1)."""
    return F.col(EVENT_US).isNotNull() & F.col(KEY_VALID)


def _is_early(policy: StreamAnalyticsOrdering) -> Column:
    if policy.early_arrival_us is None:
        return F.lit(False)
    return F.col(EVENT_US) > F.col(ARRIVAL_US) + policy.early_arrival_us


def _floor(policy: StreamAnalyticsOrdering) -> Column | None:
    """The least time at which an event may count; None if there is none."""
    return None if policy.late_arrival_us is None else F.col(ARRIVAL_US) - policy.late_arrival_us


def watermark_us(policy: StreamAnalyticsOrdering, max_before: str = MAX_BEFORE_US) -> Column:
    """In force when the event arrived, from the greatest time before it; null where nothing set one yet."""
    floor = _floor(policy)
    # greatest passes over the null of a timeline that has had no event yet
    highest = F.col(max_before) if floor is None else F.greatest(F.col(max_before), floor)
    return highest - policy.out_of_order_us


def is_exception(policy: StreamAnalyticsOrdering) -> Column:
    """Whether an event with MAX_BEFORE_US does not simply count at its own time; never null."""
    return ~_simply_counts(F.coalesce(F.col(TIME_US) >= watermark_us(policy), F.lit(True)))


def is_settled(highest_us: Column, policy: StreamAnalyticsOrdering) -> Column:
    """Whether an event simply counts where its timeline has seen no more than ``highest_us``; never null."""
    return _simply_counts(F.col(TIME_US) >= highest_us - policy.out_of_order_us)


def _simply_counts(in_order: Column) -> Column:
    return F.coalesce((F.col(EVENT_US) == F.col(TIME_US)) & in_order, F.lit(False))
