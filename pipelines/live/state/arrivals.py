"""Rows of an arrival log one by one: their place in the arrival order, and the queue that puts them in that order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipelines.live.state.compiled_job import CompiledJob

Place = tuple[int, int, int, int]
"""A place in the arrival order: arrival time in microseconds, input partition, sequence, rank of the input."""
EVERY_PARTITION = -1
"""The partition of a punctuation for all partitions: it precedes the rows of the same arrival time."""


class LogOutOfOrder(Exception):
    """The log turned out to contain rows that precede others already decided: the stream must begin again."""


class Event(NamedTuple):
    """One row of an arrival log with the values of the job's expressions; instants in microseconds.

    ``punctuation_us`` is null for events. ``match`` are the values of ``match_on``, ``values`` those of
    :attr:`~pipelines.live.state.compiled_job.CompiledJob.texts`.
    """

    input: str
    place: Place
    punctuation_us: int | None
    time_us: int | None
    end_us: int | None
    edge: str | None
    passes: bool
    match: tuple[Any, ...]
    values: tuple[Any, ...]

    @property
    def arrival_us(self) -> int:
        """When the broker received it."""
        return self.place[0]

    @property
    def partition(self) -> int:
        """Its input partition, or :data:`EVERY_PARTITION`."""
        return self.place[1]


@dataclass(slots=True)
class Partitions:
    """The input partitions that a job waits for, and the last row that each has brought.

    ``known`` are those that the log names, by input. ``punctuations_us`` are arrivals of punctuations for all
    partitions that are announced and have not come.
    """

    compiled: CompiledJob
    known: Mapping[str, frozenset[int]] = field(default_factory=dict)
    punctuations_us: Sequence[int] = ()
    last: dict[tuple[str, int], Place] = field(default_factory=dict)

    def of(self, name: str) -> frozenset[int]:
        """The partitions of an input that may bring rows: those of the log, and those that the job declares (A3)."""
        declared = self.compiled.job.input(name).partitions or 0
        return self.known.get(name, frozenset()) | frozenset(range(declared))

    def follow(self, name: str, first: Place, last: Place) -> None:
        """Note rows of one partition; :class:`LogOutOfOrder` unless they come after all that it brought before."""
        key = (name, first[1])
        before = self.last.get(key)
        if before is not None and first <= before:
            raise out_of_order(name, first[1])
        self.last[key] = last


def out_of_order(name: str, partition: int) -> LogOutOfOrder:
    """The error for a partition with a row that does not come after the one before."""
    which = "for all partitions" if partition == EVERY_PARTITION else f"of partition {partition}"
    return LogOutOfOrder(f"the rows {which} of input '{name}' are not in arrival order")


@dataclass(slots=True)
class ArrivalQueue:
    """Puts the rows of all inputs in arrival order: a row waits while a partition may still bring an earlier one.

    ``passed`` is the place of the last row that left the queue.
    """

    partitions: Partitions
    waiting: list[Event] = field(default_factory=list)
    passed: Place | None = None

    def put(self, events: Iterable[Event]) -> None:
        """Add one commit's rows of one input, in arrival order."""
        for event in events:
            self.partitions.follow(event.input, event.place, event.place)
            self.waiting.append(event)
        self.waiting.sort(key=self._place)

    def take_due(self) -> list[Event]:
        """Remove the rows that nothing still to come can precede, in arrival order."""
        until = self._earliest_to_come()
        count = 0 if until is None else bisect_left(self.waiting, until, key=self._place)
        due, self.waiting = self.waiting[:count], self.waiting[count:]
        if due:
            if self.passed is not None and self._place(due[0]) < self.passed:
                raise LogOutOfOrder(f"input '{due[0].input}' brought a row that precedes rows already decided")
            self.passed = self._place(due[-1])
        return due

    def take_all(self) -> list[Event]:
        """Remove every row, in arrival order: nothing more will come."""
        rest, self.waiting = self.waiting, []
        return rest

    def _place(self, event: Event) -> Place:
        return (*event.place[:3], self.partitions.compiled.decision_ranks[event.input])

    def _earliest_to_come(self) -> Place | None:
        """The earliest place at which a partition may still bring a row; None while one has brought nothing."""
        places: list[Place] = []
        for part in self.partitions.compiled.job.inputs:
            last = [self.partitions.last.get((part.name, number)) for number in self.partitions.of(part.name)]
            if None in last:
                return None
            rank = self.partitions.compiled.decision_ranks[part.name]
            places += [(one[0], one[1], one[2] + 1, rank) for one in last if one is not None]
        # a punctuation for all partitions that is not announced is taken to come after the latest arrival of its input
        latest: dict[str, int] = {}
        for (name, _), place in self.partitions.last.items():
            latest[name] = max(place[0], latest.get(name, place[0]))
        arrivals_us = (*latest.values(), *self.partitions.punctuations_us)
        places += [(arrival_us, EVERY_PARTITION, 0, 0) for arrival_us in arrivals_us]
        return min(places, default=None)
