"""Profile stream_analytics: verdicts and windows, by the method of finding watermarks that was chosen.

What is decided stands in :mod:`pipelines.batch.stream_analytics.policy`; here is what it is asked about: all events
after a sort, or those that a bound leaves open, or none where windows need no more than cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import (
    ARRIVAL_DAY,
    ARRIVAL_ORDER,
    ARRIVAL_TIME,
    ARRIVAL_US,
    EVENT_US,
    HOLD_US,
    INPUT,
    IS_PUNCTUATION,
    KEY_VALID,
    MAX_BEFORE_US,
    PARTITION,
    SEQUENCE,
    SYSTEM_US,
    TIME_US,
    VERDICT_COLUMNS,
    WINDOW,
    WINDOW_END_US,
    within,
)
from pipelines.batch.decisions import Decided
from pipelines.batch.joins import joined
from pipelines.batch.logs import Log
from pipelines.batch.normalise import condition, quoted
from pipelines.batch.spark.prefix_max import prefix_max
from pipelines.batch.stream_analytics.end_of_log import with_hold
from pipelines.batch.stream_analytics.policy import (
    at_arrival,
    is_exception,
    is_settled,
    with_time,
    with_verdict,
)
from pipelines.batch.stream_analytics.timelines import CARRY_US, timelines
from pipelines.batch.stream_analytics.watermarks import file_order
from pipelines.batch.stream_analytics.watermarks.grid_cells import (
    OWN_US,
    Cells,
    steps,
    with_cell_in_force,
    with_cell_of_timeline,
)
from pipelines.batch.stream_analytics.watermarks.packed import packing, with_max_before
from pipelines.batch.stream_analytics.watermarks.statistics import Facts, facts
from pipelines.batch.stream_analytics.watermarks.task_ranges import TaskRanges
from pipelines.batch.stream_analytics.windows import windowed
from pipelines.core.model import EVERYTHING, Input, Job, OutputRange, StreamAnalyticsOrdering
from pipelines.plan.initial_state import InitialState, InitialStates
from pipelines.plan.watermark_stats import asked_of
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy, cell_of, origin_of

_ASKED = (PARTITION, SEQUENCE, ARRIVAL_US, EVENT_US, KEY_VALID, TIME_US)
"""What a verdict is made of."""


@dataclass(frozen=True)
class _Ordered:
    """One input, decided.

    ``judged`` has the verdict columns and the payload of every event; or, where there are ``settled`` ones, of those
    whose watermark had to be known: the settled simply count at their own time, SYSTEM_US. Or the events that count
    stand ``in_cells``, and ``judged`` has the verdict columns alone. ``events`` of the input arrived in the output
    range, counted where not all of them are judged. ``heard`` is every row, with TIME_US. ``shared`` is what both
    verdicts and windows come from, where it is costly.
    """

    judged: DataFrame
    heard: DataFrame
    settled: DataFrame | None = None
    in_cells: DataFrame | None = None
    events: int | None = None
    shared: DataFrame | None = None

    @property
    def counting(self) -> DataFrame:
        """The events that count, with SYSTEM_US, ARRIVAL_ORDER and the payload at least."""
        if self.in_cells is not None:
            return self.in_cells
        judged = self.judged.filter(F.col(SYSTEM_US).isNotNull())
        if self.settled is None:
            return judged
        return self.settled.unionByName(judged.select(*map(quoted, self.settled.columns)))


def decide(
    job: Job,
    logs: Mapping[str, Log],
    output: OutputRange = EVERYTHING,
    initial_state: InitialStates | None = None,
    method: WatermarkStrategy = SORT,
) -> Decided:
    """Verdicts of every input of the job, and the members of the query's windows."""
    initial_states = initial_state or {}
    ordered = {
        source.name: _ordered(job, logs[source.name], output, initial_states.get(source.name), method)
        for source in job.inputs
    }
    verdicts = [one.judged.select(*VERDICT_COLUMNS) for one in ordered.values()]
    return Decided(
        verdicts=reduce(DataFrame.unionByName, verdicts),
        members=_members(job, {name: ordered[name].counting for name in _names(job)}, ordered, initial_states),
        events={name: one.events for name, one in ordered.items() if one.events is not None},
        shared=tuple(one.shared for one in ordered.values() if one.shared is not None),
    )


def members(
    job: Job, logs: Mapping[str, Log], initial_state: InitialStates | None = None, method: WatermarkStrategy = SORT
) -> DataFrame:
    """The members of the query's windows alone, as :func:`decide` gives them but for SYSTEM_US, which may stand for
    the cell of a grid where no more is asked."""
    initial_states = initial_state or {}
    few = replace(job, keep_verdicts="exceptions")
    scan = method.verdicts if method.windows == "first_passage" else method.windows
    exactly = WatermarkStrategy(scan, scan, method.reason)
    counting: dict[str, DataFrame] = {}
    ordered: dict[str, _Ordered] = {}
    for name in _names(job):
        cells = _alone_in_cells(job, logs[name], initial_states.get(name), method)
        if cells is None:
            ordered[name] = _ordered(few, logs[name], EVERYTHING, initial_states.get(name), exactly)
        counting[name] = ordered[name].counting if cells is None else cells
    return _members(job, counting, ordered, initial_states)


