"""Windows over lifetimes ``[start, end)`` (stream_insight): a row is in every window that its lifetime overlaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pipelines.core.model import Count, Grid, SimpleWindow, Snapshot
from pipelines.reference.events import Ordered, Row, Span
from pipelines.reference.windows import gather, starts_on_grid


def overlaps(row: Row, span: Span) -> bool:
    """Rule: ``start < window end and end > window start``; a lifetime without an end reaches everywhere after."""
    return row.start_us < span[1] and (row.end_us is None or row.end_us > span[0])


def assign_starts_on_grid(window: SimpleWindow, rows: Sequence[Row], ordered: Ordered) -> list[tuple[Span, list[Row]]]:
    """Hopping and tumbling windows (I14); a lifetime without an end is in all up to the one with the horizon (I17)."""
    assert isinstance(window, Grid)
    horizon_us = ordered.horizon_us

    def spans(row: Row) -> list[Span]:
        if row.end_us is not None:
            return starts_on_grid(window, row.start_us, row.end_us)
        assert horizon_us is not None
        return starts_on_grid(window, row.start_us, horizon_us + 1)

    return gather(rows, spans)


def assign_snapshots(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """One window between each pair of neighbouring endpoints; one after the last finite endpoint never ends (I15)."""
    assert isinstance(window, Snapshot)
    endpoints_us = sorted({one for row in rows for one in (row.start_us, row.end_us) if one is not None})
    return _filled(rows, pairwise(endpoints_us))


def assign_counts(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """For each run of N distinct starts ``t1 .. tN`` the window ``[t1, tN + 1 us)``; none before there are N (I16)."""
    assert isinstance(window, Count)
    starts_us = sorted({row.start_us for row in rows})
    return _filled(rows, ((first, last + 1) for first, last in zip(starts_us, starts_us[window.n - 1 :], strict=False)))


def _filled(rows: Sequence[Row], spans: Iterable[Span]) -> list[tuple[Span, list[Row]]]:
    windows = ((span, [row for row in rows if overlaps(row, span)]) for span in spans)
    return [(span, inside) for span, inside in windows if inside]
