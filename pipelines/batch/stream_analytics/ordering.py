"""Profile stream_analytics: verdicts of every input, and the members of the query's windows.

What the policy decides is in :mod:`~pipelines.batch.stream_analytics.policy`. How the watermarks that it asks for are
found is in :mod:`~pipelines.batch.stream_analytics.watermarks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_ORDER, HOLD_US, IS_PUNCTUATION, SYSTEM_US, WINDOW, WINDOW_END_US
from pipelines.batch.decisions import Decided, WindowRules
from pipelines.batch.joins import joined
from pipelines.batch.logs import Log
from pipelines.batch.normalise import condition
from pipelines.batch.stream_analytics.end_of_log import settled_at_end, with_hold
from pipelines.batch.stream_analytics.input_events import InputEvents
from pipelines.batch.stream_analytics.policy import at_arrival
from pipelines.batch.stream_analytics.watermarks.judged import AtArrival, JudgedEvents
from pipelines.batch.stream_analytics.watermarks.strategy import judged_events
from pipelines.batch.stream_analytics.windows import windowed
from pipelines.core.model import EVERYTHING, Job, OutputRange, StreamAnalyticsOrdering
from pipelines.plan.initial_state import InitialStates
from pipelines.plan.watermark_strategy import WatermarkStrategy, cell_grid_of


class _Input(NamedTuple):
    """``rows``: every row of the input, punctuations too, with TIME_US."""

    rows: DataFrame
    judged: JudgedEvents


def decide(
    job: Job, logs: Mapping[str, Log], output: OutputRange, states: InitialStates, strategy: WatermarkStrategy
) -> Decided:
    """Verdicts of every input of the job, and the members of the query's windows or, of steps, the rows that count."""
    inputs = _judged(job, [part.name for part in job.inputs], logs, output, states, strategy)
    judged = {name: one.judged for name, one in inputs.items()}
    holds = job.end_of_log == "hold"
    settled = settled_at_end(job, {name: inputs[name].rows for name in job.sources}, states) if holds else None
    return Decided(
        verdicts=reduce(DataFrame.unionByName, [one.verdicts for one in judged.values()]),
        members=None if job.steps is not None else _members(job, inputs, states),
        counting={name: one.counting for name, one in judged.items()},
        rules=WindowRules(windowed, settled),
        events={name: one.events_in_range for name, one in judged.items() if one.events_in_range is not None},
        shared=tuple(one.shared for one in judged.values() if one.shared is not None),
    )


def members(job: Job, logs: Mapping[str, Log], states: InitialStates, strategy: WatermarkStrategy) -> DataFrame:
    """The members of the query's windows, as :func:`decide` gives them; nothing is done for verdicts."""
    job = replace(job, keep_verdicts="exceptions")
    return _members(job, _judged(job, job.window_query.inputs, logs, EVERYTHING, states, strategy), states)


def _judged(
    job: Job,
    names: Iterable[str],
    logs: Mapping[str, Log],
    output: OutputRange,
    states: InitialStates,
    strategy: WatermarkStrategy,
) -> dict[str, _Input]:
    found = {}
    grid, keep_all = cell_grid_of(job), job.keep_verdicts == "all"
    for name in names:
        log, policy = logs[name], job.ordering(name)
        assert isinstance(policy, StreamAnalyticsOrdering), f"input {name} has the ordering of another profile"
        if log.source.timestamp_by is None:
            rows = at_arrival(log.rows())
            found[name] = _Input(rows, AtArrival(rows.filter(~F.col(IS_PUNCTUATION))))
        else:
            events = InputEvents(log, policy, output, states.get(name), keep_all)
            found[name] = _Input(events.rows, judged_events(events, strategy, grid))
    return found


def _members(job: Job, inputs: Mapping[str, _Input], states: InitialStates) -> DataFrame:
    query = job.window_query
    counting = {name: inputs[name].judged.counting for name in job.window_query.inputs}
    held = with_hold(job, counting, {name: one.rows for name, one in inputs.items()}, states)
    if query.join is not None:
        sides = (job.input(query.join.left), job.input(query.join.right))
        rows = joined(held[query.join.left], held[query.join.right], query.join, sides)
        payload = [query.join.left, query.join.right]
    else:
        payload = [column.name for column in job.input(query.sources[0]).columns]
        columns = [SYSTEM_US, HOLD_US, *ARRIVAL_ORDER, *payload]
        rows = reduce(DataFrame.unionByName, [held[name].select(*columns) for name in query.sources])
    if query.where is not None:
        rows = rows.filter(condition(rows, query.where, "query.where"))
    found = windowed(rows, query.window, query.group_by)
    if job.end_of_log == "hold":
        found = found.filter(F.col(WINDOW_END_US) < F.col(HOLD_US))
    return found.select(*WINDOW, SYSTEM_US, *ARRIVAL_ORDER, *payload)
