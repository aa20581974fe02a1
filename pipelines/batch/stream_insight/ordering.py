"""Profile stream_insight in the batch engine: current time, AdvanceTimePolicy, edges, then windows over lifetimes.

Rule: an item violates iff its sync time lies strictly before the CTI in force when it arrived; the sync time is an end
edge's end and everything else's start (I3). ``drop`` removes what violates (I9). ``adjust`` moves the start of an
interval that ends after the current time (I10), and of a start edge, to the current time; points, intervals that end at
or before it, and end edges are dropped by ``adjust`` as well (I11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import (
    ARRIVAL_ORDER,
    IS_PUNCTUATION,
    LIFETIME_END_US,
    MISSED_US,
    REASONS,
    SETTLED,
    SYSTEM_US,
    VERDICT,
    VERDICT_COLUMNS,
    WATERMARK_US,
    WINDOW,
)
from pipelines.batch.decisions import Decided, WindowRules
from pipelines.batch.normalise import condition
from pipelines.batch.stream_insight.current_time import (
    CURRENT_US,
    last_ctis,
    policy,
    with_candidates,
    with_current_time,
)
from pipelines.batch.stream_insight.edges import LATE, OPEN_BEFORE, PAIR_END_US, PAIR_START_US, match_edges
from pipelines.batch.stream_insight.items import END, END_US, INTERVAL, KIND, START, SYNC_US, read_items
from pipelines.batch.stream_insight.lifetimes import LIMIT_US, lifetime_members
from pipelines.core.expressions import quoted
from pipelines.core.model import Action, Grid, Input, Job, Window
from pipelines.plan.initial_state import Clock, InitialStates

_MEMBER_COLUMNS = (*WINDOW, SYSTEM_US, *ARRIVAL_ORDER)


def decide(job: Job, inputs: Mapping[str, DataFrame], initial_states: InitialStates | None = None) -> Decided:
    """Verdicts of every input of ``job`` and the members of its windows; ``inputs`` as ``normalise`` gives them.

    Inputs that the query does not read (they only lend their CTIs) have verdicts too. Nothing is dead-lettered.
    """
    names = [source.name for source in job.inputs]
    clocks = {name: Clock() if initial_states is None else initial_states[name].clock for name in names}
    at_end = None if initial_states is None else {name: initial_states[name].clock_at_end for name in names}
    candidates = {
        source.name: with_candidates(
            read_items(inputs[source.name], source), policy(job, source.name), clocks[source.name]
        )
        for source in job.inputs
    }
    judged = {source.name: _judge(job, source, candidates, clocks) for source in job.inputs}
    verdicts = [judged[source.name].select(*VERDICT_COLUMNS) for source in job.inputs]
    ctis = last_ctis(job, job.sources, candidates, at_end)
    counts = (F.col(VERDICT) != "dropped") & (F.col(KIND) != END)
    counting = {name: judged[name].filter(counts) for name in job.sources}
    return Decided(
        verdicts=reduce(DataFrame.union, verdicts),
        members=None if job.steps is not None else _members(job, counting, ctis),
        counting=counting,
        rules=_rules(job, ctis),
    )


def _judge(job: Job, source: Input, candidates: Mapping[str, DataFrame], clocks: Mapping[str, Clock]) -> DataFrame:
    """The events of one input with VERDICT .. MISSED_US and KIND."""
    items = with_current_time(job, source.name, candidates, clocks).filter(~F.col(IS_PUNCTUATION))
    late = F.coalesce(F.col(SYNC_US) < F.col(CURRENT_US), F.lit(False))
    items = items.withColumn(LATE, late)
    items = items.withColumn(SYSTEM_US, _moved_us(policy(job, source.name).action))
    if source.shape == "edge":
        items = match_edges(items, [quoted(name) for name in source.match_on])
        refusal, end_us = _edge_refusal(), F.when(F.col(KIND) == START, F.col(PAIR_END_US))
    else:
        refusal, end_us = _refusal(), F.col(END_US)
    items = items.withColumn(REASONS, refusal)
    refused = F.size(REASONS) > 0
    verdict = F.when(refused, "dropped").when(F.col(LATE), "adjusted").otherwise("accepted")
    reasons = F.when(refused | ~F.col(LATE), F.col(REASONS)).otherwise(_texts("before_current_time"))
    return (
        items.withColumn(VERDICT, verdict)
        .withColumn(SYSTEM_US, F.when(~refused, F.col(SYSTEM_US)))
        .withColumn(LIFETIME_END_US, F.when(~refused, end_us))
        .withColumn(WATERMARK_US, F.when(F.col(KIND).isNotNull(), F.col(CURRENT_US)))
        .withColumn(MISSED_US, F.array().cast("array<bigint>"))
        .withColumn(REASONS, reasons)
    )


def _moved_us(action: Action) -> Column:
    """The sync time after the policy, null where the policy drops the item; LATE is decided."""
    kept = F.when(~F.col(LATE), F.col(SYNC_US))
    if action == "drop":
        return kept
    straddles = (F.col(KIND) == START) | ((F.col(KIND) == INTERVAL) & (F.col(END_US) > F.col(CURRENT_US)))
    return kept.when(straddles, F.col(CURRENT_US))


def _refusal() -> Column:
    """The reasons that dropped a point or an interval, empty if it survives."""
    return (
        F.when(F.col(KIND).isNull(), _texts("invalid_time"))
        .when(F.col(SYSTEM_US).isNull(), _texts("before_current_time"))
        .otherwise(_texts())
    )


def _edge_refusal() -> Column:
    """The reasons that dropped an edge, empty if it survives.

    A late end leaves its start open, for a later end to close. An end at the (moved) start of its event leaves an
    empty lifetime: both rows are cancelled (I13).
    """
    is_end = F.col(KIND) == END
    return (
        F.when(F.col(KIND).isNull(), _texts("invalid_time"))
        .when(is_end & F.col(LATE) & ~F.col(OPEN_BEFORE), _texts("before_current_time", "orphan_end"))
        .when(F.col(SYSTEM_US).isNull(), _texts("before_current_time"))
        .when(is_end & ~F.col(OPEN_BEFORE), _texts("orphan_end"))
        .when(F.col(PAIR_END_US) == F.col(PAIR_START_US), _texts("cancelled"))
        .otherwise(_texts())
    )


def _texts(*reasons: str) -> Column:
    return F.array(*(F.lit(reason) for reason in reasons)).cast("array<string>")


def _members(job: Job, counting: Mapping[str, DataFrame], ctis: DataFrame) -> DataFrame:
    query = job.window_query
    payload = [F.col(quoted(column.name)) for column in job.input(query.sources[0]).columns]
    each = []
    for frame in counting.values():
        kept = frame if query.where is None else frame.filter(condition(frame, query.where, "query.where"))
        each.append(kept.select(SYSTEM_US, LIFETIME_END_US, *ARRIVAL_ORDER, *payload))
    members = _rules(job, ctis).windows(reduce(DataFrame.union, each), query.window, query.group_by)
    return members.select(*_MEMBER_COLUMNS, *payload)


def _rules(job: Job, ctis: DataFrame) -> WindowRules:
    hold = job.end_of_log == "hold"

    def windows(lifetimes: DataFrame, window: Window, group_by: Sequence[str]) -> DataFrame:
        limit = _least(ctis) if hold else _horizon(job, window, lifetimes, ctis)
        return lifetime_members(lifetimes, window, group_by, hold=hold, limit=limit)

    def settled(frame: DataFrame, at: str, _keys: Mapping[str, str]) -> DataFrame:
        limited = frame.join(F.broadcast(_least(ctis)), F.lit(True), "left")
        return limited.withColumn(SETTLED, F.coalesce(F.col(at) <= F.col(LIMIT_US), F.lit(False))).drop(LIMIT_US)

    return WindowRules(windows, settled if hold else None, (LIFETIME_END_US,))


def _least(ctis: DataFrame) -> DataFrame:
    """How far windows go under ``hold`` (I17): the least last CTI of the inputs, no row if one never had a CTI."""
    never = F.max(F.col(CURRENT_US).isNull())
    return ctis.agg(F.when(~never, F.min(CURRENT_US)).alias(LIMIT_US)).filter(F.col(LIMIT_US).isNotNull())


def _horizon(job: Job, window: Window, lifetimes: DataFrame, ctis: DataFrame) -> DataFrame | None:
    """How far windows go at a flush (I17): the largest finite endpoint of what counts, or CTI, if it is larger.

    Only windows on a grid over edges that stay open ask for it; else None.
    """
    if not isinstance(window, Grid) or all(one.shape != "edge" for one in job.inputs):
        return None
    ends = lifetimes.select(F.greatest(SYSTEM_US, LIFETIME_END_US).alias(CURRENT_US))
    return ends.union(ctis).agg(F.max(CURRENT_US).alias(LIMIT_US)).filter(F.col(LIMIT_US).isNotNull())