def _members(
    job: Job, counting: Mapping[str, DataFrame], ordered: Mapping[str, _Ordered], initial_states: InitialStates
) -> DataFrame:
    query = job.query
    held = with_hold(job, counting, {name: one.heard for name, one in ordered.items()}, initial_states)
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
    members = windowed(rows, query.window, query.group_by)
    if job.end_of_log == "hold":
        members = members.filter(F.col(WINDOW_END_US) < F.col(HOLD_US))
    return members.select(*WINDOW, SYSTEM_US, *ARRIVAL_ORDER, *payload)


def _names(job: Job) -> tuple[str, ...]:
    """The inputs that the query reads."""
    join = job.query.join
    return job.query.sources if join is None else (join.left, join.right)


# -- one input, by the method that was chosen -----------------------------------------------------------------------


def _ordered(
    job: Job, log: Log, output: OutputRange, initial_state: InitialState | None, method: WatermarkStrategy
) -> _Ordered:
    if log.source.timestamp_by is None:
        rows = at_arrival(log.rows())
        return _Ordered(_events(rows), rows)
    policy = _policy(job, log.source)
    heard = with_time(log.rows(), policy)
    if method.verdicts != "window":
        bounded = _from_facts(job, log, heard, output, initial_state, policy, method)
        if bounded is not None:
            return bounded
    scanned = prefix_max(_events(heard), _timeline(log.source), (SEQUENCE,), TIME_US, MAX_BEFORE_US)
    return _Ordered(with_verdict(_with_initial_state(scanned, log.source, initial_state), policy), heard)


def _from_facts(
    job: Job,
    log: Log,
    heard: DataFrame,
    output: OutputRange,
    initial_state: InitialState | None,
    policy: StreamAnalyticsOrdering,
    method: WatermarkStrategy,
) -> _Ordered | None:
    """What a first pass tells saves the sort of all events; None where it tells too much, or the log cannot be packed.

    As files lie, every event is told the watermark; packed, only those below a bound of it are.
    """
    timed, cells = _events(heard), _cells(job, initial_state, method)
    known = None if cells is None else _facts(job, log, timed, cells, output)
    if known is None:
        # there may be many more cells than buckets
        cells, known = None, _facts(job, log, timed, None, output)
    if known is None:
        return None
    task_ranges = TaskRanges(known, timed, _timeline(log.source))
    scanned = _as_stored(log, policy, task_ranges) if method.verdicts == "stored" else None
    in_cells = None if cells is None else _in_cells(log, timed, known, cells, policy, scanned)
    if scanned is None:
        return _packed(job, log, heard, task_ranges, initial_state, policy, in_cells)
    scanned = _with_initial_state(scanned, log.source, initial_state)
    if in_cells is None:
        return _Ordered(with_verdict(scanned, policy), heard)
    return _beside_cells(job, log, heard, scanned, known, policy, in_cells)


def _packed(
    job: Job,
    log: Log,
    heard: DataFrame,
    task_ranges: TaskRanges,
    initial_state: InitialState | None,
    policy: StreamAnalyticsOrdering,
    in_cells: DataFrame | None,
) -> _Ordered | None:
    """Only events below a bound of the watermark are asked for it; None where the log cannot be packed."""
    known, timed, timeline = task_ranges.facts, task_ranges.timed, task_ranges.timeline
    pack = packing(task_ranges)
    if pack is None:
        return None
    everything = job.keep_verdicts == "all"
    settled = (
        F.lit(False)
        if everything
        else is_settled(known.highest_at(F.col(ARRIVAL_US), _carried_us(initial_state)), policy)
    )
    everywhere = [name for name in timed.columns if name not in (ARRIVAL_TIME, ARRIVAL_DAY)]
    wanted = everywhere if in_cells is None else [*_ASKED, *log.source.over]
    scanned = with_max_before(timed, wanted, timeline, pack, ~settled)
    scanned = _with_initial_state(scanned, log.source, initial_state)
    if in_cells is not None:
        return _beside_cells(job, log, heard, scanned, known, policy, in_cells)
    judged = with_verdict(scanned, policy)
    if everything:
        return _Ordered(judged, heard, shared=scanned)
    simply = timed.filter(settled).select(*map(quoted, everywhere), F.col(TIME_US).alias(SYSTEM_US))
    return _Ordered(judged, heard, simply, None, known.rows_in_range, scanned)


def _beside_cells(
    job: Job,
    log: Log,
    heard: DataFrame,
    scanned: DataFrame,
    known: Facts,
    policy: StreamAnalyticsOrdering,
    in_cells: DataFrame,
) -> _Ordered:
    """The verdicts that are kept of ``scanned``, where windows need no more than cells."""
    everything = job.keep_verdicts == "all"
    asked = scanned if everything else scanned.filter(is_exception(policy))
    judged = with_verdict(asked.withColumn(INPUT, F.lit(log.source.name)), policy)
    return _Ordered(judged, heard, None, in_cells, None if everything else known.rows_in_range)


