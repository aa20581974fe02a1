"""Which of a window's events, left out, could leave the live run's values? A sieve; what passes is recomputed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

from pipelines.core.errors import DataRefused
from pipelines.core.expressions import Evaluate, read
from pipelines.core.model import Arrival, Job
from pipelines.recompute.windows import same_values
from pipelines.reconcile.causes.budget import Budget
from pipelines.reference.aggregates import compute
from pipelines.reference.events import place_of

_TRIES = 20_000


class Sieve:
    """Aggregates over any choice of one window's events, without ordering them anew."""

    def __init__(
        self, job: Job, members: Sequence[Arrival], names: Sequence[str], evaluate: Evaluate, budget: Budget
    ) -> None:
        self._budget = budget
        self._aggregates = [one for one in job.query.aggregates if one.name in names]
        arguments = [one.argument for one in self._aggregates if one.argument is not None]
        columns = job.input(members[0].input).columns if members else ()
        self._read = read(columns, [one.payload for one in members], arguments, evaluate)
        self._names = [one.name for one in self._aggregates]

    def gives(self, places: Sequence[int], wanted: Mapping[str, object]) -> bool:
        """Do the events at these places (in the members' order, repeats allowed) give the ``wanted`` values?"""
        found: dict[str, object] = {}
        self._budget.aggregate(len(places))
        for one in self._aggregates:
            values = [None if one.argument is None else self._read[place][one.argument] for place in places]
            try:
                found[one.name] = compute(one, values)
            except DataRefused:
                return False
            if not same_values(found, wanted, [one.name]):
                return False
        return True


def counted(job: Job, row: Mapping[str, object]) -> int | None:
    """How many rows a window result says it holds: its ``count(*)``, if the job has one that is compared."""
    for one in job.query.aggregates:
        if one.function == "count" and one.argument is None and isinstance(row.get(one.name), int):
            value = row[one.name]
            assert isinstance(value, int)
            return value
    return None


def left_out(members: Sequence[Arrival], number: int | None) -> Iterator[tuple[int, ...]]:
    """Choices of members that may be missing, likeliest first: ``number`` of them, or a few where that is not known.

    All choices where they are not too many; beyond that, stretches of neighbours in one input partition.
    """
    whole = range(len(members))
    for size in [number] if number is not None else [1, 2]:
        if 0 < size <= len(members) and comb(len(members), size) <= _TRIES:
            yield from combinations(whole, size)
    order = sorted(whole, key=lambda place: place_of(members[place]))
    sorted_files = [order]
    for partition in sorted({(one.input, one.input_partition or 0) for one in members}):
        sorted_files.append(
            [place for place in order if (members[place].input, members[place].input_partition or 0) == partition]
        )
    sizes = [number] if number is not None else range(1, min(len(members), 200) + 1)
    for recomputed in sorted_files:
        for size in sizes:
            for first in range(len(recomputed) - size + 1):
                yield tuple(recomputed[first : first + size])
