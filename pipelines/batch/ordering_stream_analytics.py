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

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

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
    LIFETIME_END_US,
    MAX_BEFORE_US,
    MISSED_US,
    PARTITION,
    REASONS,
    SEQUENCE,
    SYSTEM_US,
    TIME_US,
    VERDICT,
    VERDICT_COLUMNS,
    WATERMARK_US,
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
from pipelines.batch.logs import Log
from pipelines.batch.normalise import condition, quoted
from pipelines.batch.packed import packing, with_max_before
from pipelines.batch.scan import prefix_max
from pipelines.batch.timelines import CARRY_US, timelines
from pipelines.batch.windows_stream_analytics import windowed
from pipelines.core.carry import Carries, Carry
from pipelines.core.methods import SORTED, Method, cell_of, origin_of
from pipelines.core.model import EVERYTHING, Input, Job, OutputRange, StreamAnalyticsOrdering

_ASKED = (PARTITION, SEQUENCE, ARRIVAL_US, EVENT_US, KEY_VALID, TIME_US)
"""What a verdict is made of."""
_LATE = "__late"
_OUT_OF_ORDER = "__out_of_order"
_REFUSAL = "__refusal"


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
    exactly = Method("packed" if method.windows == "first_passage" else method.windows, "packed", method.reason)
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
        rows = _at_arrival(log.rows())
        return _Ordered(_events(rows), rows)
    policy = _policy(job, log.source)
    heard = _timed(log.rows(), policy)
    if method.verdicts == "packed":
        packed = _packed(job, log, heard, output, carry, policy, cells=_cells(job, carry, method))
        if packed is not None:
            return packed
    scanned = prefix_max(_events(heard), _timeline(log.source), (SEQUENCE,), TIME_US, MAX_BEFORE_US)
    return _Ordered(_judged(_with_carry(scanned, log.source, carry), policy), heard)


def _packed(
    job: Job,
    log: Log,
    heard: DataFrame,
    output: OutputRange,
    carry: Carry | None,
    policy: StreamAnalyticsOrdering,
    cells: Cells | None,
) -> _Ordered | None:
    """Only events below a bound of the watermark are asked for it; None where the log cannot be packed."""
    timed, timeline = _events(heard), _timeline(log.source)
    known = None if cells is None else _facts(log, timed, policy, cells, output)
    if known is None:
        # there may be many more cells than buckets
        cells, known = None, _facts(log, timed, policy, None, output)
    pack = None if known is None else packing(known, timed, timeline)
    if known is None or pack is None:
        return None
    everything = job.keep_verdicts == "all"
    settled = F.lit(False) if everything else _is_settled(known, carry, policy)
    in_cells = None if cells is None else _in_cells(log, timed, known, cells, policy)
    everywhere = [name for name in timed.columns if name not in (ARRIVAL_TIME, ARRIVAL_DAY)]
    wanted = everywhere if in_cells is None else [*_ASKED, *log.source.over]
    scanned = with_max_before(timed, wanted, timeline, pack, ~settled)
    scanned = _with_carry(scanned, log.source, carry)
    events = None if everything else known.rows_in_range
    if in_cells is not None:
        asked = (scanned if everything else scanned.filter(_is_exception(policy))).withColumn(
            INPUT, F.lit(log.source.name)
        )
        return _Ordered(_judged(asked, policy), heard, None, in_cells, events)
    judged = _judged(scanned, policy)
    if everything:
        return _Ordered(judged, heard, shared=scanned)
    simply = timed.filter(settled).select(*map(quoted, everywhere), F.col(TIME_US).alias(SYSTEM_US))
    return _Ordered(judged, heard, simply, None, events, scanned)


def _is_settled(known: Facts, carry: Carry | None, policy: StreamAnalyticsOrdering) -> Column:
    """Whether an event is in time and in order whatever its timeline has seen; never null."""
    highest = known.highest_at(F.col(ARRIVAL_US), _carried_us(carry))
    in_order = F.col(TIME_US) >= highest - policy.out_of_order_us
    return F.coalesce((F.col(EVENT_US) == F.col(TIME_US)) & in_order, F.lit(False))


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


