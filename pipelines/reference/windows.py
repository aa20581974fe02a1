"""Which windows an instant or a lifetime falls in: grids, sliding and snapshot windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipelines.core.model import Grid, SimpleWindow, Sliding, Snapshot
from pipelines.reference.events import Ordered, Row, Span


def ends_on_grid(window: Grid, at_us: int) -> list[Span]:
    """Windows ``(start, end]`` that contain ``at_us``, with ends at ``align + offset + k * hop``, earliest first.

    Rule S9: ``start < at <= end``. Empty where ``at_us`` lies in the gap between two hops.
    """
    spans = []
    end_us = at_us + (window.align_us + window.offset_us - at_us) % window.hop_us
    while end_us - window.size_us < at_us:
        spans.append((end_us - window.size_us, end_us))
        end_us += window.hop_us
    return spans


def starts_on_grid(window: Grid, from_us: int, to_us: int) -> list[Span]:
    """Windows ``[start, end)`` that overlap ``[from_us, to_us)``, with starts on the grid, earliest first.

    Rule A6, I14: ``start < to and end > from``; an instant ``t`` is ``[t, t + 1)``. Empty in the gap between two hops.
    """
    origin_us = window.align_us + window.offset_us
    spans = []
    start_us = origin_us + ((from_us - window.size_us - origin_us) // window.hop_us + 1) * window.hop_us
    while start_us < to_us:
        spans.append((start_us, start_us + window.size_us))
        start_us += window.hop_us
    return spans


def gather(rows: Iterable[Row], spans_of: Callable[[Row], Iterable[Span]]) -> list[tuple[Span, list[Row]]]:
    """The rows of each window that has any, windows in order of end, then start."""
    windows: dict[Span, list[Row]] = {}
    for row in rows:
        for span in spans_of(row):
            windows.setdefault(span, []).append(row)
    return sorted(windows.items(), key=lambda item: (item[0][1], item[0][0]))


def assign_ends_on_grid(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """Tumbling and hopping windows of stream_analytics."""
    assert isinstance(window, Grid)
    return gather(rows, lambda row: ends_on_grid(window, row.start_us))


def assign_starts_on_grid(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """Tumbling and hopping windows of atlas: all that contain the row's instant and were not closed when it came."""
    assert isinstance(window, Grid)
    return gather(
        rows,
        lambda row: [
            span for span in starts_on_grid(window, row.start_us, row.start_us + 1) if span[0] not in row.missed_us
        ],
    )


def assign_sliding(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """Windows ``(end - size, end]`` that end where the content changes: as a row enters and as one has left.

    Rule S10: candidate ends are every row's time and that time plus the size. Rule G4: an empty window has no result.
    """
    assert isinstance(window, Sliding)
    times_us = {row.start_us for row in rows}
    found = []
    for end_us in sorted(times_us | {time_us + window.size_us for time_us in times_us}):
        inside = [row for row in rows if end_us - window.size_us < row.start_us <= end_us]
        if inside:
            found.append(((end_us - window.size_us, end_us), inside))
    return found


def assign_equal_times(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """Snapshot windows of stream_analytics: rows of equal system timestamp, which is both start and end (S12)."""
    assert isinstance(window, Snapshot)
    return gather(rows, lambda row: [(row.start_us, row.start_us)])
