"""Window steps: one row for each window and group, at the window's end (Q46 to Q60)."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.expressions import Evaluate
from pipelines.core.model import Job
from pipelines.core.query import Column
from pipelines.core.steps import Windowed
from pipelines.core.values import grouped_value, order_key
from pipelines.reference import events
from pipelines.reference.events import Ordered, Span
from pipelines.reference.grouping import chain_columns, members, partition, spread
from pipelines.reference.profiles import PROFILES
from pipelines.reference.steps.aggregates import expressions_of, type_of, value_of
from pipelines.reference.steps.relation import Readings, Relation, Row, in_order, readings

WINDOW = (Column("window_start", "timestamp"), Column("window_end", "timestamp"), Column("window_id", "string"))


def windowed(relation: Relation, step: Windowed, job: Job, ordered: Ordered, evaluate: Evaluate | None) -> Relation:
    """Windows over events are the profile's own; over other rows an edge belongs to the window that ends there (Q7).

    Under ``hold`` those are left out that were open when the log ended.
    """
    keys = [one.expression for one in step.keys]
    texts = [*keys, *step.partition_by, *chain_columns(step.window)]
    found = readings(relation, [*texts, *(text for one in step.aggregates for text in expressions_of(one))], evaluate)
    profile = PROFILES[job.profile if relation.is_of_events else "stream_analytics"]
    rows = [
        _window_row(step, span, window_id, inside)
        for apart in partition(_counted(relation, found), step.partition_by)
        for window_id, window in members(step.window)
        for span, inside in spread(window, keys, profile, ordered, apart)
        if job.end_of_log == "flush"
        or ordered.settled(span[1], {text.strip("`"): inside[0].read[text] for text in keys})
    ]
    columns = [Column(one.name, found.types[one.expression]) for one in step.keys]
    columns += [Column(one.name, type_of(one, found.types)) for one in step.aggregates]
    kind = ("window", *(found.types[text] for text in (*step.partition_by, *keys)))
    return Relation(tuple(columns), WINDOW, kind, in_order(rows))


def _counted(relation: Relation, found: Readings) -> list[events.Row]:
    """The rows as windows take them, each with its place in the relation as its arrival order."""
    return [
        events.Row(row.at_us, (place,), {}, reading)
        if row.counted is None
        else events.Row(
            row.at_us,
            (place,),
            {},
            reading,
            end_us=row.counted.end_us,
            missed_us=row.counted.missed_us,
            session=row.counted.session,
        )
        for place, (row, reading) in enumerate(zip(relation.rows, found.values, strict=True))
    ]


def _window_row(step: Windowed, span: Span, window_id: str | None, inside: Sequence[events.Row]) -> Row:
    rows = [row.read for row in sorted(inside, key=lambda row: row.order)]
    keys = {one.name: grouped_value(rows[0][one.expression]) for one in step.keys}
    apart = (rows[0][text] for text in step.partition_by)
    start_us, end_us = span
    # chains of sessions may end together in one group; the earlier start comes first
    place = (*map(order_key, (window_id, *apart, *keys.values())), start_us)
    values = {**keys, **{one.name: value_of(one, rows) for one in step.aggregates}}
    return Row(end_us, (place, ()), values, {"window_start": start_us, "window_end": end_us, "window_id": window_id})
