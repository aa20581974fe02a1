"""Did the live run count other events than the log holds there: fewer, one of them twice, or some that it lacks?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import Arrival
from pipelines.lakehouse.show import plain
from pipelines.recompute.naming import event_id, event_words, id_of, listed
from pipelines.reconcile.causes.names import LOST, ROW_MISSING, TWICE, Cause
from pipelines.reconcile.causes.rebuilt_window import Bench, Difference, Values, Workbench
from pipelines.reconcile.causes.subsets import Sieve, counted, left_out

_CHOICES = 60
"""Explanations of one row by lost events, at most."""
_FURTHER = 20
"""Recomputations that look for another explanation once there is one."""

Ids = frozenset[tuple[str, int | None, int]]


@dataclass
class Losses:
    """``lost``: the events that rows examined before show to be lost; ``explains``: the rows that each choice of lost
    events explains, where several do."""

    work: Workbench
    lost: set[tuple[str, int | None, int]] = field(default_factory=set)
    explains: dict[Ids, set[str]] = field(default_factory=dict)

    def is_open(self, cause: Cause) -> bool:
        """Whether the cause is one of several losses, of which other rows may single one out."""
        return cause.name == LOST and "ways" in cause.facts

    def row_missing(self, one: Difference, bench: Bench, _: Values | None) -> Cause | None:
        """The job gives the row, and the live run has none."""
        if bench.mine is None:
            return None
        members = bench.members
        facts: dict[str, object] = {
            "recomputed": {name: plain(bench.mine.row[name]) for name in self.work.names},
            "events": [event_id(arrival) for arrival in members[:20]],
            "events_in_all": len(members),
        }
        without = self._gone_without(one, bench)
        if without:
            return Cause(
                LOST,
                f"Without {listed([event_words(arrival) for arrival in without])}, which the live run lost elsewhere"
                " too, there is no such row.",
                {"missing_events": [event_id(arrival) for arrival in without]},
            )
        if len(members) == 1:
            facts["also"] = f"{LOST}: the window holds {event_words(members[0])} alone; without it there is no row"
        return Cause(
            ROW_MISSING,
            f"The recomputation gives this row from {len(members)} event(s), and the live run has rows for its"
            " neighbours: the row was deleted or never delivered.",
            facts,
        )

    def _gone_without(self, one: Difference, bench: Bench) -> list[Arrival]:
        """Events that other rows show to be lost, without which the job does not give the row; none: it does."""
        members = {id_of(arrival) for arrival in bench.members}
        # a session or a snapshot also hangs on events that do not count in it
        for ids in (self.lost & members, self.lost):
            gone = [arrival for arrival in bench.arrivals if id_of(arrival) in ids]
            kept = [arrival for arrival in bench.arrivals if id_of(arrival) not in ids]
            if gone and self.work.gives(one, kept, None):
                return gone
        return []

    def lost_members(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """Without some of the events that count in the window it is what the live run wrote."""
        members = bench.members
        if wanted is None or bench.mine is None or not members:
            return None
        number = self._fewer(bench, wanted)
        if number is not None and number <= 0:
            return None
        confirmed: list[tuple[Arrival, ...]] = []
        for choice in self._choices(members, number, wanted):
            gone = [members[place] for place in choice]
            ids = {id_of(arrival) for arrival in gone}
            if self.work.gives(one, [arrival for arrival in bench.arrivals if id_of(arrival) not in ids], wanted):
                confirmed.append(tuple(gone))
                if ids <= self.lost:
                    break
            if len(confirmed) >= _CHOICES:
                break
        if not confirmed:
            return None
        return self._lost_cause(one, confirmed, "counted ")

    def lost_before(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """An event that does not count in the window, but without which others would count elsewhere."""
        inside = {id_of(arrival) for arrival in bench.members}
        others = [arrival for arrival in bench.arrivals if id_of(arrival) not in inside]
        if wanted is None or not others:
            return None
        others.sort(key=lambda other: abs(other.arrival_time_us - one.end_us))
        confirmed: list[tuple[Arrival, ...]] = []
        tries = 4 * _CHOICES
        for number, arrival in enumerate(others):
            if number >= tries:
                break
            if self.work.gives(one, [other for other in bench.arrivals if other is not arrival], wanted):
                confirmed.append((arrival,))
                tries = min(tries, number + _FURTHER)
        if not confirmed:
            return None
        kind = "punctuation" if confirmed[0][0].punctuation_us is not None else "event"
        why = "with it there is no such window" if bench.mine is None else "it decides which others count here"
        found = self._lost_cause(one, confirmed, f"saw the {kind} ", f" ({why})")
        return Cause(LOST, found.says, {**found.facts, "counts_in_the_window": False})

    def _lost_cause(self, one: Difference, confirmed: Sequence[Sequence[Arrival]], never: str, why: str = "") -> Cause:
        """``confirmed`` choices each explain the row; named is one that other rows show to be lost, or share."""
        ids = [frozenset(id_of(arrival) for arrival in gone) for gone in confirmed]
        if len(confirmed) > 1:
            for choice in ids:
                self.explains.setdefault(choice, set()).add(str(one.key))
        rows = [len(self.explains.get(choice, ())) for choice in ids]
        known = next((place for place, choice in enumerate(ids) if choice <= self.lost), None)
        if known is None and rows.count(max(rows)) == 1:
            known = rows.index(max(rows))
        best = confirmed[known or 0]
        if known is not None:
            self.lost |= ids[known]
        facts: dict[str, object] = {"missing_events": [event_id(arrival) for arrival in best]}
        doubt = ""
        if len(confirmed) > 1:
            others = [[event_id(arrival) for arrival in gone] for gone in confirmed if gone is not best]
            facts |= {"or_one_of": others[:20], "ways": len(confirmed)}
            told = "the values do not tell them apart" if known is None else "this one explains another row, too"
            doubt = f" (as would {len(confirmed) - 1} other choice(s): {told})"
        return Cause(
            LOST,
            f"The live run never {never}{listed([event_words(arrival) for arrival in best])}{why}: recomputed without,"
            f" the window is exactly what it wrote{doubt}.",
            facts,
        )

    def counted_twice(self, _: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """With one of its events counted twice the window is what the live run wrote."""
        members = bench.members
        if wanted is None or not members or self.work.job.query.join is not None:
            return None
        sieve = Sieve(self.work.job, members, self.work.names, self.work.evaluate, self.work.budget)
        places = range(len(members))
        found = [members[place] for place in places if sieve.gives([*places[: place + 1], *places[place:]], wanted)]
        if not found:
            return None
        return Cause(
            TWICE,
            f"Recomputed with {event_words(found[0])} counted twice, the window is exactly what the live run wrote.",
            {"event": event_id(found[0]), "or_one_of": [event_id(arrival) for arrival in found[1:20]]},
        )

    def log_gap(self, _: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """The live run counted more than the log holds, and the log lacks sequences there."""
        if wanted is None:
            return None
        ours = 0 if bench.mine is None else counted(self.work.job, bench.mine.row)
        theirs = counted(self.work.job, wanted)
        if ours is None or theirs is None or theirs <= ours:
            return None
        gaps = _gaps(bench.arrivals)
        missing = sum(last - first + 1 for _, _, first, last in gaps)
        if missing < theirs - ours:
            return None
        words = [f"{name}/{partition}/{first}..{last}" for name, partition, first, last in gaps]
        return Cause(
            LOST,
            f"The live run counted {theirs - ours} event(s) more than the log holds, and around this window the log"
            f" lacks the sequences {listed(words)}: they are lost from the log.",
            {"missing_from_log": words[:50], "sequences_missing": missing},
        )

    def _fewer(self, bench: Bench, wanted: Values) -> int | None:
        assert bench.mine is not None
        ours, theirs = counted(self.work.job, bench.mine.row), counted(self.work.job, wanted)
        return None if ours is None or theirs is None or self.work.job.query.join is not None else ours - theirs

    def _choices(self, members: Sequence[Arrival], number: int | None, wanted: Values) -> Iterator[tuple[int, ...]]:
        """Choices of members whose absence leaves the live values, the recomputation aside."""
        if self.work.job.query.join is not None:
            yield from ((place,) for place in range(min(len(members), _CHOICES)))
            return
        sieve = Sieve(self.work.job, members, self.work.names, self.work.evaluate, self.work.budget)
        seen: set[frozenset[int]] = set()
        for choice in left_out(members, number):
            gone = frozenset(choice)
            if gone in seen:
                continue
            if self.work.budget.is_spent:
                return
            seen.add(gone)
            if sieve.gives([place for place in range(len(members)) if place not in gone], wanted):
                yield choice


def _gaps(arrivals: Sequence[Arrival]) -> list[tuple[str, int, int, int]]:
    """(input, partition, first missing sequence, last) inside these arrivals."""
    found = []
    latest: dict[tuple[str, int], int] = {}
    for one in sorted(arrivals, key=lambda one: (one.input, one.input_partition or 0, one.sequence)):
        if one.input_partition is None:
            continue
        place = one.input, one.input_partition
        if place in latest and one.sequence > latest[place] + 1:
            found.append((*place, latest[place] + 1, one.sequence - 1))
        latest[place] = one.sequence
    return found
