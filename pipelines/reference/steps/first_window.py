"""What the policies of atlas and stream_insight ask of the steps before the first window: whom they let through, and
how they chain sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipelines.core.expressions import Evaluate
from pipelines.core.model import Job
from pipelines.core.steps import Applied, Filtered, Projected, Rows, StepRows, Steps, Windowed, first_window
from pipelines.core.values import grouping_key
from pipelines.reference import events
from pipelines.reference.events import Event
from pipelines.reference.grouping import chain_columns
from pipelines.reference.steps.outputs import relation_of, rows_of_input
from pipelines.reference.steps.relation import Relation, readings


def before_first_window(job: Job, log: Sequence[Event], evaluate: Evaluate | None) -> list[Event]:
    """The events, each with whether it passes the filters, and with its chain, which filters do not take away (G2).

    Of an event that becomes several rows the first one says the chain. A policy of stream_analytics asks for neither.
    """
    assert job.steps is not None
    first = first_window(job.steps)
    if job.profile == "stream_analytics" or first is None:
        return list(log)
    inputs = {part.name: _at_own_time(job, rank, log) for rank, part in enumerate(job.inputs)}
    kept = relation_of(job, inputs, first.rows, evaluate)
    unfiltered = relation_of(job, inputs, _without_filters(first.rows, job.steps), evaluate)
    passed = {row.counted.arrived for row in kept.rows if row.counted is not None}
    chains = _chains(first, unfiltered, evaluate)
    return [
        replace(event, passes=(event.position,) in passed, chain=chains.get((event.position,), ())) for event in log
    ]


def _at_own_time(job: Job, rank: int, log: Sequence[Event]) -> Relation:
    part = job.inputs[rank]
    mine = [event for event in log if event.arrival.input == part.name and event.event_time_us is not None]
    counted = [
        (event.arrival, events.Row(event.event_time_us, (event.position,), event.arrival.payload, {}))
        for event in mine
        if event.event_time_us is not None
    ]
    return rows_of_input(part, rank, counted)


def _chains(
    first: Windowed, relation: Relation, evaluate: Evaluate | None
) -> dict[tuple[int, ...], tuple[object, ...]]:
    texts = chain_columns(first.window)
    chains: dict[tuple[int, ...], tuple[object, ...]] = {}
    for row, reading in zip(relation.rows, readings(relation, texts, evaluate).values, strict=True):
        if row.counted is not None:
            chains.setdefault(row.counted.arrived, tuple(grouping_key(reading[text]) for text in texts))
    return chains


def _without_filters(rows: Rows, steps: Steps) -> Rows:
    """The relation in which each event is still there."""
    match rows:
        case Filtered(inner):
            return _without_filters(inner, steps)
        case StepRows(name):
            return _without_filters(steps.step(name), steps)
        case Projected(inner):
            return replace(rows, rows=_without_filters(inner, steps))
        case Applied(inner):
            return replace(rows, rows=_without_filters(inner, steps), outer=True)
        case _:
            return rows
