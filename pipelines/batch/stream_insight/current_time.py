"""The current time of a stream_insight input: where CTIs are issued, and which one an arriving item meets.

An input is one timeline: all its partitions in arrival order. Its CTIs are generated from its own items, recorded as
punctuations, or imported from another input; the effective CTI is the largest so far (I8). Every candidate depends on
what was *received*, never on what the policy made of it, so the current time is a prefix maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_US, EVENT_US, IS_PUNCTUATION, PARTITION, PUNCTUATION_US, SEQUENCE
from pipelines.batch.stream_insight.items import END, KIND
from pipelines.batch.stream_insight.prefix_sums import before
from pipelines.core.model import Job, StreamInsightOrdering
from pipelines.plan.initial_state import Clock

CANDIDATE_US = "__cti_candidate_us"
"""The CTI that is issued right after a row, null if none is."""
CURRENT_US = "__cti_current_us"
"""The effective CTI when the row arrived (rows strictly before it), null before the first."""

_OWN = "__cti_own"
_COUNTED_BEFORE = "__cti_counted_before"
_NEWEST_BEFORE_US = "__cti_newest_before_us"
_TRIGGER_US = "__cti_trigger_us"
_CHUNK = 512


def arrival_order() -> list[Column]:
    """The order of one input's rows; a punctuation for all partitions precedes the partitions of its instant."""
    return [F.col(ARRIVAL_US), F.col(PARTITION).asc_nulls_first(), F.col(SEQUENCE)]


def policy(job: Job, name: str) -> StreamInsightOrdering:
    """The ordering of one input, which a stream_insight job always has in this form."""
    ordering = job.ordering(name)
    assert isinstance(ordering, StreamInsightOrdering)
    return ordering


def with_candidates(items: DataFrame, ordering: StreamInsightOrdering, clock: Clock) -> DataFrame:
    """``items`` (of :func:`read_items`) with CANDIDATE_US: of counted items (I6), or a punctuation's time (I7).

    Counted are points, intervals and start edges with a readable lifetime, whatever the policy does to them later;
    end edges are not, nor is what was refused as ``invalid_time``: an adapter cannot enqueue it. A generated CTI is
    the triggering item's own start minus the delay, and acts after the item. ``clock`` is the state after
    the items before.
    """
    counted = F.coalesce((F.col(KIND) != END), F.lit(False))
    stamp_us = F.col(EVENT_US) - F.lit(ordering.delay_us)
    if ordering.every_events is not None:
        items, triggers = _every_events(items, counted, ordering.every_events, clock.received)
    elif ordering.every_us is not None:
        items, triggers = _every_duration(items, counted, ordering.every_us, clock.baseline_us)
    else:
        triggers = F.lit(False)
    candidate = F.when(F.col(IS_PUNCTUATION), F.col(PUNCTUATION_US)).when(triggers, stamp_us)
    return items.withColumn(CANDIDATE_US, candidate).drop(_COUNTED_BEFORE, _NEWEST_BEFORE_US, _TRIGGER_US)


def _every_events(items: DataFrame, counted: Column, every: int, received: int) -> tuple[DataFrame, Column]:
    """Counted item number k (from 1, and after those ``received`` before) triggers iff ``k mod every == 0`` (I4)."""
    if every == 1:
        return items, counted
    one = F.when(counted, F.lit(1)).otherwise(F.lit(0)).cast("bigint")
    numbered = before(items, _COUNTED_BEFORE, one, "sum", along=ARRIVAL_US, order=arrival_order())
    return numbered, counted & ((F.col(_COUNTED_BEFORE) + (received % every + 1)) % every == 0)


def _every_duration(
    items: DataFrame, counted: Column, every_us: int, baseline_us: int | None
) -> tuple[DataFrame, Column]:
    """A counted item triggers iff it is the first, or starts at least ``every_us`` after the last that triggered (I5).

    Each trigger starts later than everything received before it, so only the first items at a new maximum can be
    triggers, and which of them are depends on their start times alone, and on ``baseline_us``, the start of the last
    that triggered before: nothing received until then starts ``every_us`` after it.
    """
    start_us = F.when(counted, F.col(EVENT_US))
    ranked = before(items, _NEWEST_BEFORE_US, start_us, "max", along=ARRIVAL_US, order=arrival_order())
    newest = counted & (F.col(_NEWEST_BEFORE_US).isNull() | (F.col(EVENT_US) > F.col(_NEWEST_BEFORE_US)))
    triggers = _jump_chain(ranked.filter(newest).select(EVENT_US), every_us, baseline_us)
    joined = ranked.join(triggers, newest & (F.col(EVENT_US) == F.col(_TRIGGER_US)), "left")
    return joined, F.col(_TRIGGER_US).isNotNull()


