"""Windows of stream_insight over lifetimes: ``[start, end)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from pipelines.core.model import Count, Grid, Snapshot
from pipelines.live.state.output import WindowResult
from pipelines.live.state.rows import FOREVER, NEVER, Row
from pipelines.live.windows.buffers import Formed, RowBuffer
from pipelines.live.windows.start_aligned import last_end, starts_of


@dataclass
class LifetimeBuffer(RowBuffer):
    """Lifetimes in tumbling, hopping, snapshot and count windows (I14 to I16).

    The policy may still end the lifetime of a row that is stored here: an end edge gives it its end (I12), or cancels
    it, and then it has no length (I13). ``current_us`` is the policy's current time of each input (I8).
    """

    current_us: Mapping[str, int] = field(default_factory=dict)

    def close(self, until: int) -> list[WindowResult]:
        lasting = {key: [row for row in rows if row.end != row.start] for key, rows in self.groups.items()}
        self.groups = {key: rows for key, rows in lasting.items() if rows}
        if until == FOREVER:
            until = self._end_of_flush()
        elif isinstance(self.window, Snapshot):
            # a snapshot that ends at the current time may still come about by a row that begins there, so it waits
            until -= 1
        return super().close(until)

    def formed(self, rows: Sequence[Row], until: int) -> Formed:
        match self.window:
            case Grid():
                return self._grid_windows(self.window, rows, until)
            case Snapshot():
                points = sorted({point for row in rows for point in (row.start, row.end) if point is not None})
                spans = list(pairwise(points))
            case Count(n):
                starts = sorted({row.start for row in rows})
                spans = [(first, last + 1) for first, last in zip(starts, starts[n - 1 :], strict=False)]
            case _:
                raise AssertionError(self.window)
        formed = []
        for start, end in spans:
            if self.low <= end < until:
                inside = [row for row in rows if row.start < end and (row.end is None or row.end > start)]
                if inside:
                    formed.append((start, end, inside))
        return formed

    def needed(self, rows: Sequence[Row], until: int) -> list[Row]:
        match self.window:
            case Grid():
                return [row for row in rows if row.end is None or last_end(self.window, row.end) >= until]
            case Snapshot():
                ended = [point for row in rows for point in (row.start, row.end) if point is not None and point < until]
                last = max(ended, default=NEVER)
                return [row for row in rows if row.end is None or row.end >= last]
            case Count(n):
                # the next window to end may begin with the last n - 1 of the starts that are all there
                starts = sorted({row.start for row in rows if row.start < until - 1})
                if len(starts) < n - 1:
                    return list(rows)
                first = until - 1 if n == 1 else starts[1 - n]
                return [row for row in rows if row.start >= first or row.end is None or row.end > first]
        raise AssertionError(self.window)

    def _grid_windows(self, window: Grid, rows: Sequence[Row], until: int) -> Formed:
        found: dict[int, list[Row]] = {}
        for row in rows:
            # of a long lifetime only the windows that are asked for
            earliest = max(row.start, self.low - window.size_us)
            for start in starts_of(window, earliest, until if row.end is None else min(row.end, until)):
                if self.low <= start + window.size_us < until:
                    found.setdefault(start, []).append(row)
        return [(start, start + window.size_us, inside) for start, inside in found.items()]

    def _end_of_flush(self) -> int:
        """``flush`` emits windows up to the one that contains the greatest finite end, start or CTI (I17). What was
        removed lies before a CTI."""
        rows = chain.from_iterable(self.groups.values())
        ends = [row.start if row.end is None else row.end for row in rows]
        current = [time_us for name, time_us in self.current_us.items() if self.compiled.reads(name)]
        size_us = self.window.size_us if isinstance(self.window, Grid) else 1
        return max([*ends, *current], default=NEVER) + size_us + 1
