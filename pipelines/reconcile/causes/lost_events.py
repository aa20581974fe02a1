"""``lost_events``: the live run never saw some events, or the log lacks some that it saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import Arrival
from pipelines.recompute.naming import ArrivalId, event_description, event_id, id_of, listed
from pipelines.recompute.windows import Values
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.rebuilt_window import RebuiltWindow
from pipelines.reconcile.causes.subsets import MemberAggregates, count_in, events_in, left_out

_CHOICES = 60
"""Choices of lost events that each explain a row: so many are looked for."""
_OTHERS = 240
"""Events that do not count in the window, of which one may be lost: so many are tried."""
_FURTHER = 20
"""Of these, how many more once one explains the row."""

Choice = tuple[Arrival, ...]


@dataclass
class LostEvents:
    """``lost``: the events that rows examined before show to be lost; ``explains``: the rows that each choice of lost
    events explains, where several do."""

    lost: set[ArrivalId] = field(default_factory=set)
    explains: dict[frozenset[ArrivalId], set[str]] = field(default_factory=dict)

    def is_open(self, cause: Cause) -> bool:
        """Whether the cause is one of several losses, of which other rows may single one out."""
        return cause.name == "lost_events" and "ways" in cause.details

    def no_row(self, window: RebuiltWindow) -> Cause | None:
        """Without events that other rows show to be lost, the job does not give the row that the live run lacks."""
        if window.found is None or window.live is not None:
            return None
        # a session or a snapshot also depends on events that do not count in it
        for ids in (self.lost & set(map(id_of, window.members)), self.lost):
            gone = [one for one in window.arrivals if id_of(one) in ids]
            if gone and window.gives_live_without(ids):
                return Cause(
                    "lost_events",
                    f"Without {listed([event_description(one) for one in gone])}, which the live run lost elsewhere"
                    " too, there is no such row.",
                    {"missing_events": [event_id(one) for one in gone]},
                )
        return None

    def lost_members(self, window: RebuiltWindow) -> Cause | None:
        """Without some of the events that count in the window it is what the live run wrote."""
        if window.found is None or window.live is None:
            return None
        fewer = _difference(window, window.found.row, window.live)
        if fewer is not None and fewer <= 0:
            return None
        confirmed: list[Choice] = []
        for choice in _choices(window, fewer, window.live):
            ids = {id_of(one) for one in choice}
            if window.gives_live_without(ids):
                confirmed.append(choice)
                if ids <= self.lost or len(confirmed) >= _CHOICES:
                    break
        return self._lost(window, confirmed, "counted ")

    def lost_others(self, window: RebuiltWindow) -> Cause | None:
        """An event that does not count in the window, but without which others would count elsewhere."""
        if window.live is None:
            return None
        inside = {id_of(one) for one in window.members}
        others = [one for one in window.arrivals if id_of(one) not in inside]
        others.sort(key=lambda other: abs(other.arrival_time_us - window.difference.end_us))
        confirmed: list[Choice] = []
        tries = _OTHERS
        for number, one in enumerate(others):
            if number >= tries:
                break
            if window.gives_live_without({id_of(one)}):
                confirmed.append((one,))
                tries = min(tries, number + _FURTHER)
        if not confirmed:
            return None
        kind = "punctuation" if confirmed[0][0].punctuation_us is not None else "event"
        why = "with it there is no such window" if window.found is None else "it decides which others count here"
        return self._lost(window, confirmed, f"saw the {kind} ", f" ({why})", {"counts_in_the_window": False})

    def lost_from_log(self, window: RebuiltWindow) -> Cause | None:
        """The live run counted more than the log has, and the log lacks sequences there."""
        if window.live is None:
            return None
        ours = 0 if window.found is None else count_in(window.job, window.found.row)
        theirs = count_in(window.job, window.live)
        if ours is None or theirs is None or theirs <= ours:
            return None
        gaps = _sequence_gaps(window.arrivals)
        missing = sum(last - first + 1 for _, _, first, last in gaps)
        if missing < theirs - ours:
            return None
        shown = [f"{name}/{partition}/{first}..{last}" for name, partition, first, last in gaps]
        return Cause(
            "lost_events",
            f"The live run counted {theirs - ours} event(s) more than the log has, and around this window the log"
            f" lacks the sequences {listed(shown)}: they are lost from the log.",
            {"missing_from_log": shown[:50], "sequences_missing": missing},
        )

    def _lost(
        self,
        window: RebuiltWindow,
        confirmed: Sequence[Choice],
        never: str,
        why: str = "",
        more: Values | None = None,
    ) -> Cause | None:
        """``confirmed`` choices each explain the row; named is one that other rows show to be lost, or share."""
        if not confirmed:
            return None
        ids = [frozenset(id_of(one) for one in choice) for choice in confirmed]
        if len(confirmed) > 1:
            for choice in ids:
                self.explains.setdefault(choice, set()).add(str(window.difference.key))
        rows = [len(self.explains.get(choice, ())) for choice in ids]
        known = next((place for place, choice in enumerate(ids) if choice <= self.lost), None)
        if known is None and rows.count(max(rows)) == 1:
            known = rows.index(max(rows))
        best = confirmed[known or 0]
        if known is not None:
            self.lost |= ids[known]
        details: dict[str, object] = {"missing_events": [event_id(one) for one in best]}
        doubt = ""
        if len(confirmed) > 1:
            others = [[event_id(one) for one in choice] for choice in confirmed if choice is not best]
            details |= {"or_one_of": others[:20], "ways": len(confirmed)}
            which = "the values do not distinguish them" if known is None else "this one explains another row, too"
            doubt = f" (as would {len(others)} other choice(s): {which})"
        return Cause(
            "lost_events",
            f"The live run never {never}{listed([event_description(one) for one in best])}{why}: recomputed without,"
            f" the window is exactly what it wrote{doubt}.",
            {**details, **(more or {})},
        )


def _difference(window: RebuiltWindow, row: Values, live: Values) -> int | None:
    """How many events fewer the live run counted; None where that is not known."""
    ours, theirs = events_in(window.job, row), events_in(window.job, live)
    return None if ours is None or theirs is None else ours - theirs


def _choices(window: RebuiltWindow, number: int | None, live: Values) -> Iterator[Choice]:
    """Choices of members whose absence leaves the live values, if the others still count as they do."""
    members = window.members
    if window.job.window_query.join is not None:
        yield from ((one,) for one in members[:_CHOICES])
        return
    aggregates = MemberAggregates(window)
    seen: set[frozenset[int]] = set()
    for choice in left_out(members, number):
        gone = frozenset(choice)
        if window.budget.is_spent:
            return
        if gone in seen:
            continue
        seen.add(gone)
        if aggregates.give([place for place in range(len(members)) if place not in gone], live):
            yield tuple(members[place] for place in choice)


def _sequence_gaps(arrivals: Sequence[Arrival]) -> list[tuple[str, int, int, int]]:
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