def _facts(
    log: Log, timed: DataFrame, policy: StreamAnalyticsOrdering, cells: Cells | None, output: OutputRange | None = None
) -> Facts | None:
    """By the cell that an event takes the watermark to, where there are cells; counted, where there is an output."""
    cell = None if cells is None else cells.at(F.col(TIME_US) - policy.out_of_order_us)
    counted = None if output is None else within(ARRIVAL_US, output)
    if log.memory is None or ARRIVAL_DAY not in timed.columns:
        return facts(timed, counted=counted, cell=cell)
    source = log.source
    hang_on = [
        source.timestamp_by,
        source.over,
        [(column.name, column.type) for column in source.columns],
        policy.early_arrival_us,
        policy.late_arrival_us,
        None if cells is None else (cells.width_us, cells.origin_us, policy.out_of_order_us),
        output is not None,
    ]
    asked = json.dumps(hang_on)
    recalled = log.memory.recall(source.name, asked)
    known = facts(timed, counted=counted, cell=cell, recalled=recalled if output is None else recalled.of(output))
    if known is not None:
        log.memory.learn(source.name, asked, known.found)
    return known


def _alone_in_cells(job: Job, log: Log, carry: Carry | None, method: Method) -> DataFrame | None:
    """The events that count, with a SYSTEM_US that is right to the cell; None where that is not enough or too much."""
    cells = _cells(job, carry, method)
    if cells is None:
        return None
    if log.source.timestamp_by is None:
        return _at_arrival(_events(log.rows()))
    policy = _policy(job, log.source)
    timed = _events(_timed(log.rows(), policy))
    known = _facts(log, timed, policy, cells)
    return None if known is None else _in_cells(log, timed, known, cells, policy)


def _in_cells(
    log: Log, timed: DataFrame, known: Facts, cells: Cells, policy: StreamAnalyticsOrdering
) -> DataFrame | None:
    """As :func:`_alone_in_cells`, of an input with an event time, from facts by cell."""
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


# -- the policy -----------------------------------------------------------------------------------------------------


def _at_arrival(events: DataFrame) -> DataFrame:
    """Without ``timestamp_by`` an event counts when it arrives: no policy applies and there is no watermark."""
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


def _timed(rows: DataFrame, policy: StreamAnalyticsOrdering) -> DataFrame:
    """Normalised rows with TIME_US, which is null for punctuations."""
    event, floor = F.col(EVENT_US), _floor(policy)
    moved = event if floor is None else F.greatest(event, floor)
    return rows.withColumn(TIME_US, F.when(_is_valid() & ~_is_early(policy), moved))


def _judged(scanned: DataFrame, policy: StreamAnalyticsOrdering) -> DataFrame:
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


def _is_exception(policy: StreamAnalyticsOrdering) -> Column:
    """Whether an event with MAX_BEFORE_US does not simply count at its own time; never null."""
    in_order = F.coalesce(F.col(TIME_US) >= _watermark(policy), F.lit(True))
    return ~F.coalesce((F.col(EVENT_US) == F.col(TIME_US)) & in_order, F.lit(False))


def _refusal(policy: StreamAnalyticsOrdering) -> Column:
    """The name of the first test that refused the event, or null."""
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
    moved_by = F.array(F.when(F.col(_LATE), "late"), F.when(F.col(_OUT_OF_ORDER), "out_of_order"))
    moved = F.col(_LATE) | F.col(_OUT_OF_ORDER)
    return {
        VERDICT: F.when(refusal.isNotNull(), "dropped").when(moved, "adjusted").otherwise("accepted"),
        REASONS: F.when(refusal.isNotNull(), F.array(refusal)).otherwise(F.array_compact(moved_by)),
        SYSTEM_US: F.when(refusal.isNull(), F.greatest(F.col(TIME_US), F.col(WATERMARK_US))),
        LIFETIME_END_US: F.lit(None).cast("bigint"),
        MISSED_US: F.array().cast("array<bigint>"),
    }


def _policy(job: Job, source: Input) -> StreamAnalyticsOrdering:
    policy = job.ordering(source.name)
    assert isinstance(policy, StreamAnalyticsOrdering), f"input {source.name} has the ordering of another profile"
    return policy
