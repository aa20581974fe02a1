"""Session windows: by timeout and check point (stream_analytics), by gap (atlas)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import Session, SimpleWindow
from pipelines.reference.events import Ordered, Row, Span


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


def assign_timeout_sessions(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
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


@dataclass(slots=True)
class OpenSession:
    """A session by gap that is still open: from its earliest to its latest row."""

    number: int
    earliest_us: int
    latest_us: int


@dataclass(slots=True)
class GapSessions:
    """The open sessions of each chain, as rows come in arrival order.

    Rule A7: two rows of a chain share a session iff their times are less than the gap apart, or others link them; a row
    that fits two open sessions merges them. A closed session takes nothing more.
    """

    gap_us: int
    _open: dict[Hashable, list[OpenSession]] = field(default_factory=dict)
    _merged_into: dict[int, int] = field(default_factory=dict)
    _numbers: int = 0

    def fits(self, chain: Hashable, at_us: int) -> list[OpenSession]:
        """The open sessions that a row at ``at_us`` would belong to."""
        return [
            one
            for one in self._open.get(chain, [])
            if one.earliest_us - self.gap_us < at_us < one.latest_us + self.gap_us
        ]

    def put(self, chain: Hashable, at_us: int) -> int:
        """Puts a row in its session, opening or merging as needed, and gives the session's number."""
        fitting = self.fits(chain, at_us)
        if not fitting:
            self._numbers += 1
            self._open.setdefault(chain, []).append(OpenSession(self._numbers, at_us, at_us))
            return self._numbers
        kept, *others = fitting
        kept.earliest_us = min(at_us, *(one.earliest_us for one in fitting))
        kept.latest_us = max(at_us, *(one.latest_us for one in fitting))
        for one in others:
            self._merged_into[one.number] = kept.number
            self._open[chain].remove(one)
        return kept.number

    def close(self, until_us: int) -> None:
        """Closes every session whose end, its latest row plus the gap, is at or before ``until_us``."""
        for chain, sessions in self._open.items():
            self._open[chain] = [one for one in sessions if one.latest_us + self.gap_us > until_us]

    def final(self, number: int) -> int:
        """The number of the session that session ``number`` has become part of."""
        while number in self._merged_into:
            number = self._merged_into[number]
        return number


def assign_gap_sessions(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """Sessions as the ordering formed them: ``[earliest, latest + gap)``."""
    assert isinstance(window, Session)
    found: dict[int, list[Row]] = {}
    for row in rows:
        assert row.session is not None
        found.setdefault(row.session, []).append(row)
    return [
        ((min(row.start_us for row in inside), max(row.start_us for row in inside) + window.timeout_us), inside)
        for inside in found.values()
    ]
