"""Was the live run under another policy? Changed settings are tried on a few windows; what survives is proved on all.

A probe is one window end with all its live rows. A change that explains a differing probe and breaks no equal one is
kept; the caller recomputes the whole range under it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pipelines.core.errors import DataRefused
from pipelines.core.expressions import Evaluate
from pipelines.core.model import Arrival, Job, OutputRange
from pipelines.recompute.reads import _MANY, near, reach_us
from pipelines.recompute.windows import Logs, recompute, same_rows, window_rows
from pipelines.reconcile.causes.budget import Budget
from pipelines.reconcile.causes.settings import (
    Change,
    round_changes,
    round_pairs,
    roundest,
    threshold_changes,
    window_changes,
)

_SEEDS = 3
_THRESHOLDS = 600
_PAIRS = 1500
ARRIVALS_OF_A_SEARCH = 1_000_000
"""Arrivals recomputed at most for one kind of change at one window end."""

Row = Mapping[str, object]


@dataclass(frozen=True)
class Probe:
    """One window end, all live rows that end there, and whether they are what the replay gave."""

    end_us: int
    live: Sequence[Row]
    equal: bool


@dataclass
class Found:
    """A change that explains ``explained`` of the differing probes; ``others`` are as good.

    ``between_us``: the least and the greatest value of its tolerance that do as well at the probes.
    """

    change: Change
    explained: int
    between_us: tuple[int, int] | None = None
    others: list[Change] = field(default_factory=list)


@dataclass
class Search:
    """The search for one job: ``probes`` that differ and that are equal, compared in columns ``names``."""

    job: Job
    logs: Logs
    evaluate: Evaluate
    names: Sequence[str]
    probes: Sequence[Probe]
    budget: Budget = field(default_factory=lambda: Budget(ARRIVALS_OF_A_SEARCH))

    def find(self, fingerprints: Collection[str], *, thorough: bool = True) -> Found | None:
        """The best change; one whose fingerprint the live run recorded is taken before any other.

        Not ``thorough``: one setting at a time, at round values only.
        """
        differing = [probe for probe in self.probes if not probe.equal]
        if not differing:
            return None
        survivors: list[tuple[int, Change]] = []
        seen: dict[Job, Change] = {}
        seeds = _seeds(differing)
        for stage in islice(self._stages(seeds), None if thorough else 2):
            tried = [change for change in stage if change.job not in seen]
            seen |= {change.job: change for change in tried}
            for change in tried:
                if change.job.fingerprint in fingerprints and (explained := self._explained(change, differing)):
                    return Found(change, explained)
            for seed in seeds:
                survivors += self._surviving(tried, seed, differing)
                if any(explained * 2 >= len(differing) for explained, _ in survivors):
                    break
            if any(explained * 2 >= len(differing) for explained, _ in survivors):
                break
        if not survivors:
            return None
        survivors.sort(key=lambda one: (-one[0], one[1].rank))
        best, change = survivors[0]
        others = {other.job: other for explained, other in survivors[1:] if explained == best}
        others.pop(change.job, None)
        return self._roundest(Found(change, best, None, list(others.values())), list(seen.values()), differing)

    def _surviving(
        self, tried: Sequence[Change], seed: Probe, differing: Sequence[Probe]
    ) -> Iterator[tuple[int, Change]]:
        """The changes that explain one probe, break none, and how many they explain."""
        self.budget = Budget(ARRIVALS_OF_A_SEARCH)
        for change in tried:
            if self.budget.is_spent:
                return
            if self._gives(change, seed) and (explained := self._explained(change, differing)):
                yield explained, change

    def _sharpened(self, found: Found, differing: Sequence[Probe]) -> Found:
        """The value of a tolerance that explains most: the thresholds of probes still unexplained are tried as well."""
        self.budget = Budget(ARRIVALS_OF_A_SEARCH)
        for _ in range(_SEEDS):
            change = found.change
            unexplained = [probe for probe in differing if not self._gives(change, probe)]
            more = [
                other
                for seed in unexplained[:_SEEDS]
                for other in self._near(seed)
                if _key(other) == _key(change) and other.job != change.job
            ]
            scored = []
            for other in more[:_THRESHOLDS]:
                if self.budget.is_spent:
                    break
                scored.append((self._explained(other, differing), other))
            best = max((explained for explained, _ in scored), default=0)
            if best <= found.explained:
                return found
            equals = sorted((other for explained, other in scored if explained == best), key=lambda one: one.rank)
            found = Found(equals[0], best, None, equals[1:])
        return found

    def _roundest(self, found: Found, seen: Sequence[Change], differing: Sequence[Probe]) -> Found:
        """The roundest value of a tolerance that explains as much, and how far such values reach."""
        if found.change.number is None or found.change.vary is None:
            return found
        found = self._sharpened(found, differing)
        change = found.change
        assert change.number is not None
        assert change.vary is not None
        vary, key = change.vary, _key(change)
        mine = [one.number for one in seen if _key(one) == key and one.number is not None]

        def does(value: int) -> bool:
            other = vary(value)
            return other is not None and self._explained(other, differing) >= found.explained

        good = {one.number for one in (change, *found.others) if _key(one) == key and one.number is not None}
        low = _edge(min(good), max((one for one in mine if one < min(good)), default=min(good)), does)
        high = _edge(max(good), min((one for one in mine if one > max(good)), default=max(good)), does)
        best = roundest(low, high) if low >= 0 else None
        rounder = vary(best) if best is not None and best not in good and does(best) else None
        others = [one for one in found.others if _key(one) != key]
        return Found(rounder or change, found.explained, (low, high), others)

    def _stages(self, seeds: Sequence[Probe]) -> Iterator[Iterable[Change]]:
        spans = [(_int(row["window_start"]), _int(row["window_end"])) for probe in self.probes for row in probe.live]
        yield window_changes(self.job, spans)
        yield round_changes(self.job)
        yield _first(_THRESHOLDS, (change for seed in seeds for change in self._near(seed)))
        yield _first(_PAIRS, round_pairs(self.job))

    def _near(self, seed: Probe) -> Iterator[Change]:
        output = OutputRange(seed.end_us, seed.end_us + 1)
        arrivals = self._slice(self.job, output)
        if len(arrivals) > _MANY:
            return
        fates = recompute(self.job, arrivals, OutputRange(), self.evaluate).fates
        yield from threshold_changes(self.job, fates, [seed.end_us, seed.end_us - reach_us(self.job.query.window)])

    def _explained(self, change: Change, differing: Sequence[Probe]) -> int:
        """How many differing probes the change explains; 0 as soon as an equal one breaks."""
        explained = sum(self._gives(change, probe) for probe in differing)
        if not explained:
            return 0
        return explained if all(self._gives(change, probe) for probe in self.probes if probe.equal) else 0

    def _gives(self, change: Change, probe: Probe) -> bool:
        output = OutputRange(probe.end_us, probe.end_us + 1)
        arrivals = self._slice(change.job, output)
        self.budget.recompute(len(arrivals))
        try:
            rows = window_rows(change.job, arrivals, output, self.evaluate)
        except DataRefused:
            return False
        return same_rows(rows, probe.live, self.names)

    def _slice(self, job: Job, output: OutputRange) -> list[Arrival]:
        return self.logs.of(job, near(job, output, self.logs))


def _first(limit: int, changes: Iterator[Change]) -> Iterator[Change]:
    seen: set[Job] = set()
    for change in changes:
        if change.job not in seen:
            seen.add(change.job)
            yield change
        if len(seen) >= limit:
            return


def _seeds(differing: Sequence[Probe]) -> list[Probe]:
    """A few probes, from the first to the last: one of them is hopefully free of other faults."""
    places = dict.fromkeys(round(index * (len(differing) - 1) / (_SEEDS - 1)) for index in range(_SEEDS))
    return [differing[place] for place in places]


def _key(change: Change) -> tuple[str, ...]:
    """Which settings a change is of."""
    return tuple(key for key, _, _ in change.settings)


def _edge(good: int, bad: int, does: Callable[[int], bool]) -> int:
    """The last value on the way from ``good`` to ``bad`` that still does."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        if does(middle):
            good = middle
        else:
            bad = middle
    return good


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
