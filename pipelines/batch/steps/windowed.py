"""Windows over any relation: one row for each window and group that has rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import functions as F

from pipelines.batch.aggregates import aggregate
from pipelines.batch.columns import SETTLED, SYSTEM_US, WINDOW_END_US, WINDOW_ID, WINDOW_START_US
from pipelines.batch.decisions import WindowRules
from pipelines.batch.steps.relation import ORDER, Relation, in_order
from pipelines.batch.stream_analytics.windows import windowed as windows_of_rows
from pipelines.core.expressions import quoted
from pipelines.core.model import Aggregate, AnyOf, Query, Session, Window
from pipelines.core.steps import Windowed


def windowed(rows: Relation, one: Windowed, rules: WindowRules) -> Relation:
    """Each window's groups, at the window's end (Q46 to Q60); with ``partition_by`` those of each of its values apart.

    Windows over events are the profile's own; over other rows an edge belongs to the window that ends there (Q7).
    Groups are ordered by ``(window_id, values of partition_by, values of keys)``.
    """
    expressions: dict[str, str] = {}
    name_of = partial(_named, expressions)
    apart = tuple(name_of(text) for text in one.partition_by)
    keys = tuple(name_of(key.expression) for key in one.keys)
    aggregates = tuple(_over_columns(each, expressions) for each in one.aggregates)
    window = _apart(one.window, apart, expressions)
    group_by = tuple(dict.fromkeys((*apart, *keys)))
    query = Query(window, aggregates, group_by=group_by)
    if rows.origin == "event":
        members = rules.windows(rows.computed(expressions, *rows.hidden), window, group_by)
    else:
        members = windows_of_rows(rows.computed(expressions, SYSTEM_US, ORDER), window, group_by)
    groups = aggregate(members, query, (SYSTEM_US, ORDER))
    if rules.settled is not None:
        columns = {key.expression.strip("`").lower(): name for key, name in zip(one.keys, keys, strict=True)}
        groups = rules.settled(groups, WINDOW_END_US, columns).filter(SETTLED)
    values = (F.col(name).alias(f"key{at}") for at, name in enumerate((*apart, *keys)))
    # sessions of different chains may end together in one group; the earlier start comes first
    place = F.struct(F.col(WINDOW_ID).alias("id"), *values, F.col(WINDOW_START_US).alias("start_us"))
    frame = groups.select(
        *(F.col(name).alias(key.name) for name, key in zip(keys, one.keys, strict=True)),
        *(F.col(quoted(each.name)) for each in aggregates),
        F.col(WINDOW_END_US).alias(SYSTEM_US),
        in_order(place).alias(ORDER),
        WINDOW_START_US,
        WINDOW_ID,
    )
    names = (*(key.name for key in one.keys), *(each.name for each in aggregates))
    return Relation(frame, names, "window", rows.ansi)


def _named(expressions: dict[str, str], text: str) -> str:
    """The hidden column that contains the value of an expression."""
    known = {expression: name for name, expression in expressions.items()}
    name = known.get(text, f"__computed{len(expressions)}")
    expressions[name] = text
    return name


def _over_columns(one: Aggregate, expressions: dict[str, str]) -> Aggregate:
    """The aggregate over columns that contain what it is over."""
    return replace(
        one,
        argument=None if one.argument is None else _named(expressions, one.argument),
        order_by=tuple(replace(key, expression=_named(expressions, key.expression)) for key in one.order_by),
    )


def _apart(window: Window, apart: tuple[str, ...], expressions: dict[str, str]) -> Window:
    """The window with sessions formed for each value of ``apart`` too, by the columns that contain their values."""
    if isinstance(window, AnyOf):
        members = ((name, _apart(member, apart, expressions)) for name, member in window.members)
        # a member is a single window, and stays one; the type of this function cannot say so
        return AnyOf(tuple(members))  # type: ignore[arg-type]
    if isinstance(window, Session):
        chains = (_named(expressions, text) for text in window.partition_by)
        return replace(window, partition_by=(*apart, *chains))
    return window
