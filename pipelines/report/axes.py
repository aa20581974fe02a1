"""The two axes that events are counted on: bins of arrival time, bands of lag (arrival time minus event time)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.core.time import DAY, HOUR, MINUTE, SECOND, format_duration

MAX_BINS = 100
"""Bins that a chart has at most."""

_BIN_US = (
    *(count * SECOND for count in (1, 5, 15, 30)),
    *(count * MINUTE for count in (1, 5, 15, 30)),
    *(count * HOUR for count in (1, 3, 6, 12)),
    *(count * DAY for count in (1, 2, 4, 7, 14, 28, 91, 365)),
)
_LAGS_US = (
    *(count * SECOND for count in (1, 10, 30)),
    *(count * MINUTE for count in (1, 2, 5, 10, 20, 30)),
    *(count * HOUR for count in (1, 2, 4, 8)),
    *(count * DAY for count in (1, 2, 7, 30, 365)),
)


@dataclass(frozen=True, slots=True)
class Bins:
    """``count`` bins of ``width_us``: bin ``i`` is ``[first_us + i * width_us, first_us + (i + 1) * width_us)``."""

    first_us: int
    width_us: int
    count: int

    def start_us(self, index: int) -> int:
        """The start of bin ``index``."""
        return self.first_us + index * self.width_us

    def index(self, instant_us: int) -> int:
        """The bin that contains an instant."""
        return (instant_us - self.first_us) // self.width_us


def bins_over(first_us: int, last_us: int, most: int = MAX_BINS) -> Bins:
    """At most ``most`` bins of a round width, on multiples of it, that contain ``[first_us, last_us]``."""
    assert first_us <= last_us
    assert most >= 2, most
    width_us = next((one for one in _BIN_US if _count(first_us, last_us, one) <= most), _BIN_US[-1])
    while _count(first_us, last_us, width_us) > most:
        width_us *= 2
    return Bins(first_us // width_us * width_us, width_us, _count(first_us, last_us, width_us))


def _count(first_us: int, last_us: int, width_us: int) -> int:
    return last_us // width_us - first_us // width_us + 1


@dataclass(frozen=True, slots=True)
class Edge:
    """A boundary of lag: a band ends with it, inclusive, at ``lag_us``; ``label`` is its text."""

    lag_us: int
    label: str


@dataclass(frozen=True, slots=True)
class Bands:
    """Bands between neighbouring edges: band 0 has lags ``<= edges[0]``, the last band those above the last edge.

    The bounds of the policy are edges: late means lag ``> tolerance``, early means lag ``< -guard``.
    """

    edges: tuple[Edge, ...]

    @property
    def count(self) -> int:
        """How many bands there are: one more than edges."""
        return len(self.edges) + 1

    @property
    def lags_us(self) -> list[int]:
        """The edges' numbers."""
        return [edge.lag_us for edge in self.edges]

    def name(self, band: int) -> str:
        """A band as text, such as ``1m to 2m late``; late here means after the event, not beyond a tolerance."""
        if band == 0:
            return f"more than {self.edges[0].label.removeprefix('-')} before"
        low = self.edges[band - 1].label
        if band == len(self.edges):
            return f"more than {low} after"
        high = self.edges[band].label
        if high.startswith("-") or high == "0":
            early = (high.removeprefix("-"), low.removeprefix("-"))
            return f"{early[0]} to {early[1]} before"
        return f"{low} to {high} after"


def all_bands(early_us: int | None, late_us: int | None) -> Bands:
    """Every band that a lag may fall in, with edges where the policy has its bounds (None: it has none)."""
    before = {*_LAGS_US, *({early_us} if early_us else ())}
    after = {0, *_LAGS_US, *({late_us} if late_us else ())}
    # an event exactly `guard` ahead is not early, so the band below ends one microsecond earlier
    edges = [Edge(-lag_us - 1, f"-{format_duration(lag_us)}") for lag_us in sorted(before, reverse=True)]
    edges += [Edge(lag_us, format_duration(lag_us) if lag_us else "0") for lag_us in sorted(after)]
    return Bands(tuple(edges))


def compact(bands: Bands, counts: Sequence[int], keep_us: Iterable[int]) -> tuple[Bands, list[int]]:
    """``bands`` without edges next to empty bands, and for each old band the new one.

    An empty band joins its neighbour further from zero; the outermost band with events keeps its own bound.
    ``keep_us`` and 0 stay.
    """
    assert len(counts) == bands.count
    kept = {0, *keep_us}
    zero = bands.lags_us.index(0)
    outward = [*range(zero + 1, len(bands.edges)), *range(zero - 1, -1, -1)]
    gone: set[int] = set()
    empty = True
    for edge in outward:
        after = edge > zero
        if edge in (zero + 1, zero - 1):
            empty = True
        empty = empty and counts[edge if after else edge + 1] == 0
        if empty and bands.edges[edge].lag_us not in kept:
            gone.add(edge)
        else:
            empty = True
    left = Bands(tuple(edge for place, edge in enumerate(bands.edges) if place not in gone))
    moved = [sum(edge.lag_us < lag_us for edge in left.edges) for lag_us in bands.lags_us]
    return left, [*moved, len(left.edges)]