def _jump_chain(maxima: DataFrame, every_us: int, baseline_us: int | None) -> DataFrame:
    """Of distinct instants in one column: the least that is at least ``every_us`` after ``baseline_us`` (None: the
    least), then each time the first at least ``every_us`` later.

    The chain is sequential by nature: a single task walks the sorted maxima. It costs 8 bytes and well under a
    microsecond for each distinct running maximum of the log, so some hundred million of them at most. Found
    triggers are gathered in chunks, since growing one long array would copy it for every trigger.
    """
    empty = F.array().cast("array<bigint>")
    nothing = F.struct(
        F.lit(baseline_us).cast("bigint").alias("base"),
        empty.alias("chunk"),
        F.array().cast("array<array<bigint>>").alias("full"),
    )

    def step(state: Column, instant_us: Column) -> Column:
        full = F.size(state["chunk"]) >= _CHUNK
        triggered = F.struct(
            instant_us.alias("base"),
            F.when(full, F.array(instant_us)).otherwise(F.concat(state["chunk"], F.array(instant_us))).alias("chunk"),
            F.when(full, F.concat(state["full"], F.array(state["chunk"]))).otherwise(state["full"]).alias("full"),
        )
        due = state["base"].isNull() | (instant_us - state["base"] >= every_us)
        return F.when(due, triggered).otherwise(state)

    chain = F.aggregate(
        F.sort_array(F.collect_list(F.col(maxima.columns[0]))),
        nothing,
        step,
        lambda state: F.flatten(F.concat(state["full"], F.array(state["chunk"]))),
    )
    return maxima.agg(chain.alias(_TRIGGER_US)).select(F.explode(_TRIGGER_US).alias(_TRIGGER_US))


def imported_inputs(job: Job, name: str) -> list[str]:
    """The inputs whose CTIs reach ``name``: the one it imports from, the one that imports from, and so on."""
    chain: list[str] = []
    source = policy(job, name).import_from
    while source is not None and source != name and source not in chain:
        chain.append(source)
        source = policy(job, source).import_from
    return chain


def reaching(job: Job, name: str, clocks: Mapping[str, Clock]) -> int | None:
    """The effective CTI of an input where the clocks of all inputs stand as they say."""
    ctis = [clocks[part].cti_us for part in (name, *imported_inputs(job, name))]
    return max((cti_us for cti_us in ctis if cti_us is not None), default=None)


def with_current_time(
    job: Job, name: str, candidates: Mapping[str, DataFrame], clocks: Mapping[str, Clock]
) -> DataFrame:
    """Rows of input ``name`` with CURRENT_US; ``candidates`` are all inputs after :func:`with_candidates`, and
    ``clocks`` stand as they did before the first row.

    An imported CTI stands where it was issued in the arrival order of both inputs; one that was issued at the very
    position of an own row (same arrival time, partition and sequence) precedes that row.
    """
    position = (ARRIVAL_US, PARTITION, SEQUENCE)
    rows = candidates[name].withColumn(_OWN, F.lit(1))
    for source in imported_inputs(job, name):
        issued = candidates[source].filter(F.col(CANDIDATE_US).isNotNull())
        issued = issued.select(*position, CANDIDATE_US, F.lit(0).alias(_OWN))
        rows = rows.unionByName(issued, allowMissingColumns=True)
    order = [*arrival_order(), F.col(_OWN)]
    scanned = before(rows, CURRENT_US, F.col(CANDIDATE_US), "max", along=ARRIVAL_US, order=order)
    recalled = F.lit(reaching(job, name, clocks)).cast("bigint")
    return scanned.filter(F.col(_OWN) == 1).drop(_OWN).withColumn(CURRENT_US, F.greatest(CURRENT_US, recalled))


def last_ctis(
    job: Job, names: Sequence[str], candidates: Mapping[str, DataFrame], clocks: Mapping[str, Clock] | None
) -> DataFrame:
    """One row an input of ``names``: column CURRENT_US, the last effective CTI of the log, null if there is none.

    ``clocks`` stand as they do at the end of the log; None: ``candidates`` are of all of it and say so.
    """
    parts = []
    for name in names:
        if clocks is not None:
            last = F.lit(reaching(job, name, clocks)).cast("bigint").alias(CURRENT_US)
            parts.append(candidates[name].sparkSession.range(1).select(last))
            continue
        issued = [candidates[part].select(CANDIDATE_US) for part in (name, *imported_inputs(job, name))]
        together = reduce(DataFrame.union, issued)
        parts.append(together.agg(F.max(CANDIDATE_US).alias(CURRENT_US)))
    return reduce(DataFrame.union, parts)
