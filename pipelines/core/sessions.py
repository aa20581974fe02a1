"""Session windows: by timeout and check point (stream_analytics)."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.events import Ordered, Row, Span
from pipelines.core.model import Session, SimpleWindow


def last_instant_us(window: Session, opened_us: int, latest_us: int) -> int:
    """Where a session closes that opened at ``opened_us`` and saw its latest row at ``latest_us``.

    Rule: at ``latest + timeout``, or at the first check point (``align + k * max_duration``) that lies at least
    ``max_duration`` after the opening, whichever comes first.
    """
    end_us = latest_us + window.timeout_us
    if window.max_duration_us is None:
        return end_us
    earliest_us = opened_us + window.max_duration_us
    return min(end_us, earliest_us + (window.align_us - earliest_us) % window.max_duration_us)


def spread_timeout_sessions(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """Sessions of one chain. A row exactly at the closing instant is still inside; the next row after it opens anew."""
    assert isinstance(window, Session)
    found: list[tuple[Span, list[Row]]] = []
    inside: list[Row] = []
    for row in sorted(rows, key=lambda row: row.order):
        if inside and row.start_us > last_instant_us(window, inside[0].start_us, inside[-1].start_us):
            found.append((_span(window, inside), inside))
            inside = []
        inside.append(row)
    if inside:
        found.append((_span(window, inside), inside))
    return found


def _span(window: Session, inside: Sequence[Row]) -> Span:
    opened_us = inside[0].start_us
    return opened_us, last_instant_us(window, opened_us, inside[-1].start_us)
