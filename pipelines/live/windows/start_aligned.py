"""Windows of atlas on a grid: ``[start, end)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.core.model import Grid
from pipelines.live.state.rows import Row
from pipelines.live.windows.buffers import Formed, RowBuffer


def starts_of(window: Grid, start: int, end: int) -> list[int]:
    """Starts ``b`` on the grid with ``b < end`` and ``b + size > start``, rising (A6, I14)."""
    origin = window.align_us + window.offset_us
    first = (start - window.size_us - origin) // window.hop_us + 1
    last = -((origin - end) // window.hop_us) - 1
    return [origin + index * window.hop_us for index in range(first, last + 1)]


def last_end(window: Grid, end: int) -> int:
    """The end of the last window on the grid that starts before ``end``."""
    origin = window.align_us + window.offset_us
    return origin - ((origin - end) // window.hop_us + 1) * window.hop_us + window.size_us


@dataclass
class StartAlignedBuffer(RowBuffer):
    """Documents in tumbling and hopping windows (A6): each counts where it was not too late (A5)."""

    window: Grid

    def formed(self, rows: Sequence[Row], until: int) -> Formed:
        size_us = self.window.size_us
        found: dict[int, list[Row]] = {}
        for row in rows:
            for start in starts_of(self.window, row.start, row.start + 1):
                if self.low <= start + size_us < until and start not in row.missed:
                    found.setdefault(start, []).append(row)
        return [(start, start + size_us, inside) for start, inside in found.items()]

    def needed(self, rows: Sequence[Row], until: int) -> list[Row]:
        return [row for row in rows if last_end(self.window, row.start + 1) >= until]
