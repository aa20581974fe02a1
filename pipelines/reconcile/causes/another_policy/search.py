"""Changed settings, tried on a few windows; what survives is proved over the whole range (:mod:`.prove`).

A sample is one window end with all its live rows. A change that explains a differing sample and breaks no equal one is
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pipelines.core.errors import DataRefused
from pipelines.core.expressions import Evaluate
from pipelines.core.model import Arrival, Job, OutputRange
from pipelines.recompute.logs import Logs
from pipelines.recompute.reads import reach_us, reads_around
from pipelines.recompute.windows import Values, instant_in, recompute, same_rows
from pipelines.reconcile.causes.another_policy.settings import (
    Change,
    round_changes,
    round_pairs,
    roundest,
    threshold_changes,
    window_changes,
    with_setting,
)
from pipelines.reconcile.causes.budget import ARRIVALS_OF_A_SEARCH, PAIRS, READ_AS_A_WHOLE, THRESHOLDS, Budget

_SEEDS = 3
"""Differing samples that changes are first tried on."""


@dataclass(frozen=True)
class Sample:
    """One window end, all live rows that end there, and whether they are what the replay gave."""

    end_us: int
    live: Sequence[Values]
    equal: bool


@dataclass(frozen=True)
class Found:
    """A change that explains ``explained`` of the differing samples; ``others`` are as good.

    ``between_us``: the least and the greatest value of its tolerance that do as well at the samples.
    """

    change: Change
    explained: int
    between_us: tuple[int, int] | None = None
    others: Sequence[Change] = ()


@dataclass
class Search:
    """The search for one job: ``samples`` that differ and that are equal, compared in columns ``names``."""

    job: Job
    logs: Logs
    evaluate: Evaluate
    names: Sequence[str]
    samples: Sequence[Sample]
    _budget: Budget = field(default_factory=lambda: Budget(ARRIVALS_OF_A_SEARCH))

    def find(self, fingerprints: Collection[str], *, thorough: bool = True) -> Found | None:
        """The best change; one whose fingerprint the live run recorded is taken before any other.

        Not ``thorough``: one setting at a time, at round values only.
        """
        if not self._differing:
            return None
        survivors: list[tuple[int, Change]] = []
        seen: dict[Job, Change] = {}
        for stage in islice(self._stages(), None if thorough else 2):
            tried = {change.job: change for change in stage if change.job not in seen}
            seen |= tried
            for job, change in tried.items() if fingerprints else ():
                if job.fingerprint in fingerprints and (explained := self._explained(change)):
                    return Found(change, explained)
            survivors += self._surviving(tried.values())
            if self._suffices(survivors):
                break
        if not survivors:
            return None
        survivors.sort(key=lambda one: (-one[0], one[1].rank))
        best, change = survivors[0]
        others = {other.job: other for explained, other in survivors if explained == best and other.job != change.job}
        return self._roundest(Found(change, best, others=list(others.values())), list(seen.values()))

    @property
    def _differing(self) -> list[Sample]:
        return [sample for sample in self.samples if not sample.equal]

    @property
    def _seeds(self) -> list[Sample]:
        """A few differing samples, from the first to the last: one of them is hopefully free of other faults."""
        last = len(self._differing) - 1
        places = dict.fromkeys(round(index * last / (_SEEDS - 1)) for index in range(_SEEDS))
        return [self._differing[place] for place in places]

    def _stages(self) -> Iterator[Iterable[Change]]:
        """Kinds of changes, the likeliest first."""
        live = [row for sample in self.samples for row in sample.live]
        spans = [(instant_in(row, "window_start"), instant_in(row, "window_end")) for row in live]
        yield window_changes(self.job, spans)
        yield round_changes(self.job)
        yield islice((change for seed in self._seeds for change in self._at_thresholds(seed)), THRESHOLDS)
        yield islice(round_pairs(self.job), PAIRS)

    def _surviving(self, tried: Collection[Change]) -> list[tuple[int, Change]]:
        """The changes that explain a seed and break no sample, and how many they explain."""
        found: list[tuple[int, Change]] = []
        for seed in self._seeds:
            self._budget = Budget(ARRIVALS_OF_A_SEARCH)
            for change in tried:
                if self._budget.is_spent:
                    break
                if self._gives(change, seed) and (explained := self._explained(change)):
                    found.append((explained, change))
            if self._suffices(found):
                break
        return found

    def _suffices(self, survivors: Sequence[tuple[int, Change]]) -> bool:
        return any(explained * 2 >= len(self._differing) for explained, _ in survivors)

    def _roundest(self, found: Found, seen: Sequence[Change]) -> Found:
        """The roundest value of a tolerance that explains as much, and how far such values reach."""
        if found.change.number is None:
            return found
        found = self._sharpened(found)
        change = found.change

        def at(value_us: int) -> Change | None:
            varied = next(with_setting(self.job, change.inputs, (change.field, value_us)), None)
            return varied if varied is not None and self._explained(varied) >= found.explained else None

        tried = [one.number for one in seen if one.keys == change.keys and one.number is not None]
        good = [one.number for one in (change, *found.others) if one.keys == change.keys and one.number is not None]
        least, greatest = min(good), max(good)
        low = _edge(least, max((one for one in tried if one < least), default=least), at)
        high = _edge(greatest, min((one for one in tried if one > greatest), default=greatest), at)
        best = roundest(low, high) if low >= 0 else None
        rounder = at(best) if best is not None and best not in good else None
        others = [one for one in found.others if one.keys != change.keys]
        return Found(rounder or change, found.explained, (low, high), others)

    def _sharpened(self, found: Found) -> Found:
        """The value of a tolerance that explains most: the thresholds of samples still unexplained are tried, too."""
        self._budget = Budget(ARRIVALS_OF_A_SEARCH)
        for _ in range(_SEEDS):
            change = found.change
            unexplained = [sample for sample in self._differing if not self._gives(change, sample)]
            more = (
                other
                for seed in unexplained[:_SEEDS]
                for other in self._at_thresholds(seed)
                if other.keys == change.keys and other.job != change.job
            )
            scored: list[tuple[int, Change]] = []
            for other in islice(more, THRESHOLDS):
                if not self._budget.is_spent:
                    scored.append((self._explained(other), other))
            best = max((explained for explained, _ in scored), default=0)
            if best <= found.explained:
                return found
            equals = sorted((other for explained, other in scored if explained == best), key=lambda one: one.rank)
            found = Found(equals[0], best, others=equals[1:])
        return found

    def _at_thresholds(self, seed: Sample) -> Iterator[Change]:
        """Tolerances at the values where a verdict around the sample can change."""
        arrivals = self._arrivals(self.job, seed.end_us)
        if len(arrivals) > READ_AS_A_WHOLE:
            return
        decisions = recompute(self.job, arrivals, OutputRange(), self.evaluate).decisions
        yield from threshold_changes(
            self.job, decisions, [seed.end_us, seed.end_us - reach_us(self.job.window_query.window)]
        )

    def _explained(self, change: Change) -> int:
        """How many differing samples the change explains; 0 as soon as an equal one breaks."""
        explained = sum(self._gives(change, sample) for sample in self._differing)
        if not explained:
            return 0
        return explained if all(self._gives(change, sample) for sample in self.samples if sample.equal) else 0

    def _gives(self, change: Change, sample: Sample) -> bool:
        arrivals = self._arrivals(change.job, sample.end_us)
        self._budget.recompute(len(arrivals))
        try:
            found = recompute(change.job, arrivals, OutputRange(sample.end_us, sample.end_us + 1), self.evaluate)
        except DataRefused:
            return False
        return same_rows(found.rows, sample.live, self.names)

    def _arrivals(self, job: Job, end_us: int) -> list[Arrival]:
        reads = reads_around(job, OutputRange(end_us, end_us + 1), self.logs, READ_AS_A_WHOLE, history=False)
        return self.logs.arrivals(job, reads.range)


def _edge(good: int, bad: int, does: Callable[[int], object]) -> int:
    """The last value on the way from ``good`` to ``bad`` that still does."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        if does(middle):
            good = middle
        else:
            bad = middle
    return good
