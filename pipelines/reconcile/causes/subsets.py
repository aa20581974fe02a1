"""Which of a window's events, left out, could leave the live run's values? A first look; what passes is recomputed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb

from pipelines.core.errors import DataRefused
from pipelines.core.expressions import read
from pipelines.core.model import Arrival, Job
from pipelines.recompute.windows import Values, same_values
from pipelines.reconcile.causes.rebuilt_window import RebuiltWindow
from pipelines.reference.aggregates import compute
from pipelines.reference.events import place_of

_CHOICES = 20_000
"""Choices of one size that are all looked at; of more, only neighbours."""
_NEIGHBOURS = 200
"""Neighbours that may be missing together where their number is not known."""


class MemberAggregates:
    """Aggregates over any choice of one window's events, without ordering them again."""

    def __init__(self, window: RebuiltWindow) -> None:
        self._aggregates = [one for one in window.job.window_query.aggregates if one.name in window.by.names]
        arguments = [one.argument for one in self._aggregates if one.argument is not None]
        members = window.members
        columns = window.job.input(members[0].input).columns if members else ()
        self._read = read(columns, [one.payload for one in members], arguments, window.by.evaluate)
        self._budget = window.budget

    def give(self, places: Sequence[int], live: Values) -> bool:
        """Do the events at these places (in the members' order, repeats allowed) give the ``live`` values?"""
        self._budget.aggregate(len(places))
        for one in self._aggregates:
            values = [None if one.argument is None else self._read[place][one.argument] for place in places]
            try:
                found = {one.name: compute(one, values)}
            except DataRefused:
                return False
            if not same_values(found, live, [one.name]):
                return False
        return True


def count_in(job: Job, row: Values) -> int | None:
    """How many rows a window result counts: its ``count(*)``, if the job has one that is compared."""
    for one in job.window_query.aggregates:
        value = row.get(one.name)
        if one.function == "count" and one.argument is None and isinstance(value, int):
            return value
    return None


def events_in(job: Job, row: Values) -> int | None:
    """How many events a window result counts; None where it does not say so, or counts pairs."""
    return None if job.window_query.join is not None else count_in(job, row)


def left_out(members: Sequence[Arrival], number: int | None) -> Iterator[tuple[int, ...]]:
    """Choices of members that may be missing, likeliest first: ``number`` of them, or a few where that is not known.

    All choices where they are not too many; beyond that, neighbours in the log, or in one input partition.
    """
    whole = range(len(members))
    for size in [number] if number is not None else [1, 2]:
        if 0 < size <= len(members) and comb(len(members), size) <= _CHOICES:
            yield from combinations(whole, size)
    order = sorted(whole, key=lambda place: place_of(members[place]))
    by_partition: dict[tuple[str, int | None], list[int]] = {}
    for place in order:
        by_partition.setdefault((members[place].input, members[place].input_partition), []).append(place)
    sizes = [number] if number is not None else range(1, min(len(members), _NEIGHBOURS) + 1)
    for places in (order, *by_partition.values()):
        for size in sizes:
            for first in range(len(places) - size + 1):
                yield tuple(places[first : first + size])
