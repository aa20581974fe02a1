"""Session windows: by timeout and check point (stream_analytics), by gap (atlas)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import Session, SimpleWindow
from pipelines.reference.events import Ordered, Row, Span


def closing_check_us(window: Session, opened_us: int, first_us: int) -> int:
    """The check point at which a session closes at the latest (S11).

    It is the first ``align + k * max_duration`` that is at least ``max_duration`` after the opening and not before the
    first row: a check point between the two closes nothing.
    """
    assert window.max_duration_us is not None, "a session of stream_analytics has a greatest duration"
    earliest_us = max(opened_us + window.max_duration_us, first_us)
    return earliest_us + (window.align_us - earliest_us) % window.max_duration_us


def assign_timeout_sessions(window: SimpleWindow, rows: Sequence[Row], _: Ordered) -> list[tuple[Span, list[Row]]]:
    """Sessions of one chain (S11).

    A session takes a row at most ``timeout`` after its last one and not after its closing check point. After a check
    point has closed it, the next session opens there while the timeout runs, else at its own first row.
    """
    assert isinstance(window, Session)
    sessions: list[tuple[int, list[Row]]] = []
    for row in sorted(rows, key=lambda row: row.order):
        opened_us = row.start_us
        if sessions:
            check_us, inside = sessions[-1]
            if row.start_us - inside[-1].start_us <= window.timeout_us:
                if row.start_us <= check_us:
                    inside.append(row)
                    continue
                opened_us = check_us
        sessions.append((closing_check_us(window, opened_us, row.start_us), [row]))
    return [
        ((inside[0].start_us, min(inside[-1].start_us + window.timeout_us, check_us)), inside)
        for check_us, inside in sessions
    ]


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
