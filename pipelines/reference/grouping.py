"""Which rows share a window and a group."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.query import AnyOf, Session, SimpleWindow, Window
from pipelines.core.values import grouping_key
from pipelines.reference.events import Ordered, Profile, Row, Span


def members(window: Window) -> list[tuple[str | None, SimpleWindow]]:
    """The windows that ``window`` stands for, each with its ``window_id`` (S13)."""
    return list(window.members) if isinstance(window, AnyOf) else [(None, window)]


def chain_columns(window: Window) -> list[str]:
    """What sessions are chained by."""
    return [column for _, one in members(window) if isinstance(one, Session) for column in one.partition_by]


def spread(
    window: SimpleWindow, keys: Sequence[str], profile: Profile, ordered: Ordered, rows: Sequence[Row]
) -> list[tuple[Span, list[Row]]]:
    """Each window and group that has rows, once. Sessions are chains of ``partition_by``, then grouped: chains whose
    sessions have the same bounds share a row in a group. All other windows are formed group by group (G5)."""
    assign = profile.assign[type(window)]
    if not isinstance(window, Session):
        return [one for group in partition(rows, keys) for one in assign(window, group, ordered)]
    by_span: dict[Span, list[Row]] = {}
    for chain in partition(rows, window.partition_by):
        for span, inside in assign(window, chain, ordered):
            by_span.setdefault(span, []).extend(inside)
    return [(span, group) for span, inside in by_span.items() for group in partition(inside, keys)]


def partition(rows: Sequence[Row], texts: Sequence[str]) -> list[list[Row]]:
    """The rows that have equal values of all ``texts``; null equals null."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(grouping_key(row.read[text]) for text in texts), []).append(row)
    return list(groups.values())
