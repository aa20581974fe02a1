"""The reference engine: normative, one event at a time, plain Python.

It runs a job over a whole arrival log in arrival order and cuts the results to the output range last, so that nothing
depends on where reading begins (G3). It reads what the expressions give for each row, lets the profile's policy decide
each event's decision, and puts what counts into windows and aggregates (G1). A query of several steps goes on from what
counts in :mod:`pipelines.reference.steps`.

Arrival order is ``(arrival_time, input_partition, sequence)``, across inputs then the inputs' order in the job. Inside
one input partition that is the order of ``sequence``, for arrival time never falls there. A punctuation for all
partitions has no partition; it stands before the partitions' rows of the same arrival time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.expressions import Evaluate, Reading, plain_column, read
from pipelines.core.model import (
    EVERYTHING,
    Arrival,
    Decision,
    Input,
    Job,
    OutputRange,
    Query,
    WindowRow,
    output_name,
)
from pipelines.core.values import grouped_value, grouping_key, order_key
from pipelines.plan.initial_state import InitialStates
from pipelines.reference.aggregates import compute
from pipelines.reference.events import Event, Ordered, Profile, Row, passes, place_of
from pipelines.reference.grouping import chain_columns, spread
from pipelines.reference.joins import join, joined_columns
from pipelines.reference.profiles import PROFILES
from pipelines.reference.steps import Relation, outputs
from pipelines.reference.steps.first_window import before_first_window
from pipelines.reference.steps.outputs import ReferenceData, rows_of_input

__all__ = ["DeadLetter", "Evaluate", "InstantSql", "Outcome", "run"]

InstantSql = Callable[[str], str]
"""Spark SQL that turns an expression into a TIMESTAMP, null where it cannot be converted."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One document the product would have dead-lettered: one row of ``dead_letters/<job>``."""

    input: str
    input_partition: int
    sequence: int
    arrival_time_us: int
    operator: str
    reason: str
    missed_windows_us: tuple[int, ...]
    doc: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: one decision an event, the windows, and (atlas) the dead letters, each in a total order.

    ``members``: for each window the events that counted in it, once each, in the order that the aggregates saw.
    ``outputs``: of a job of steps, the rows of each output.
    """

    decisions: tuple[Decision, ...]
    windows: tuple[WindowRow, ...]
    dead_letters: tuple[DeadLetter, ...] = ()
    members: tuple[tuple[Arrival, ...], ...] = ()
    outputs: Mapping[str, Relation] = field(default_factory=dict)


def run(
    job: Job,
    arrivals: Sequence[Arrival],
    output: OutputRange = EVERYTHING,
    *,
    evaluate: Evaluate | None = None,
    instant_sql: InstantSql | None = None,
    initial_states: InitialStates | None = None,
    references: ReferenceData | None = None,
    evaluate_steps: Evaluate | None = None,
) -> Outcome:
    """Runs ``job`` over ``arrivals`` (the whole log, in any order) and keeps what lies in ``output``.

    With ``initial_states`` they are those of a read range, and timelines begin and end as it says.

    Decisions and dead letters are kept by arrival time, windows by their end, rows of outputs by system timestamp.
    ``evaluate`` computes expressions that are more than a column: one call an input, and one for joined rows.
    ``evaluate_steps`` does so for steps, by the rules that their ``ansi`` asks for; left out it is ``evaluate``.
    ``references``: the job's reference data. ``instant_sql``, which
    :func:`pipelines.job.expressions.instant_sql` is meant for, wraps a time that is not a plain TIMESTAMP column
    before it is evaluated.

    Raises :class:`UsageError` if one of the two is needed and missing, :class:`DataRefused` if the log is none (a
    sequence twice, an arrival time that falls, an event without a partition) or a sum leaves BIGINT.
    """
    profile = PROFILES[job.profile]
    log = _in_arrival_order(job, arrivals)
    events = _events(job, log, evaluate, instant_sql)
    if job.steps is not None:
        events = before_first_window(job, events, evaluate_steps or evaluate)
    ordered = profile.order(job, events, initial_states)
    if job.steps is not None:
        inputs = _inputs(job, log, ordered)
        return Outcome(
            decisions=tuple(decision for decision in ordered.decisions if decision.arrival_time_us in output),
            windows=(),
            dead_letters=tuple(_dead_letters(ordered, output)),
            outputs=outputs(job, inputs, references or {}, ordered, evaluate_steps or evaluate, output),
        )
    windows = _windows(job, profile, ordered, _counted(job, ordered, evaluate), output)
    return Outcome(
        decisions=tuple(decision for decision in ordered.decisions if decision.arrival_time_us in output),
        windows=tuple(row for row, _ in windows),
        dead_letters=tuple(_dead_letters(ordered, output)),
        members=tuple(tuple(log[position] for position in positions) for _, positions in windows),
    )


# -- reading ----------------------------------------------------------------------------------------------------------


def _in_arrival_order(job: Job, given: Sequence[Arrival]) -> list[Arrival]:
    # an input may read another one's log in its own way (Q5)
    readers = [part for part in job.inputs if part.same_log_as is not None]
    copies = [replace(one, input=part.name) for part in readers for one in given if one.input == part.same_log_as]
    arrivals = [*given, *copies]
    rank = {part.name: index for index, part in enumerate(job.inputs)}
    for one in arrivals:
        if one.input not in rank:
            raise UsageError(f"the job has no input '{one.input}'")
        if one.input_partition is None and one.punctuation_us is None:
            raise DataRefused(f"event {one.sequence} of input '{one.input}' has no input partition")
    ordered = sorted(arrivals, key=lambda one: (*place_of(one), rank[one.input]))
    latest: dict[tuple[str, int | None], int] = {}
    for one in ordered:
        before = latest.get((one.input, one.input_partition))
        if before is not None and one.sequence <= before:
            raise DataRefused(
                f"partition {one.input_partition} of input '{one.input}' is not in order: sequence {one.sequence}"
                f" comes after {before}",
                hint="inside a partition 'sequence' rises and 'arrival_time' never falls",
            )
        latest[one.input, one.input_partition] = one.sequence
    return ordered


def _events(job: Job, log: Sequence[Arrival], evaluate: Evaluate | None, instant_sql: InstantSql | None) -> list[Event]:
    """The log's rows in the same order, each with what its input's and the query's expressions say about it."""
    readings: dict[int, Reading] = {}
    times: dict[str, tuple[str | None, str | None]] = {}
    for part in job.inputs:
        times[part.name] = _time(part, part.timestamp_by, instant_sql), _time(part, part.end_by, instant_sql)
        wanted = [text for text in (*times[part.name], part.edge_by, *part.over) if text is not None]
        if job.steps is None and part.name in job.window_query.sources:
            wanted += _query_expressions(job.window_query)
        places = [place for place, one in enumerate(log) if one.input == part.name and one.punctuation_us is None]
        found = read(part.columns, [log[place].payload for place in places], wanted, evaluate)
        readings.update(zip(places, found, strict=True))
    return [_event(job, one, place, readings.get(place, {}), *times[one.input]) for place, one in enumerate(log)]


