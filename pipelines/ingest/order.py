"""The order of arrivals inside an input partition: sequence rises, arrival time never falls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.core.time import format_instant
from pipelines.lakehouse.arrival_log import FOR_ALL

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tail:
    """The last record taken of one input partition."""

    sequence: int
    arrival_time_us: int


class ArrivalOrder:
    """Judges records in file order against the last one *taken* of their partition, so a bad one spoils nothing else.

    ``tail_of(partition)`` says what the log holds already; it is asked once for each partition met.
    """

    def __init__(self, tail_of: Callable[[int], Tail | None]) -> None:
        self._tail_of = tail_of
        self._tails: dict[int, Tail | None] = {}

    def judge(self, partition: Ints, sequence: Ints, arrival_us: Ints) -> dict[int, str]:
        """Reasons by position for the records that break the order; the others become the new tails."""
        for value in np.unique(partition):
            if int(value) not in self._tails:
                self._tails[int(value)] = self._tail_of(int(value))
        if self._all_rise(partition, sequence, arrival_us):
            return {}
        return self._one_by_one(partition, sequence, arrival_us)

    def _all_rise(self, partition: Ints, sequence: Ints, arrival_us: Ints) -> bool:
        """Whether nothing breaks the order, found without a loop over records; takes them all if so."""
        if not len(partition):
            return True
        order = np.argsort(partition, kind="stable")
        part, seq, arr = partition[order], sequence[order], arrival_us[order]
        same = part[1:] == part[:-1]
        if np.any(same & ((seq[1:] <= seq[:-1]) | (arr[1:] < arr[:-1]))):
            return False
        firsts = np.flatnonzero(np.r_[True, ~same])
        for first in firsts:
            tail = self._tails[int(part[first])]
            if tail is not None and (seq[first] <= tail.sequence or arr[first] < tail.arrival_time_us):
                return False
        for last in np.r_[firsts[1:] - 1, len(part) - 1]:
            self._tails[int(part[last])] = Tail(int(seq[last]), int(arr[last]))
        return True

    def _one_by_one(self, partition: Ints, sequence: Ints, arrival_us: Ints) -> dict[int, str]:
        refused: dict[int, str] = {}
        rows = zip(partition.tolist(), sequence.tolist(), arrival_us.tolist(), strict=True)
        for index, (part, seq, arr) in enumerate(rows):
            tail = self._tails[part]
            name = "for all partitions" if part == FOR_ALL else f"in input partition {part}"
            if tail is not None and seq <= tail.sequence:
                refused[index] = f"sequence {seq} does not rise: {tail.sequence} came before it {name}"
            elif tail is not None and arr < tail.arrival_time_us:
                before = format_instant(tail.arrival_time_us)
                refused[index] = f"arrival_time {format_instant(arr)} falls: {before} came before it {name}"
            else:
                self._tails[part] = Tail(seq, arr)
        return refused
