"""The order of arrivals as a source gives them: each record is judged by those before it alone.

So it does not matter in how many portions a source is read. Of the longest run of a whole batch, which
:mod:`pipelines.ingest.order` finds in files, that cannot be said.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipelines.ingest.longest_run import Ints
from pipelines.ingest.order import NO_TAIL, Judged, Tail, by_value, place_of, reason_of


class SequentialOrder:
    """Takes a record whose sequence is new and whose arrival time does not fall.

    ``hold_at_last``: a record that arrived before its predecessor is taken at its predecessor's time instead of being
    refused. A record whose sequence is not new is ``repeated``: whether it is a duplicate, its payload decides.
    """

    def __init__(self, tail_of: Callable[[int], Tail | None], *, hold_at_last: bool) -> None:
        self._tail_of = tail_of
        self._hold = hold_at_last
        self._tails: dict[int, Tail] = {}

    def judge(self, partition: Ints, sequence: Ints, arrival_us: Ints) -> Judged:
        """The records refused, repeated and held, by position."""
        judged = Judged({})
        for number, places in by_value(partition):
            if number not in self._tails:
                self._tails[number] = self._tail_of(number) or NO_TAIL
            self._judge(number, places, sequence[places], arrival_us[places], judged)
        return judged

    def settle(self) -> bool:
        """Nothing is left to find out at the end."""
        return False

    def _judge(self, number: int, places: Ints, sequence: Ints, arrival_us: Ints, judged: Judged) -> None:
        tail = self._tails[number]
        rises = bool((sequence > np.r_[tail.sequence, sequence[:-1]]).all())
        if rises and bool((arrival_us >= np.r_[tail.arrival_time_us, arrival_us[:-1]]).all()):
            self._tails[number] = Tail(sequence.item(-1), arrival_us.item(-1))
            return
        for place, own_sequence, own_us in zip(places.tolist(), sequence.tolist(), arrival_us.tolist(), strict=True):
            own = Tail(own_sequence, own_us)
            if own.sequence <= tail.sequence:
                judged.repeated[place] = reason_of(own, tail, place_of(number))
                continue
            if own.arrival_time_us < tail.arrival_time_us:
                if not self._hold:
                    judged.refused[place] = reason_of(own, tail, place_of(number))
                    continue
                judged.held_us[place] = tail.arrival_time_us
                own = Tail(own.sequence, tail.arrival_time_us)
            tail = own
        self._tails[number] = tail