def _time(part: Input, expression: str | None, instant_sql: InstantSql | None) -> str | None:
    """What is read for an expression of time: a TIMESTAMP column as it is, anything else converted."""
    if expression is None:
        return None
    column = plain_column(expression, part.columns)
    if column is not None and column.type == "timestamp":
        return expression
    if instant_sql is None:
        raise UsageError(
            f"'{expression}' of input '{part.name}' is not a TIMESTAMP column, and nothing was given to convert it",
            hint="pass 'instant_sql' to the reference engine",
        )
    return instant_sql(expression)


def _query_expressions(query: Query) -> list[str]:
    chains = chain_columns(query.window)
    arguments = [aggregate.argument for aggregate in query.aggregates if aggregate.argument is not None]
    return [*query.group_by, *chains, *arguments, *([query.where] if query.where is not None else [])]


def _event(job: Job, arrival: Arrival, position: int, reading: Reading, time: str | None, end: str | None) -> Event:
    if arrival.punctuation_us is not None:
        return Event(arrival, position, reading)
    part = job.input(arrival.input)
    is_read = job.steps is None and part.name in job.window_query.sources
    over = [reading[column] for column in part.over]
    return Event(
        arrival,
        position,
        reading,
        event_time_us=arrival.arrival_time_us if time is None else _instant(reading[time]),
        key=None if None in over else tuple(grouping_key(value) for value in over),
        end_us=None if end is None else _instant(reading[end]),
        edge=None if part.edge_by is None else _text(reading[part.edge_by]),
        match=tuple(grouping_key(arrival.payload[column]) for column in part.match_on),
        passes=is_read and passes(job.window_query, reading),
        chain=tuple(grouping_key(reading[column]) for column in chain_columns(job.window_query.window))
        if is_read
        else (),
    )


