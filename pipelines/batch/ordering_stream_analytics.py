"""Profile stream_analytics: early guard, late tolerance, out-of-order tolerance, and what is made of the survivors.

With arrival time ``a``, event time ``e``, late tolerance L and out-of-order tolerance O, in this order:

- early iff ``e > a + guard``: dropped whatever the action, and its time moves no watermark;
- late iff ``e < a - L``: moved to ``a - L``, or dropped;
- out of order iff the time so far is ``< W``: moved to ``W``, or dropped,

where ``W = max(M, a - L) - O`` and M is the largest late-adjusted time of the timeline's events that came before and
were neither early nor invalid. What late or out-of-order events were in the end does not matter to M: a late event
sits at ``a - L``, below which no later event of the partition can lie; an out-of-order one is below M already. That
is why M is a plain prefix maximum. Every comparison is strict; equality is in tolerance. Punctuations are passed
over: an idle watermark never overtakes the arrival it waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import (
    ARRIVAL_ORDER,
    ARRIVAL_US,
    EVENT_US,
    HOLD_US,
    IS_PUNCTUATION,
    KEY_VALID,
    LIFETIME_END_US,
    MISSED_US,
    PARTITION,
    REASONS,
    SEQUENCE,
    SYSTEM_US,
    VERDICT,
    VERDICT_COLUMNS,
    WATERMARK_US,
    WINDOW,
    WINDOW_END_US,
)
from pipelines.batch.decided import Decided
from pipelines.batch.joins import joined
from pipelines.batch.normalise import condition
from pipelines.batch.scan import prefix_max
from pipelines.batch.windows_stream_analytics import windowed
from pipelines.core.model import Input, Job, Query, StreamAnalyticsOrdering

_TIME_US = "__time_us"
"""The late-adjusted time; null for an event that is invalid or early."""
_MAX_BEFORE_US = "__max_before_us"
_LATE = "__late"
_OUT_OF_ORDER = "__out_of_order"
_REFUSAL = "__refusal"
_LIMIT_US = "__limit_us"

_NEVER_US = -(2**62)
"""The hold limit of a log in which some partition has no watermark: no window ends before it."""


def decide(job: Job, inputs: Mapping[str, DataFrame]) -> Decided:
    """Verdicts of every input of the job, and the members of the query's windows."""
    ordered = {source.name: order(inputs[source.name], source, _policy(job, source)) for source in job.inputs}
    verdicts = reduce(DataFrame.unionByName, [frame.select(*VERDICT_COLUMNS) for frame in ordered.values()])
    counting = {name: frame.filter(F.col(SYSTEM_US).isNotNull()) for name, frame in _with_hold(job, ordered).items()}
    query = job.query
    if query.join is not None:
        sides = (job.input(query.join.left), job.input(query.join.right))
        rows = joined(counting[query.join.left], counting[query.join.right], query.join, sides)
        payload = [query.join.left, query.join.right]
    else:
        payload = [column.name for column in job.input(query.sources[0]).columns]
        columns = [SYSTEM_US, HOLD_US, *ARRIVAL_ORDER, *payload]
        rows = reduce(DataFrame.unionByName, [counting[name].select(*columns) for name in query.sources])
    if query.where is not None:
        rows = rows.filter(condition(rows, query.where, "query.where"))
    members = windowed(rows, query.window, query.group_by)
    if job.end_of_log == "hold":
        members = members.filter(F.col(WINDOW_END_US) < F.col(HOLD_US))
    return Decided(verdicts, members.select(*WINDOW, SYSTEM_US, *ARRIVAL_ORDER, *payload))


def order(arrivals: DataFrame, source: Input, policy: StreamAnalyticsOrdering) -> DataFrame:
    """The events of one normalised input with VERDICT .. MISSED_US, and the time that feeds the watermark."""
    events = arrivals.filter(~F.col(IS_PUNCTUATION))
    judged = _at_arrival(events) if source.timestamp_by is None else _by_policy(events, source, policy)
    return judged.withColumns({LIFETIME_END_US: F.lit(None).cast("bigint"), MISSED_US: F.array().cast("array<bigint>")})


def _at_arrival(events: DataFrame) -> DataFrame:
    """Without ``timestamp_by`` an event counts when it arrives: no policy applies and there is no watermark."""
    return events.withColumns(
        {
            _TIME_US: F.col(EVENT_US),
            VERDICT: F.lit("accepted"),
            REASONS: F.array().cast("array<string>"),
            SYSTEM_US: F.col(EVENT_US),
            WATERMARK_US: F.lit(None).cast("bigint"),
        }
    )


def _by_policy(events: DataFrame, source: Input, policy: StreamAnalyticsOrdering) -> DataFrame:
    event, arrival, time = F.col(EVENT_US), F.col(ARRIVAL_US), F.col(_TIME_US)
    valid = event.isNotNull() & F.col(KEY_VALID)
    early = F.lit(False) if policy.early_arrival_us is None else event > arrival + policy.early_arrival_us
    floor = None if policy.late_arrival_us is None else arrival - policy.late_arrival_us
    timed = events.withColumn(_TIME_US, F.when(valid & ~early, event if floor is None else F.greatest(event, floor)))
    scanned = prefix_max(timed, (PARTITION, *source.over), (SEQUENCE,), _TIME_US, _MAX_BEFORE_US)
    # greatest passes over the null of a timeline that has had no event yet
    highest = F.col(_MAX_BEFORE_US) if floor is None else F.greatest(F.col(_MAX_BEFORE_US), floor)
    tested = scanned.withColumn(WATERMARK_US, F.when(valid, highest - policy.out_of_order_us)).withColumns(
        {
            _LATE: F.coalesce(event < time, F.lit(False)),
            _OUT_OF_ORDER: F.coalesce(time < F.col(WATERMARK_US), F.lit(False)),
        }
    )
    refused = tested.withColumn(_REFUSAL, _refusal(early, policy))
    return refused.withColumns(_judgement())


