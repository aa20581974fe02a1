"""Atlas Stream Processing in Spark: which documents count, in which windows, and which are dead letters.

A document keeps its own time (A1, A2). It is late for a window that had closed before it arrived (``end <= closed``,
see :mod:`pipelines.batch.atlas.watermark`): late for all its windows it is dropped, late for some it is ``partial`` and
counts in the others (A5). With ``boundary: processing_time`` it counts at its arrival time, and nothing is late (A9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.atlas.sessions import IS_LATE, with_sessions
from pipelines.batch.atlas.watermark import CLOSED_US, closed_at_end, partitions_of, with_watermark
from pipelines.batch.columns import (
    ARRIVAL_ORDER,
    ARRIVAL_US,
    EVENT_US,
    INPUT,
    IS_PUNCTUATION,
    LIFETIME_END_US,
    MISSED_US,
    PARTITION,
    REASONS,
    SEQUENCE,
    SETTLED,
    SYSTEM_US,
    VERDICT,
    VERDICT_COLUMNS,
    WATERMARK_US,
    WINDOW_END_US,
    WINDOW_ID,
    WINDOW_START_US,
)
from pipelines.batch.decisions import Decided, WindowRules
from pipelines.batch.grids import with_grid_of_starts
from pipelines.batch.normalise import condition
from pipelines.batch.steps.first_window import PASSES, with_marks
from pipelines.core.expressions import quoted
from pipelines.core.model import AtlasOrdering, Grid, Input, Job, Session, Window
from pipelines.core.steps import first_window
from pipelines.plan.initial_state import InitialState, InitialStates

LATE_REASON = "Input document arrived late."
LATE_OPERATOR = "GroupOperator"
INVALID_TIME_REASON = "Failed to process input document with error: the timeField expression gives no date"
INVALID_TIME_OPERATOR = "KafkaConsumerOperator"

_KEPT_US = "__kept_us"
_COUNTS_AT_US = "__counts_at_us"


def decide(job: Job, inputs: Mapping[str, DataFrame], initial_states: InitialStates | None = None) -> Decided:
    """Verdicts, members and dead letters of an atlas job over its one normalised input (see :class:`Decided`)."""
    source = job.inputs[0] if job.steps is not None else job.input(job.window_query.sources[0])
    ordering = job.ordering(source.name)
    assert isinstance(ordering, AtlasOrdering), "a job of profile atlas has an atlas ordering"
    log = inputs[source.name]
    state = None if initial_states is None else initial_states[source.name]
    partitions = partitions_of(log, source, state)
    by_arrival = ordering.boundary == "processing_time"

    marked = with_watermark(log, partitions, ordering.allowed_lateness_us, () if state is None else state.before)
    events = marked.filter(~F.col(IS_PUNCTUATION)).withColumn(
        _COUNTS_AT_US, F.col(ARRIVAL_US if by_arrival else EVENT_US)
    )
    if by_arrival:
        # the clock closes windows, and it never runs ahead of an arrival
        events = events.withColumn(CLOSED_US, F.lit(None).cast("bigint"))
        at_end = log.agg(F.max(ARRIVAL_US).alias(CLOSED_US)) if state is None else _last_arrival(log, state)
    else:
        seen = None if state is None else state.at_end
        at_end = closed_at_end(log, partitions, ordering.allowed_lateness_us, seen)

    decided = _judged(_placed(job, source, events, by_arrival))
    counting = decided.filter(F.col(SYSTEM_US).isNotNull())
    return Decided(
        verdicts=decided.select(*VERDICT_COLUMNS),
        members=None if job.steps is not None else _members(counting, at_end, job, source),
        dead_letters=_dead_letters(decided, source),
        counting={source.name: counting},
        rules=_rules(None if job.end_of_log == "flush" else at_end),
    )


def _placed(job: Job, source: Input, events: DataFrame, by_arrival: bool) -> DataFrame:
    """The windows that each event counts in; of steps those of the first window."""
    if job.steps is None:
        window, where = job.window_query.window, job.window_query.where
        passes = F.lit(True) if where is None else condition(events, where, "query.where")
    else:
        first = first_window(job.steps)
        if first is None:
            return events.withColumns({MISSED_US: _no_instants(), _KEPT_US: _no_windows(), IS_LATE: F.lit(False)})
        window, passes = first.window, F.col(PASSES)
        if isinstance(window, Session):
            events, window = with_marks(job, source, events, _COUNTS_AT_US)
    if isinstance(window, Session):
        return _placed_in_sessions(events, window, by_arrival, passes)
    assert isinstance(window, Grid), "atlas windows are tumbling, hopping or sessions"
    return _placed_on_grid(events, window)


def _rules(at_end: DataFrame | None) -> WindowRules:
    """Windows of steps: the session that an event was put in; those of a grid that it did not miss."""

    def windows(rows: DataFrame, window: Window, _group_by: Sequence[str]) -> DataFrame:
        if isinstance(window, Session):
            each = rows.withColumn("__window", F.explode(_KEPT_US))
            bounds = {WINDOW_START_US: F.col("__window.start"), WINDOW_END_US: F.col("__window.end")}
            found = each.withColumns(bounds).drop("__window")
        else:
            assert isinstance(window, Grid), "atlas windows are tumbling, hopping or sessions"
            on_grid = with_grid_of_starts(rows, window, SYSTEM_US)
            found = on_grid.filter(~F.array_contains(F.col(MISSED_US), F.col(WINDOW_START_US)))
        return found.withColumn(WINDOW_ID, F.lit(None).cast("string"))

    def settled(frame: DataFrame, at: str, _keys: Mapping[str, str]) -> DataFrame:
        assert at_end is not None
        closed = F.coalesce(F.col(at) <= F.col(CLOSED_US), F.lit(False))
        return frame.crossJoin(F.broadcast(at_end)).withColumn(SETTLED, closed).drop(CLOSED_US)

    return WindowRules(windows, None if at_end is None else settled, (_KEPT_US, MISSED_US))


def _last_arrival(log: DataFrame, state: InitialState) -> DataFrame:
    return log.sparkSession.range(1).select(F.lit(state.last_arrival_us).cast("bigint").alias(CLOSED_US))


def _placed_on_grid(events: DataFrame, grid: Grid) -> DataFrame:
    """Starts of the windows that each event counts in (_KEPT_US) and that had closed before it came (MISSED_US).

    Window ``[start, start + size)`` contains ``t`` iff ``t - size < start <= t``, ``start`` on the grid; between hops
    that are longer than the size are gaps, and an event in one has neither (A6).
    """
    at, hop_us = F.col(_COUNTS_AT_US), grid.hop_us
    origin_us = grid.align_us + grid.offset_us
    last = at - F.pmod(at - origin_us, F.lit(hop_us))
    # the smallest start above at - size, so at or above at - size + 1
    beyond = F.pmod(at - grid.size_us - origin_us, F.lit(hop_us))
    first = at - grid.size_us - beyond + hop_us
    starts = F.when(first <= last, F.sequence(first, last, F.lit(hop_us).cast("bigint")))

    def is_closed(start: Column) -> Column:
        return F.coalesce(start + grid.size_us <= F.col(CLOSED_US), F.lit(False))

    placed = events.withColumn("__starts_us", F.coalesce(starts, _no_instants()))
    return placed.withColumns(
        {
            MISSED_US: F.filter("__starts_us", is_closed),
            _KEPT_US: F.transform(
                F.filter("__starts_us", lambda start: ~is_closed(start)),
                lambda start: F.struct(start.alias("start"), (start + grid.size_us).alias("end")),
            ),
            IS_LATE: F.exists("__starts_us", is_closed) & F.forall("__starts_us", is_closed),
        }
    )


def _placed_in_sessions(events: DataFrame, window: Session, by_arrival: bool, counts: Column) -> DataFrame:
    """The session that each event counts in (_KEPT_US), none for a late one; sessions are never missed in part."""
    valid = events.filter(F.col(EVENT_US).isNotNull())
    if by_arrival:
        # nothing is late and nothing that fits is closed: sessions are runs of arrivals
        valid = valid.withColumns({"__true_watermark": F.col(WATERMARK_US), WATERMARK_US: F.lit(None).cast("bigint")})
    taken = with_sessions(valid, window, _COUNTS_AT_US, counts)
    if by_arrival:
        taken = taken.withColumn(WATERMARK_US, F.col("__true_watermark")).drop("__true_watermark")
    session = F.struct(F.col(WINDOW_START_US).alias("start"), F.col(WINDOW_END_US).alias("end"))
    placed = taken.withColumns(
        {
            MISSED_US: _no_instants(),
            _KEPT_US: F.when(F.col(WINDOW_START_US).isNull(), _no_windows()).otherwise(F.array(session)),
        }
    ).drop(WINDOW_START_US, WINDOW_END_US)
    invalid = events.filter(F.col(EVENT_US).isNull()).withColumns(
        {MISSED_US: _no_instants(), _KEPT_US: _no_windows(), IS_LATE: F.lit(False)}
    )
    return placed.unionByName(invalid)


def _no_instants() -> Column:
    return F.array().cast("array<bigint>")


def _no_windows() -> Column:
    return F.array().cast("array<struct<start:bigint,end:bigint>>")


def _judged(placed: DataFrame) -> DataFrame:
    invalid, late = F.col(EVENT_US).isNull(), F.col(IS_LATE)
    partial = F.size(MISSED_US) > 0
    verdict = F.when(invalid | late, "dropped").when(partial, "partial").otherwise("accepted")
    reasons = F.when(invalid, F.array(F.lit("invalid_time"))).when(late | partial, F.array(F.lit("late")))
    return placed.withColumns(
        {
            VERDICT: verdict,
            REASONS: F.coalesce(reasons, F.array().cast("array<string>")),
            SYSTEM_US: F.when(~(invalid | late), F.col(_COUNTS_AT_US)),
            LIFETIME_END_US: F.lit(None).cast("bigint"),
            WATERMARK_US: F.when(~invalid, F.col(WATERMARK_US)),
            MISSED_US: F.when(invalid, _no_instants()).otherwise(F.col(MISSED_US)),
        }
    )


def _members(counting: DataFrame, at_end: DataFrame, job: Job, source: Input) -> DataFrame:
    if job.window_query.where is not None:
        counting = counting.filter(condition(counting, job.window_query.where, "query.where"))
    each = counting.withColumn("__window", F.explode(_KEPT_US))
    if job.end_of_log == "hold":
        each = each.drop(CLOSED_US).crossJoin(F.broadcast(at_end))
        each = each.filter(F.col("__window.end") <= F.col(CLOSED_US))
    return each.select(
        F.col("__window.start").alias(WINDOW_START_US),
        F.col("__window.end").alias(WINDOW_END_US),
        F.lit(None).cast("string").alias(WINDOW_ID),
        SYSTEM_US,
        *ARRIVAL_ORDER,
        *_payload(source),
    )


def _dead_letters(decided: DataFrame, source: Input) -> DataFrame:
    """One row per document that the product would have dead-lettered (A11): columns of ``dead_letters/<job>``."""
    invalid = F.col(EVENT_US).isNull()
    return decided.filter(F.size(REASONS) > 0).select(
        ARRIVAL_US,
        F.timestamp_micros(ARRIVAL_US).alias("arrival_time"),
        F.col(INPUT).alias("input"),
        F.col(PARTITION).alias("input_partition"),
        F.col(SEQUENCE).alias("sequence"),
        F.when(invalid, INVALID_TIME_OPERATOR).otherwise(LATE_OPERATOR).alias("operator"),
        F.when(invalid, INVALID_TIME_REASON).otherwise(LATE_REASON).alias("reason"),
        F.transform(MISSED_US, F.timestamp_micros).alias("missed_windows"),
        F.to_json(
            F.struct(*_payload(source)),
            {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX", "ignoreNullFields": "false"},
        ).alias("doc"),
    )


def _payload(source: Input) -> list[Column]:
    return [F.col(quoted(column.name)) for column in source.columns]