def _instant(value: object) -> int | None:
    assert value is None or isinstance(value, int)
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)


# -- counting ---------------------------------------------------------------------------------------------------------


def _inputs(job: Job, log: Sequence[Arrival], ordered: Ordered) -> dict[str, Relation]:
    """The rows of each input that count, for the steps."""
    return {
        part.name: rows_of_input(
            part, rank, [(log[row.arrived[0]], row) for row in ordered.rows if row.input == part.name]
        )
        for rank, part in enumerate(job.inputs)
    }


def _counted(job: Job, ordered: Ordered, evaluate: Evaluate | None) -> list[Row]:
    """The rows that the query's windows take: of its inputs, joined if it joins, and passed by ``where`` (G2)."""
    query = job.window_query
    rows = [row for row in ordered.rows if row.input in query.sources]
    if query.join is not None:
        left, right = job.input(query.join.left), job.input(query.join.right)
        pairs = join(query.join, left, right, ordered.rows)
        columns = joined_columns(left, right)
        found = read(columns, [row.payload for row in pairs], _query_expressions(query), evaluate)
        rows = [Row(row.start_us, row.arrived, row.payload, reading) for row, reading in zip(pairs, found, strict=True)]
    return [row for row in rows if passes(query, row.read)]


def _windows(
    job: Job, profile: Profile, ordered: Ordered, rows: Sequence[Row], output: OutputRange
) -> list[tuple[WindowRow, list[int]]]:
    """The windows of the range, each with the positions in the log of the events that counted in it. The results of all
    windows of ``any_of`` are results of the query (S13)."""
    found = [
        _window_row(job.window_query, span, window_id, inside)
        for window_id, window in job.window_query.windows
        for span, inside in spread(window, job.window_query.group_by, profile, ordered, rows)
        if span[1] in output
        and (job.end_of_log == "flush" or ordered.settled(span[1], _keys(job.window_query, inside[0])))
    ]
    return sorted(found, key=lambda one: _result_order(job.window_query, one[0]))


def _keys(query: Query, row: Row) -> dict[str, object]:
    return {column: grouped_value(row.read[column]) for column in query.group_by}


def _window_row(
    query: Query, span: tuple[int, int], window_id: str | None, inside: Sequence[Row]
) -> tuple[WindowRow, list[int]]:
    in_order = sorted(inside, key=lambda row: row.order)
    values = {output_name(column): value for column, value in _keys(query, in_order[0]).items()}
    for aggregate in query.aggregates:
        argument = aggregate.argument
        values[aggregate.name] = compute(
            aggregate, [None if argument is None else row.read[argument] for row in in_order]
        )
    positions = dict.fromkeys(position for row in in_order for position in sorted(row.arrived))
    return WindowRow(*span, window_id, values), list(positions)


def _result_order(query: Query, row: WindowRow) -> tuple[object, ...]:
    keys = tuple(order_key(row.values[output_name(column)]) for column in query.group_by)
    return row.window_end_us, row.window_start_us, row.window_id or "", keys


def _dead_letters(ordered: Ordered, output: OutputRange) -> list[DeadLetter]:
    return [
        DeadLetter(
            decision.input,
            decision.input_partition,
            decision.sequence,
            decision.arrival_time_us,
            operator,
            reason,
            decision.missed_windows_us,
            event.arrival.payload,
        )
        for event, decision, operator, reason in ordered.dead_letters
        if decision.arrival_time_us in output
    ]
