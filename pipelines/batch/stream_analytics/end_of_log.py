"""``end_of_log: hold`` in stream_analytics: windows that end before the watermark at the end of the log (S15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import HOLD_US, PARTITION, SETTLED, TIME_US
from pipelines.batch.stream_analytics.timelines import LATEST_US, timelines
from pipelines.core.expressions import quoted
from pipelines.core.model import Input, Job, Query, StreamAnalyticsOrdering
from pipelines.plan.initial_state import InitialState, InitialStates

_LIMIT_US = "__limit_us"

_NEVER_US = -(2**62)
"""The limit of a log in which some partition has no watermark: no window ends before it."""


def with_hold(
    job: Job, counting: Mapping[str, DataFrame], heard: Mapping[str, DataFrame], initial_states: InitialStates
) -> dict[str, DataFrame]:
    """Each input's counting events with HOLD_US: the least ``M - O`` over the query's timelines at the log's end.

    ``heard`` has every row of an input with TIME_US, punctuations too: their partition exists. An initial state
    contains the end of the log. With ``over``, timelines that differ from the row in a group key do not
    count: each substream goes ahead alone. The column is null where the job flushes and nobody asks.
    """
    held = {name: frame.withColumn(HOLD_US, F.lit(None).cast("bigint")) for name, frame in counting.items()}
    if job.end_of_log == "flush":
        return held
    for name in counting:
        for other in counting:
            over, query = job.input(other).over, job.window_query
            # in a join the other side shares only what the join makes equal
            shared = [column for column in over if _is_shared(query, column.lower(), other, name)]
            limit = _limit(job, other, heard[other], initial_states.get(other), shared)
            held[name] = _with_limit(held[name], limit, shared)
    return held


def settled_at_end(
    job: Job, heard: Mapping[str, DataFrame], initial_states: InitialStates
) -> Callable[[DataFrame, str, Mapping[str, str]], DataFrame]:
    """``settled`` of :class:`~pipelines.batch.decisions.WindowRules`, of steps that read the inputs in ``heard``."""

    def settled(frame: DataFrame, at: str, keys: Mapping[str, str]) -> DataFrame:
        found = frame.withColumn(HOLD_US, F.lit(None).cast("bigint"))
        for name, rows in heard.items():
            shared = [column for column in job.input(name).over if column.lower() in keys]
            limit = _limit(job, name, rows, initial_states.get(name), shared)
            renamed = {column: keys[column.lower()] for column in shared}
            found = _with_limit(found, limit.withColumnsRenamed(renamed), list(renamed.values()))
        # null: no timeline agrees with the row
        before = F.coalesce(F.col(at) < F.col(HOLD_US), F.lit(True))
        return found.select(*map(quoted, frame.columns), before.alias(SETTLED))

    return settled


def _limit(
    job: Job, name: str, frame: DataFrame, initial_state: InitialState | None, shared: Sequence[str]
) -> DataFrame:
    """The least ``M - O`` (_LIMIT_US) over the input's timelines, by the ``over`` columns in ``shared``.

    Without ``over``, a partition that is known to exist and has no watermark holds everything back.
    """
    source = job.input(name)
    if initial_state is None:
        # a punctuation may speak for all partitions, and so of none
        reached = (
            frame.filter(F.col(PARTITION).isNotNull())
            .groupBy(PARTITION, *source.over)
            .agg(F.max(TIME_US).alias(TIME_US))
        )
    else:
        reached = timelines(frame.sparkSession, source, initial_state.at_end).withColumnRenamed(LATEST_US, TIME_US)
    if source.over:
        heard = reached.filter(F.col(TIME_US).isNotNull())
    else:
        heard = reached.unionByName(_declared(frame, source)).groupBy(PARTITION).agg(F.max(TIME_US).alias(TIME_US))
    limit_us = F.coalesce(F.col(TIME_US) - _tolerance_us(job, name), F.lit(_NEVER_US))
    return heard.groupBy(*shared).agg(F.min(limit_us).alias(_LIMIT_US))


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
    return ids.select(F.col("id").cast("int").alias(PARTITION), F.lit(None).cast("bigint").alias(TIME_US))


def _with_limit(frame: DataFrame, limit: DataFrame, shared: Sequence[str]) -> DataFrame:
    """``frame`` with HOLD_US lowered to the limit of its row; a row that no timeline agrees with is not held."""
    joined_limit = (
        frame.join(F.broadcast(limit), list(shared), "left") if shared else frame.crossJoin(F.broadcast(limit))
    )
    # least passes over nulls
    return joined_limit.withColumn(HOLD_US, F.least(F.col(HOLD_US), F.col(_LIMIT_US))).drop(_LIMIT_US)


def _tolerance_us(job: Job, name: str) -> int:
    """The out-of-order tolerance that applies: none where events count when they arrive."""
    policy = job.ordering(name)
    assert isinstance(policy, StreamAnalyticsOrdering), f"input {name} has the ordering of another profile"
    return 0 if job.input(name).timestamp_by is None else policy.out_of_order_us
