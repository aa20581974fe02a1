"""Profile stream_analytics: verdicts and windows, by the method of finding watermarks that was chosen.

What is decided stands in :mod:`pipelines.batch.policy_stream_analytics`; here is what it is asked about: all events
after a sort, or those that a bound leaves open, or none where windows need no more than cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch import stored_order
from pipelines.batch.bounds import Facts, facts
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
from pipelines.batch.decided import Decided
from pipelines.batch.first_passage import (
    OWN_US,
    Cells,
    steps,
    with_cell_in_force,
    with_cell_of_timeline,
)
from pipelines.batch.hold import with_hold
from pipelines.batch.joins import joined
from pipelines.batch.lanes import Lanes
from pipelines.batch.logs import Log
from pipelines.batch.normalise import condition, quoted
from pipelines.batch.packed import packing, with_max_before
from pipelines.batch.policy_stream_analytics import (
    at_arrival,
    is_exception,
    is_settled,
    with_time,
    with_verdict,
)
from pipelines.batch.scan import prefix_max
from pipelines.batch.timelines import CARRY_US, timelines
from pipelines.batch.windows_stream_analytics import windowed
from pipelines.core.carry import Carries, Carry
from pipelines.core.facts import asked_of
from pipelines.core.methods import SORTED, Method, cell_of, origin_of
from pipelines.core.model import EVERYTHING, Input, Job, OutputRange, StreamAnalyticsOrdering

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
    carry: Carries | None = None,
    method: Method = SORTED,
) -> Decided:
    """Verdicts of every input of the job, and the members of the query's windows."""
    carries = carry or {}
    ordered = {
        source.name: _ordered(job, logs[source.name], output, carries.get(source.name), method) for source in job.inputs
    }
    verdicts = [one.judged.select(*VERDICT_COLUMNS) for one in ordered.values()]
    return Decided(
        verdicts=reduce(DataFrame.unionByName, verdicts),
        members=_members(job, {name: ordered[name].counting for name in _names(job)}, ordered, carries),
        events={name: one.events for name, one in ordered.items() if one.events is not None},
        shared=tuple(one.shared for one in ordered.values() if one.shared is not None),
    )


def members(job: Job, logs: Mapping[str, Log], carry: Carries | None = None, method: Method = SORTED) -> DataFrame:
    """The members of the query's windows alone, as :func:`decide` gives them but for SYSTEM_US, which may stand for
    the cell of a grid where no more is asked."""
    carries = carry or {}
    few = replace(job, keep_verdicts="exceptions")
    scan = method.verdicts if method.windows == "first_passage" else method.windows
    exactly = Method(scan, scan, method.reason)
    counting: dict[str, DataFrame] = {}
    ordered: dict[str, _Ordered] = {}
    for name in _names(job):
        cells = _alone_in_cells(job, logs[name], carries.get(name), method)
        if cells is None:
            ordered[name] = _ordered(few, logs[name], EVERYTHING, carries.get(name), exactly)
        counting[name] = ordered[name].counting if cells is None else cells
    return _members(job, counting, ordered, carries)


def _members(
    job: Job, counting: Mapping[str, DataFrame], ordered: Mapping[str, _Ordered], carries: Carries
) -> DataFrame:
    query = job.query
    held = with_hold(job, counting, {name: one.heard for name, one in ordered.items()}, carries)
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


def _ordered(job: Job, log: Log, output: OutputRange, carry: Carry | None, method: Method) -> _Ordered:
    if log.source.timestamp_by is None:
        rows = at_arrival(log.rows())
        return _Ordered(_events(rows), rows)
    policy = _policy(job, log.source)
    heard = with_time(log.rows(), policy)
    if method.verdicts != "window":
        bounded = _from_facts(job, log, heard, output, carry, policy, method)
        if bounded is not None:
            return bounded
    scanned = prefix_max(_events(heard), _timeline(log.source), (SEQUENCE,), TIME_US, MAX_BEFORE_US)
    return _Ordered(with_verdict(_with_carry(scanned, log.source, carry), policy), heard)


