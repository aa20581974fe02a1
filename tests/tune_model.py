"""What ``tune`` reports of a setting, by a model of its own: a few lines of Python a profile, event by event.

Nothing here comes from the product. The models know tumbling and hopping windows, one input, and no punctuations.
Times are microseconds. Rule ids are those of docs/semantics.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

NEVER = -math.inf


class Event(NamedTuple):
    """An event of a log; ``end_us`` is that of its lifetime, where it has one."""

    partition: int
    arrival_us: int
    time_us: int
    end_us: int | None
    payload: tuple[Any, ...]


class Decided(NamedTuple):
    """What a policy makes of an event: ``counts_us`` is null if it is dropped, ``closed_us`` what it may miss (A5)."""

    verdict: str
    reasons: tuple[str, ...]
    counts_us: int | None
    closed_us: float = NEVER


Policy = Callable[[Sequence[Event]], Iterator[Decided]]


@dataclass(frozen=True)
class Windows:
    """Windows of ``size_us``, one each ``hop_us``; a time on a bound is in the window that ends there (S9), or else in
    the one that begins there (A6, I14)."""

    size_us: int
    hop_us: int
    ends_inside: bool

    def ends(self, event: Event, counts_us: int) -> range:
        """The ends of all windows that an event is in."""
        to_us = counts_us if event.end_us is None else event.end_us - 1
        if self.ends_inside:
            first, last = -(-counts_us // self.hop_us), -(-(to_us + self.size_us) // self.hop_us)
        else:
            first, last = counts_us // self.hop_us + 1, (to_us + self.size_us) // self.hop_us + 1
        return range(first * self.hop_us, last * self.hop_us, self.hop_us)


def stream_analytics(early_us: int, late_us: int, out_of_order_us: int, waits: list[float]) -> Policy:
    """S2 to S5, action ``adjust``. ``waits`` gets how far the watermark is behind each arrival (S7)."""

    def decide(log: Sequence[Event]) -> Iterator[Decided]:
        greatest: dict[int, float] = {}
        for event in log:
            arrival_us, so_far = event.arrival_us, greatest.get(event.partition, NEVER)
            if event.time_us > arrival_us + early_us:
                yield Decided("dropped", ("early",), None)
                continue
            reasons, counts_us = [], event.time_us
            if counts_us < arrival_us - late_us:
                counts_us = arrival_us - late_us
                reasons.append("late")
            greatest[event.partition] = max(so_far, counts_us)
            if counts_us < so_far - out_of_order_us:
                counts_us = int(so_far) - out_of_order_us
                reasons.append("out_of_order")
            waits.append(arrival_us - max(so_far, arrival_us - late_us) + out_of_order_us)
            yield Decided("adjusted" if reasons else "accepted", tuple(reasons), counts_us)

    return decide


def atlas(lateness_us: int, partitions: int, windows: Windows) -> Policy:
    """A2 to A5."""

    def decide(log: Sequence[Event]) -> Iterator[Decided]:
        greatest = dict.fromkeys(range(partitions), NEVER)
        for event in log:
            closed_us = min(greatest.values()) - lateness_us
            missed = [end_us <= closed_us for end_us in windows.ends(event, event.time_us)]
            greatest[event.partition] = max(greatest[event.partition], event.time_us)
            if missed and all(missed):
                yield Decided("dropped", ("late",), None)
            elif any(missed):
                yield Decided("partial", ("late",), event.time_us, closed_us)
            else:
                yield Decided("accepted", (), event.time_us)

    return decide


def stream_insight(every: int, delay_us: int) -> Policy:
    """I3, I4, I6, I8 to I10: intervals, ``advance: {every: N}``, action ``adjust``."""

    def decide(log: Sequence[Event]) -> Iterator[Decided]:
        current_us = NEVER
        for number, event in enumerate(log, 1):
            assert event.end_us is not None
            if event.time_us >= current_us:
                yield Decided("accepted", (), event.time_us)
            elif event.end_us > current_us:
                yield Decided("adjusted", ("before_current_time",), int(current_us))
            else:
                yield Decided("dropped", ("before_current_time",), None)
            if number % every == 0:
                current_us = max(current_us, event.time_us - delay_us)

    return decide


def truth(log: Sequence[Event]) -> Iterator[Decided]:
    """Every event at its own time."""
    return (Decided("accepted", (), event.time_us) for event in log)


Results = dict[tuple[Any, ...], dict[str, Any]]
"""The aggregates of each window, by its end and group keys."""


@dataclass(frozen=True)
class Model:
    """A query over a log, and the output range [``from_us``, ``to_us``).

    ``keys`` of an event's payload group it, and ``aggregates`` are made of the payloads of a window; those ``counted``
    are zero of no events. The policy closes all windows of the range.
    """

    log: Sequence[Event]
    windows: Windows
    keys: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    aggregates: Callable[[Sequence[tuple[Any, ...]]], dict[str, Any]]
    counted: frozenset[str]
    from_us: float = NEVER
    to_us: float = math.inf

    def results(self, decided: Sequence[Decided]) -> Results:
        """The windows of the range."""
        members: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for event, one in zip(self.log, decided, strict=True):
            for end_us in () if one.counts_us is None else self.windows.ends(event, one.counts_us):
                if end_us > one.closed_us and self.from_us <= end_us < self.to_us:
                    members.setdefault((end_us, *self.keys(event.payload)), []).append(event.payload)
        return {key: self.aggregates(payloads) for key, payloads in members.items()}

    def figures(self, decided: Sequence[Decided], results: Results, true: Results) -> dict[str, object]:
        """The figures of a setting as ``tune --json`` has them."""
        here = [
            (event, one)
            for event, one in zip(self.log, decided, strict=True)
            if self.from_us <= event.arrival_us < self.to_us
        ]
        moved = [int(one.counts_us or 0) - event.time_us for event, one in here if one.verdict == "adjusted"]
        keys = {*results, *true}
        differing = [key for key in keys if results.get(key) != true.get(key)]
        names = list(next(iter(true.values())))
        return {
            "events": len(here),
            "counts_by_verdict": dict(Counter(one.verdict for _, one in here)),
            "counts_by_reason": dict(Counter(reason for _, one in here for reason in one.reasons)),
            "moved_us": {"sum": sum(moved), "max": max(moved, default=0)},
            "windows": len(keys),
            "windows_that_differ": len(differing),
            "windows_missing": len(true.keys() - results.keys()),
            "windows_extra": len(results.keys() - true.keys()),
            "values": {name: self._of_value(name, keys, results, true) for name in names},
        }

    def _of_value(self, name: str, keys: set[Any], results: Results, true: Results) -> dict[str, object]:
        absent: Mapping[str, Any] = {name: 0 if name in self.counted else None}
        amounts, differing = [], 0
        for key in keys:
            mine, theirs = (side.get(key, absent)[name] for side in (results, true))
            differing += mine != theirs or (key in results) != (key in true)
            if mine is not None and theirs is not None:
                amounts.append(abs(float(mine - theirs)))
        return {"windows": differing, "sum": math.fsum(amounts), "max": max(amounts)}
