"""The longest run of records that is in arrival order, where a batch is not."""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

BLOCK = 1 << 20
"""Records in order that are taken in one step."""


def longest_run(sequence: Ints, arrival_us: Ints, breaks: Ints) -> npt.NDArray[np.bool_]:
    """A mask of as many records as can be kept so that ``sequence`` rises and ``arrival_us`` never falls.

    ``breaks`` are the places of the records that are not in order after the one right before them. Of several longest
    runs it is the one whose last record is ahead least (:meth:`_Piles.longest_backwards`), and before that the one with
    the earlier lines.

    This is patience sorting with two keys: a record goes on the pile after the last one that has a record which it may
    follow, so that the number of its pile is the length of the longest run that it ends. The time is n log² n at worst;
    records in order take no loop. The array as long as the input is in a file, which need not stay in memory.
    """
    count = len(sequence)
    piles = _Piles(sequence, arrival_us)
    for first, end in pairwise([*np.union1d(breaks, np.arange(0, count, BLOCK)).tolist(), count]):
        level = 0
        for record in range(first, end):
            level = piles.level_of(record, level)
            if level == piles.height:
                piles.extend(record, end)
                break
            piles.put(record, level)
            level += 1
    keep = np.zeros(count, np.bool_)
    for record in piles.longest_backwards():
        keep[record] = True
    return keep


def scratch(count: int) -> Ints:
    """An array of so many numbers in a file without a name."""
    with tempfile.TemporaryFile(prefix="tailrace-ingest-") as file:
        return np.memmap(file, np.int64, "w+", shape=(count,))


class _Piles:
    """Pile n has the records that end a run of n + 1 records, without those that another one of them is better than.

    A record is better that is lower in a key and not higher in the other: along a pile sequences rise and arrival times
    fall. Most piles have one record, which is in ``only``; the others are in ``several``.
    """

    def __init__(self, sequence: Ints, arrival_us: Ints) -> None:
        self.height = 0
        self._sequence, self._arrival_us = sequence.data, arrival_us.data
        self._only = scratch(len(sequence))
        self._several: dict[int, list[int]] = {}
        self._replaced: dict[int, list[int]] = defaultdict(list)

    def level_of(self, record: int, low: int) -> int:
        """The pile for a record that may follow one of each pile below ``low``."""
        step = 1
        while low + step <= self.height and self._may_follow_some(record, low + step - 1):
            low, step = low + step, 2 * step
        levels = range(low, min(low + step - 1, self.height))
        return low + bisect_left(levels, True, key=lambda level: not self._may_follow_some(record, level))

    def put(self, record: int, level: int) -> None:
        """Put a record on a pile, in place of those that it is better than; not if it equals one or is worse."""
        pile, sequence, arrival_us = self._pile(level), self._sequence[record], self._arrival_us[record]
        first = bisect_left(pile, sequence, key=self._sequence.__getitem__)
        if (
            first < len(pile)
            and self._sequence[pile[first]] == sequence
            and self._arrival_us[pile[first]] <= arrival_us
        ):
            return
        end = bisect_left(pile, 1 - arrival_us, first, key=lambda other: -self._arrival_us[other])
        self._replaced[level] += pile[first:end]
        pile[first:end] = [record]
        self._several[level] = pile

    def extend(self, first: int, end: int) -> None:
        """A new pile for each of the records ``[first, end)``, which are in order."""
        self._only[self.height : self.height + end - first] = np.arange(first, end)
        self.height += end - first

    def longest_backwards(self) -> Iterator[int]:
        """The records of a longest run, the last one first.

        The last one is the nearest to where runs begin, by its distance in sequence times its distance in arrival time:
        a record with one wild key does not win over a good one, whatever the units of the keys are.
        """
        if not self.height:
            return
        lowest = self._pile(0)
        begin, begin_us = self._sequence[lowest[0]], self._arrival_us[lowest[-1]]

        def distance(record: int) -> int:
            return (self._sequence[record] - begin + 1) * (self._arrival_us[record] - begin_us + 1)

        record = min(self._pile(self.height - 1), key=distance)
        yield record
        for level in range(self.height - 2, -1, -1):
            record = self._first_before(record, level)
            yield record

    def _pile(self, level: int) -> list[int]:
        return self._several.get(level) or [self._only.item(level)]

    def _may_follow_some(self, record: int, level: int) -> bool:
        pile = self._pile(level)
        first = bisect_left(pile, -self._arrival_us[record], key=lambda other: -self._arrival_us[other])
        return first < len(pile) and self._sequence[pile[first]] < self._sequence[record]

    def _first_before(self, record: int, level: int) -> int:
        """The first one in the file of all that ever were on a pile, and which ``record`` may follow."""
        if level not in self._several:
            return self._only.item(level)
        sequence, arrival_us = self._sequence[record], self._arrival_us[record]
        return min(
            other
            for other in (*self._several[level], *self._replaced[level])
            if other < record and self._sequence[other] < sequence and self._arrival_us[other] <= arrival_us
        )
