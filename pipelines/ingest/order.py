"""The order of arrivals inside an input partition: sequence rises, arrival time never falls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from pipelines.core.errors import DataRefused
from pipelines.core.time import format_instant
from pipelines.ingest.longest_run import Ints, longest_run, scratch
from pipelines.lakehouse.arrival_log import FOR_ALL


@dataclass(frozen=True, slots=True)
class Tail:
    """The last record taken of one input partition."""

    sequence: int
    arrival_time_us: int


NO_TAIL = Tail(-1, np.iinfo(np.int64).min)
"""Before the first record of a partition."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the order makes of records, by position: those ``refused`` and those ``repeated``, whose sequence is not
    new, with the reason; and the arrival time in microseconds at which those ``held_us`` are taken."""

    refused: dict[int, str]
    repeated: dict[int, str] = field(default_factory=dict)
    held_us: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Partition:
    """What a batch has of one input partition after the log's tail, its records numbered from 0 in file order.

    ``breaks`` are the numbers of records that are not in order after the one before them, ``pieces`` are places in the
    file of keys with their lengths, ``keep`` is the mask of the records to take where not all are.
    """

    name: str
    tail: Tail
    last: Tail
    count: int = 0
    breaks: list[Ints] = field(default_factory=list)
    pieces: list[tuple[int, int]] = field(default_factory=list)
    keep: npt.NDArray[np.bool_] | None = None


class ArrivalOrder:
    """Judges the records of a batch in file order, however they are cut into chunks.

    A record is refused that does not come after the log's last one of its partition, and of the others all but a
    longest run in order (:func:`~pipelines.ingest.longest_run.longest_run`), so that one wild record refuses no good
    one. The longest run is known at the end only: where a partition breaks the order, :meth:`settle` is true, and all
    records must be judged once more.

    ``tail_of(partition)`` gives the log's last record; it is asked once for each partition met. ``keys`` is an empty
    file for the sequences and arrival times of the batch, 16 bytes a record.
    """

    def __init__(self, tail_of: Callable[[int], Tail | None], keys: BinaryIO) -> None:
        self._tail_of = tail_of
        self._keys = keys
        self._partitions: dict[int, _Partition] = {}
        self._settled = False

    def judge(self, partition: Ints, sequence: Ints, arrival_us: Ints) -> Judged:
        """The records that are refused; before :meth:`settle`, for those behind the log's tail.

        Raises :class:`DataRefused` if the records are not those that were judged before :meth:`settle`.
        """
        refused: dict[int, str] = {}
        for number, places in by_value(partition):
            if number not in self._partitions:
                tail = self._tail_of(number) or NO_TAIL
                self._partitions[number] = _Partition(place_of(number), tail, tail)
            refused |= self._judge(self._partitions[number], places, sequence[places], arrival_us[places])
        return Judged(refused)

    def settle(self) -> bool:
        """Find the longest runs; whether that refuses some of the records judged so far."""
        broken = [part for part in self._partitions.values() if part.breaks]
        for part in broken:
            part.keep = self._longest_run(part)
        for part in self._partitions.values():
            part.last, part.count = part.tail, 0
        self._settled = True
        return bool(broken)

    def _judge(self, part: _Partition, places: Ints, sequence: Ints, arrival_us: Ints) -> dict[int, str]:
        refused: dict[int, str] = {}
        is_new = (sequence > part.tail.sequence) & (arrival_us >= part.tail.arrival_time_us)
        if not is_new.all():
            for index in np.flatnonzero(~is_new).tolist():
                refused[places.item(index)] = reason_of(_at(index, sequence, arrival_us), part.tail, part.name)
            places, sequence, arrival_us = places[is_new], sequence[is_new], arrival_us[is_new]
        first, part.count = part.count, part.count + len(places)
        if self._settled and part.keep is not None:
            chosen = part.keep[first : part.count]
            if len(chosen) < len(places):
                raise _changed()
            keep = np.flatnonzero(chosen)
            for index in np.flatnonzero(~chosen).tolist():
                earlier = keep[: keep.searchsorted(index)]
                before = _at(earlier[-1], sequence, arrival_us) if len(earlier) else part.last
                refused[places.item(index)] = reason_of(_at(index, sequence, arrival_us), before, part.name)
            sequence, arrival_us = sequence[keep], arrival_us[keep]
        self._follow(part, first, sequence, arrival_us)
        return refused

    def _follow(self, part: _Partition, first: int, sequence: Ints, arrival_us: Ints) -> None:
        """Find where records, numbered from ``first``, break the order, without a loop; keep their keys."""
        if not len(sequence):
            return
        sequences, arrivals_us = np.r_[part.last.sequence, sequence], np.r_[part.last.arrival_time_us, arrival_us]
        breaks = np.flatnonzero((sequences[1:] <= sequences[:-1]) | (arrivals_us[1:] < arrivals_us[:-1]))
        part.last = _at(-1, sequence, arrival_us)
        if not self._settled:
            part.pieces.append((self._keys.tell(), len(sequence)))
            self._keys.write(sequence.tobytes() + arrival_us.tobytes())
            if len(breaks):
                part.breaks.append(first + breaks)
        elif len(breaks):
            raise _changed()

    def _longest_run(self, part: _Partition) -> npt.NDArray[np.bool_]:
        sequence, arrival_us = scratch(part.count), scratch(part.count)
        begin = 0
        for place, count in part.pieces:
            self._keys.seek(place)
            keys = np.frombuffer(self._keys.read(16 * count), np.int64)
            sequence[begin : begin + count], arrival_us[begin : begin + count] = keys[:count], keys[count:]
            begin += count
        return longest_run(sequence, arrival_us, np.concatenate(part.breaks))


def by_value(partition: Ints) -> Iterator[tuple[int, Ints]]:
    """The input partitions and the positions of their records, in file order."""
    order = np.argsort(partition, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(partition[order])) + 1):
        if len(places):
            yield partition.item(places[0]), places


def place_of(partition: int) -> str:
    """An input partition in a sentence."""
    return "for all partitions" if partition == FOR_ALL else f"in input partition {partition}"


def _changed() -> DataRefused:
    return DataRefused("the files changed while they were read", hint="nothing was written; ingest them again")


def _at(index: int, sequence: Ints, arrival_us: Ints) -> Tail:
    return Tail(sequence.item(index), arrival_us.item(index))


def reason_of(own: Tail, before: Tail, where: str) -> str:
    """Why a record is refused: by the one before it that is kept, else by those after it."""
    if own.sequence <= before.sequence:
        return f"sequence {own.sequence} does not rise: {before.sequence} came before it {where}"
    arrival = format_instant(own.arrival_time_us)
    if own.arrival_time_us < before.arrival_time_us:
        return f"arrival_time {arrival} falls: {format_instant(before.arrival_time_us)} came before it {where}"
    return f"sequence {own.sequence}, arrived {arrival}, is ahead of records that come after it {where}"