def _from_facts(
    job: Job,
    log: Log,
    heard: DataFrame,
    output: OutputRange,
    carry: Carry | None,
    policy: StreamAnalyticsOrdering,
    method: Method,
) -> _Ordered | None:
    """What a first pass tells saves the sort of all events; None where it tells too much, or the log cannot be packed.

    As files lie, every event is told the watermark; packed, only those below a bound of it are.
    """
    timed, cells = _events(heard), _cells(job, carry, method)
    known = None if cells is None else _facts(job, log, timed, cells, output)
    if known is None:
        # there may be many more cells than buckets
        cells, known = None, _facts(job, log, timed, None, output)
    if known is None:
        return None
    lanes = Lanes(known, timed, _timeline(log.source))
    scanned = _as_stored(log, policy, lanes) if method.verdicts == "stored" else None
    in_cells = None if cells is None else _in_cells(log, timed, known, cells, policy, scanned)
    if scanned is None:
        return _packed(job, log, heard, lanes, carry, policy, in_cells)
    scanned = _with_carry(scanned, log.source, carry)
    if in_cells is None:
        return _Ordered(with_verdict(scanned, policy), heard)
    return _beside_cells(job, log, heard, scanned, known, policy, in_cells)


def _packed(
    job: Job,
    log: Log,
    heard: DataFrame,
    lanes: Lanes,
    carry: Carry | None,
    policy: StreamAnalyticsOrdering,
    in_cells: DataFrame | None,
) -> _Ordered | None:
    """Only events below a bound of the watermark are asked for it; None where the log cannot be packed."""
    known, timed, timeline = lanes.facts, lanes.timed, lanes.timeline
    pack = packing(lanes)
    if pack is None:
        return None
    everything = job.keep_verdicts == "all"
    settled = (
        F.lit(False) if everything else is_settled(known.highest_at(F.col(ARRIVAL_US), _carried_us(carry)), policy)
    )
    everywhere = [name for name in timed.columns if name not in (ARRIVAL_TIME, ARRIVAL_DAY)]
    wanted = everywhere if in_cells is None else [*_ASKED, *log.source.over]
    scanned = with_max_before(timed, wanted, timeline, pack, ~settled)
    scanned = _with_carry(scanned, log.source, carry)
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


def _as_stored(log: Log, policy: StreamAnalyticsOrdering, lanes: Lanes) -> DataFrame | None:
    """Every event with MAX_BEFORE_US, as it lies in its file; None where files are not known to lie in order."""

    def timed_of(arrivals: DataFrame) -> DataFrame:
        return _events(with_time(log.normalised(arrivals), policy))

    return stored_order.with_max_before(log, timed_of, lanes)


def _carried_us(carry: Carry | None) -> int | None:
    """The greatest time that any timeline brings into the read range."""
    return max((seen.time_us for seen in carry.before if seen.time_us is not None), default=None) if carry else None


def _with_carry(scanned: DataFrame, source: Input, carry: Carry | None) -> DataFrame:
    """MAX_BEFORE_US raised to what the event's timeline had seen before the read range."""
    if _carried_us(carry) is None or carry is None:
        return scanned
    before = {name: f"__before_{name}" for name in _timeline(source)}
    seen = timelines(scanned.sparkSession, source, carry.before).withColumnsRenamed(before)
    same = [F.col(quoted(name)).eqNullSafe(F.col(quoted(renamed))) for name, renamed in before.items()]
    highest = F.greatest(F.col(MAX_BEFORE_US), F.col(CARRY_US))
    joined_seen = scanned.join(F.broadcast(seen), same, "left").withColumn(MAX_BEFORE_US, highest)
    return joined_seen.drop(CARRY_US, *before.values())


def _cells(job: Job, carry: Carry | None, method: Method) -> Cells | None:
    """The cells in which knowing where an event counts is enough for the query's windows; None if it is not."""
    width_us = cell_of(job)
    if width_us is None or method.windows != "first_passage" or _carried_us(carry) is not None:
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


def _alone_in_cells(job: Job, log: Log, carry: Carry | None, method: Method) -> DataFrame | None:
    """The events that count, with a SYSTEM_US that is right to the cell; None where that is not enough or too much."""
    cells = _cells(job, carry, method)
    if cells is None:
        return None
    if log.source.timestamp_by is None:
        return at_arrival(_events(log.rows()))
    policy = _policy(job, log.source)
    timed = _events(with_time(log.rows(), policy))
    known = _facts(job, log, timed, cells, EVERYTHING)
    if known is None:
        return None
    lanes = Lanes(known, timed, _timeline(log.source))
    scanned = _as_stored(log, policy, lanes) if method.verdicts == "stored" and log.source.over else None
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