def _as_stored(log: Log, policy: StreamAnalyticsOrdering, task_ranges: TaskRanges) -> DataFrame | None:
    """Every event with MAX_BEFORE_US, as it lies in its file; None where files are not known to lie in order."""

    def timed_of(arrivals: DataFrame) -> DataFrame:
        return _events(with_time(log.normalised(arrivals), policy))

    return file_order.with_max_before(log, timed_of, task_ranges)


def _carried_us(initial_state: InitialState | None) -> int | None:
    """The greatest time that any timeline brings into the read range."""
    return (
        max((seen.time_us for seen in initial_state.before if seen.time_us is not None), default=None)
        if initial_state
        else None
    )


def _with_initial_state(scanned: DataFrame, source: Input, initial_state: InitialState | None) -> DataFrame:
    """MAX_BEFORE_US raised to what the event's timeline had seen before the read range."""
    if _carried_us(initial_state) is None or initial_state is None:
        return scanned
    before = {name: f"__before_{name}" for name in _timeline(source)}
    seen = timelines(scanned.sparkSession, source, initial_state.before).withColumnsRenamed(before)
    same = [F.col(quoted(name)).eqNullSafe(F.col(quoted(renamed))) for name, renamed in before.items()]
    highest = F.greatest(F.col(MAX_BEFORE_US), F.col(CARRY_US))
    joined_seen = scanned.join(F.broadcast(seen), same, "left").withColumn(MAX_BEFORE_US, highest)
    return joined_seen.drop(CARRY_US, *before.values())


def _cells(job: Job, initial_state: InitialState | None, method: WatermarkStrategy) -> Cells | None:
    """The cells in which knowing where an event counts is enough for the query's windows; None if it is not."""
    width_us = cell_of(job)
    if width_us is None or method.windows != "first_passage" or _carried_us(initial_state) is not None:
        return None
    return Cells(width_us, origin_of(job))


def _facts(job: Job, log: Log, timed: DataFrame, cells: Cells | None, output: OutputRange) -> Facts | None:
    """By the cell that an event takes the watermark to, where there are cells."""
    cell = None if cells is None else cells.reached(_policy(job, log.source).out_of_order_us)
    counted = None if output == EVERYTHING else within(ARRIVAL_US, output)
    if log.memory is None or ARRIVAL_DAY not in timed.columns:
        return facts(timed, counted=counted, cell=cell)
    name, asked = log.source.name, asked_of(job, log.source.name, in_cells=cells is not None)
    recalled = log.memory.recall(name, asked).of(output)
    known = facts(timed, counted=counted, cell=cell, recalled=recalled)
    if known is not None:
        log.memory.learn(name, asked, known.found)
    return known


def _alone_in_cells(
    job: Job, log: Log, initial_state: InitialState | None, method: WatermarkStrategy
) -> DataFrame | None:
    """The events that count, with a SYSTEM_US that is right to the cell; None where that is not enough or too much."""
    cells = _cells(job, initial_state, method)
    if cells is None:
        return None
    if log.source.timestamp_by is None:
        return at_arrival(_events(log.rows()))
    policy = _policy(job, log.source)
    timed = _events(with_time(log.rows(), policy))
    known = _facts(job, log, timed, cells, EVERYTHING)
    if known is None:
        return None
    task_ranges = TaskRanges(known, timed, _timeline(log.source))
    scanned = _as_stored(log, policy, task_ranges) if method.verdicts == "stored" and log.source.over else None
    return _in_cells(log, timed, known, cells, policy, scanned)


def _in_cells(
    log: Log,
    timed: DataFrame,
    known: Facts,
    cells: Cells,
    policy: StreamAnalyticsOrdering,
    scanned: DataFrame | None,
) -> DataFrame | None:
    """As :func:`_alone_in_cells`, of an input with an event time, from facts by cell; ``scanned``: from its events
    with MAX_BEFORE_US, where these are had without a sort."""
    if log.source.over and scanned is not None:
        # of many timelines the watermark itself is cheaper so than its cell is to look for
        return with_verdict(scanned, policy).filter(F.col(SYSTEM_US).isNotNull())
    found = steps(timed.sparkSession, known, cells)
    if found is None:
        return None
    tolerance_us = policy.out_of_order_us
    highest_us = known.highest_at(F.col(ARRIVAL_US), None)
    rows = with_cell_in_force(timed, found, cells, highest_us - tolerance_us)
    if not log.source.over:
        return rows
    asking = rows.filter(F.col(SYSTEM_US) > F.col(OWN_US))
    return with_cell_of_timeline(rows, asking, timed, _timeline(log.source), cells, tolerance_us)


def _timeline(source: Input) -> tuple[str, ...]:
    return (PARTITION, *source.over)


def _events(rows: DataFrame) -> DataFrame:
    return rows.filter(~F.col(IS_PUNCTUATION))


def _policy(job: Job, source: Input) -> StreamAnalyticsOrdering:
    policy = job.ordering(source.name)
    assert isinstance(policy, StreamAnalyticsOrdering), f"input {source.name} has the ordering of another profile"
    return policy
