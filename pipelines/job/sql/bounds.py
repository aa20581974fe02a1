"""What DATEDIFF between the sources of a chain of joins is bounded by (Q9, Q10, Q13).

``DATEDIFF(unit, i, j)`` is the difference of the numbers of whole units of two times, so bounds add up along a chain:
the least and greatest differences of all pairs follow as shortest paths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Bound:
    """``low <= DATEDIFF(unit, left, right) <= high`` between two sources; None: no bound on that side."""

    left: str
    right: str
    unit_us: int
    low: int | None = None
    high: int | None = None

    def in_units(self, unit_us: int) -> Bound:
        """What follows for another unit, one of which is a multiple of the other."""
        if unit_us == self.unit_us:
            return self
        coarse, fine = max(unit_us, self.unit_us), min(unit_us, self.unit_us)
        count = coarse // fine
        if unit_us == fine:
            low = None if self.low is None else self.low * count - (count - 1)
            high = None if self.high is None else self.high * count + (count - 1)
        else:
            low = None if self.low is None else -((count - 1 - self.low) // count)
            high = None if self.high is None else (self.high + count - 1) // count
        return replace(self, unit_us=unit_us, low=low, high=high)


@dataclass(frozen=True, slots=True)
class Time:
    """One way in which the row of a join got its time: that of ``source``, the latest of ``present``, plus a
    duration."""

    source: str
    present: frozenset[str]
    later_us: int = 0


@dataclass(frozen=True, slots=True)
class Chain:
    """The sources joined so far: the ways in which a row got its time, and what bounds their differences."""

    times: tuple[Time, ...]
    bounds: tuple[Bound, ...] = field(default=())

    def range_to(self, right: str, unit_us: int, on: Sequence[Bound]) -> tuple[int, int] | None:
        """Least and greatest DATEDIFF from the row's time to that of ``right``; None if it is not bounded.

        ``on``: the bounds of the join's own condition, which no row fulfils that lacks one of their sources.
        """
        named = {name for one in on for name in (one.left, one.right)} - {right}
        found = [self._range(time, right, unit_us, on) for time in self.times if named <= time.present]
        possible = [one for one in found if one[0] <= one[1]]
        if not possible:
            return 0, -1
        low, high = min(one[0] for one in possible), max(one[1] for one in possible)
        return None if math.inf in (-low, high) else (int(low), int(high))

    def _range(self, time: Time, right: str, unit_us: int, on: Sequence[Bound]) -> tuple[float, float]:
        names = [*time.present, right]
        most: dict[tuple[str, str], float] = {(a, b): 0 if a == b else math.inf for a in names for b in names}
        latest = [Bound(one, time.source, unit_us, low=0) for one in time.present if time.later_us == 0]
        for bound in (one.in_units(unit_us) for one in (*self.bounds, *on, *latest)):
            if bound.left in names and bound.right in names:
                for a, b, limit in ((bound.left, bound.right, bound.high), (bound.right, bound.left, bound.low)):
                    if limit is not None:
                        most[a, b] = min(most[a, b], limit if b == bound.right else -limit)
        for k in names:
            for a in names:
                for b in names:
                    most[a, b] = min(most[a, b], most[a, k] + most[k, b])
        if any(most[name, name] < 0 for name in names):
            return 0, -1
        low, high = -most[right, time.source], most[time.source, right]
        return low - -(-time.later_us // unit_us), high - time.later_us // unit_us

    def joined(self, right: str, on: Sequence[Bound], unmatched_after_us: int | None) -> Chain:
        """The chain with a further source; ``unmatched_after_us``: how much later an unmatched left row counts."""
        times = [replace(one, present=one.present | {right}) for one in self.times]
        times += [replace(one, source=right, later_us=0) for one in times]
        if unmatched_after_us is not None:
            times += [replace(one, later_us=one.later_us + unmatched_after_us) for one in self.times]
        return Chain(tuple(dict.fromkeys(times)), (*self.bounds, *on))