def _refusal(early: Column, policy: StreamAnalyticsOrdering) -> Column:
    """The name of the first test that refused the event, or null."""
    refusal = (
        F.when(F.col(EVENT_US).isNull(), "invalid_time").when(~F.col(KEY_VALID), "invalid_key").when(early, "early")
    )
    if policy.action == "drop":
        refusal = refusal.when(F.col(_LATE), "late").when(F.col(_OUT_OF_ORDER), "out_of_order")
    return refusal


def _judgement() -> dict[str, Column]:
    refusal = F.col(_REFUSAL)
    moved_by = F.array(F.when(F.col(_LATE), "late"), F.when(F.col(_OUT_OF_ORDER), "out_of_order"))
    moved = F.col(_LATE) | F.col(_OUT_OF_ORDER)
    return {
        VERDICT: F.when(refusal.isNotNull(), "dropped").when(moved, "adjusted").otherwise("accepted"),
        REASONS: F.when(refusal.isNotNull(), F.array(refusal)).otherwise(F.array_compact(moved_by)),
        SYSTEM_US: F.when(refusal.isNull(), F.greatest(F.col(_TIME_US), F.col(WATERMARK_US))),
    }


def _policy(job: Job, source: Input) -> StreamAnalyticsOrdering:
    policy = job.ordering(source.name)
    assert isinstance(policy, StreamAnalyticsOrdering), f"input {source.name} has the ordering of another profile"
    return policy


# -- how far the watermarks came ------------------------------------------------------------------------------------


def _with_hold(job: Job, ordered: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The inputs that the query reads with HOLD_US: the least ``M - O`` over the query's timelines at the log's end.

    With ``over``, timelines that differ from the row in a group key do not count: each substream goes ahead alone.
    The column is null where the job flushes and nobody asks.
    """
    join = job.query.join
    names = (join.left, join.right) if join is not None else job.query.sources
    if job.end_of_log == "flush":
        return {name: ordered[name].withColumn(HOLD_US, F.lit(None).cast("bigint")) for name in names}
    held = {}
    for name in names:
        frame = ordered[name].withColumn(HOLD_US, F.lit(None).cast("bigint"))
        for other in names:
            frame = _with_limit(frame, *_limit(job, other, ordered[other], name))
        held[name] = frame
    return held


def _limit(job: Job, name: str, frame: DataFrame, receiver: str) -> tuple[DataFrame, list[str]]:
    """The least ``M - O`` (_LIMIT_US) over the input's timelines, by the ``over`` columns that are group keys.

    It is meant for rows of input ``receiver``: in a join the other side shares only what the join makes equal.
    Without ``over``, a partition that is known to exist and has no watermark holds everything back.
    """
    source = job.input(name)
    timelines = frame.groupBy(PARTITION, *source.over).agg(F.max(_TIME_US).alias(_TIME_US))
    if source.over:
        heard = timelines.filter(F.col(_TIME_US).isNotNull())
    else:
        heard = timelines.unionByName(_declared(frame, source)).groupBy(PARTITION).agg(F.max(_TIME_US).alias(_TIME_US))
    shared = [column for column in source.over if _is_shared(job.query, column.lower(), name, receiver)]
    reached = F.coalesce(F.col(_TIME_US) - _tolerance_us(job, name), F.lit(_NEVER_US))
    return heard.groupBy(*shared).agg(F.min(reached).alias(_LIMIT_US)), shared


def _is_shared(query: Query, column: str, name: str, receiver: str) -> bool:
    """Do rows of one result agree in the column of input ``name``, and rows of ``receiver`` with it by that name?"""
    grouped = {key.lower() for key in query.group_by}
    if query.join is None:
        return column in grouped
    if column in {key.lower() for key in query.join.on}:
        return bool({f"{query.join.left}.{column}", f"{query.join.right}.{column}"} & grouped)
    return name == receiver and f"{name}.{column}" in grouped


def _declared(frame: DataFrame, source: Input) -> DataFrame:
    """The partitions that the job file says exist, none of them heard yet."""
    ids = frame.sparkSession.range(source.partitions or 0)
    return ids.select(F.col("id").cast("int").alias(PARTITION), F.lit(None).cast("bigint").alias(_TIME_US))


def _with_limit(frame: DataFrame, limit: DataFrame, shared: Sequence[str]) -> DataFrame:
    """``frame`` with HOLD_US lowered to the limit of its row; a row that no timeline agrees with is not held."""
    joined_limit = (
        frame.join(F.broadcast(limit), list(shared), "left") if shared else frame.crossJoin(F.broadcast(limit))
    )
    # least passes over nulls
    return joined_limit.withColumn(HOLD_US, F.least(F.col(HOLD_US), F.col(_LIMIT_US))).drop(_LIMIT_US)


def _tolerance_us(job: Job, name: str) -> int:
    """The out-of-order tolerance that applies: none where events count when they arrive."""
    source = job.input(name)
    return 0 if source.timestamp_by is None else _policy(job, source).out_of_order_us
