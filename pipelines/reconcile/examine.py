"""One differing row at a time: recompute its window from an altered log until the live run's row comes out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.core.errors import TailraceError
from pipelines.core.events import place_of
from pipelines.core.model import Arrival, Job, OutputRange
from pipelines.core.readings import Evaluate
from pipelines.core.readrange import read_range
from pipelines.core.time import format_instant
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.reconcile.causes import (
    IDLE_CLOSE,
    LATE_ARRIVALS,
    LOST,
    OUT_OF_DATE,
    ROW_MISSING,
    STOPPED,
    TWICE,
    UNEXPLAINED,
    Cause,
    event_id,
    event_words,
    listed,
)
from pipelines.reconcile.policy import near, reach_us
from pipelines.reconcile.recompute import Logs, Made, recompute, same_values, window_rows
from pipelines.reconcile.subsets import Sieve, counted, left_out

_RUNS = 60
"""Recomputations for one row and one kind of cause, at most."""
Values = Mapping[str, object]


@dataclass(frozen=True)
class Stop:
    """A run of window ends without any live row; ``before_us`` and ``after_us`` are its neighbours that have some."""

    window_id: str | None
    first_us: int
    last_us: int
    ends: int
    rows: int
    before_us: int | None
    after_us: int | None


@dataclass(frozen=True)
class Difference:
    """One differing key: ``replay`` is what the job gives, ``copies`` the live run's values (none: missing)."""

    key: Values
    replay: Values | None
    copies: tuple[Values, ...]
    emitted_us: int | None = None

    @property
    def end_us(self) -> int:
        """The window's end."""
        value = self.key["window_end"]
        assert isinstance(value, int)
        return value


@dataclass
class Bench:
    """The arrivals of one window end, what the job makes of them there, and the row in question with its events."""

    arrivals: list[Arrival]
    made: Sequence[Made]
    mine: Made | None

    @property
    def members(self) -> list[Arrival]:
        """The events that counted in the row, in the order in which the aggregates saw them."""
        return [] if self.mine is None else [self.arrivals[place] for place in self.mine.members]


Test = Callable[[Difference, Bench, "Values | None"], "Cause | None"]


@dataclass
class Examiner:
    """Finds the cause of differences between ``job`` and the live run; ``names`` are the compared aggregates."""

    job: Job
    house: Lakehouse
    logs: Logs
    evaluate: Evaluate
    keys: Sequence[str]
    names: Sequence[str]
    stops: Sequence[Stop]
    last_emitted_us: int | None
    first_end_us: int | None = None
    last_end_us: int | None = None
    lost: set[tuple[str, int | None, int]] = field(default_factory=set)
    _benches: dict[int, tuple[list[Arrival], Sequence[Made]]] = field(default_factory=dict)
    _commits: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    _older: dict[tuple[tuple[str, int], ...], Logs] = field(default_factory=dict)

    def cause(self, one: Difference) -> Cause:
        """The first cause whose recomputation gives the live run's row."""
        try:
            bench = self._bench(one)
        except TailraceError as error:
            return Cause(UNEXPLAINED, f"The window could not be recomputed: {error}")
        wanted = self._wanted(one, bench)
        for test in self._tests(one):
            found = test(one, bench, wanted)
            if found is not None:
                return found
        return self._unexplained(one, bench, wanted)

    def _tests(self, one: Difference) -> list[Test]:
        tests: list[Test] = [self._out_of_date]
        if any(self._at_edge(one, stop) for stop in self.stops):
            tests.append(self._edge_of_stop)
        tests += [self._late_arrivals, self._idle_close]
        if not one.copies:
            return [*tests, self._row_missing]
        return [*tests, self._lost_members, self._counted_twice, self._edge_of_log, self._lost_before, self._log_gap]

    # -- what is compared -------------------------------------------------------------------------------------------

    def _bench(self, one: Difference) -> Bench:
        output = OutputRange(one.end_us, one.end_us + 1)
        if one.end_us not in self._benches:
            self._benches.clear()
            arrivals = self.logs.of(self.job, near(self.job, output, self.logs))
            made: Sequence[Made] = recompute(self.job, arrivals, output, self.evaluate).windows
            mine = self._find(made, one.key)
            same = mine is not None and one.replay is not None and same_values(mine.row, one.replay, self.names)
            if not same and one.replay is not None:
                arrivals = self.logs.of(self.job, read_range(self.job, output))
                made = recompute(self.job, arrivals, output, self.evaluate).windows
            self._benches[one.end_us] = arrivals, made
        arrivals, made = self._benches[one.end_us]
        return Bench(arrivals, made, self._find(made, one.key))

    def _find(self, made: Sequence[Made], key: Values) -> Made | None:
        return next((one for one in made if same_values(one.row, key, self.keys)), None)

    def _wanted(self, one: Difference, bench: Bench) -> Values | None:
        """The live values to explain: of several copies the first that is not what the job gives."""
        row = bench.mine.row if bench.mine is not None else one.replay
        others = [copy for copy in one.copies if row is None or not same_values(copy, row, self.names)]
        return others[0] if others else one.copies[0] if one.copies else None

    def _gives(self, one: Difference, arrivals: Sequence[Arrival], wanted: Values | None) -> bool:
        """Does the job, over these arrivals, give the live row, or none where the live run has none?"""
        output = OutputRange(one.end_us, one.end_us + 1)
        try:
            rows = window_rows(self.job, arrivals, output, self.evaluate)
        except TailraceError:
            return False
        row = next((row for row in rows if same_values(row, one.key, self.keys)), None)
        if row is None or wanted is None:
            return row is None and wanted is None
        return same_values(row, wanted, self.names)

    # -- the causes -------------------------------------------------------------------------------------------------

    def _out_of_date(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        row = None if bench.mine is None else bench.mine.row
        if row is None or wanted is None:
            agrees = row is None and wanted is None
        else:
            agrees = same_values(row, wanted, self.names)
        if not agrees or len(one.copies) > 1:
            return None
        return Cause(
            OUT_OF_DATE,
            "Recomputed from the log and the job file as they are now, the window is what the live run wrote: the"
            " replay's row is older. Replay the range again.",
        )

    def _at_edge(self, one: Difference, stop: Stop) -> bool:
        if stop.window_id != one.key["window_id"]:
            return False
        reach = reach_us(self.job.query.window)
        before = stop.first_us - reach <= one.end_us < stop.first_us or one.end_us == stop.before_us
        after = stop.last_us < one.end_us <= stop.last_us + reach or one.end_us == stop.after_us
        return before or after

    def _edge_of_stop(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        if wanted is None:
            return None
        for stop in self.stops:
            if self._at_edge(one, stop):
                found = self._partly(one, bench, wanted, before=one.end_us < stop.first_us)
                if found is not None:
                    return Cause(STOPPED, found.says, {**found.facts, **stop_facts(stop)})
        return None

    def _edge_of_log(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        if wanted is None:
            return None
        if one.end_us == self.last_end_us and (found := self._partly(one, bench, wanted, before=True)):
            return found
        if one.end_us == self.first_end_us:
            return self._partly(one, bench, wanted, before=False)
        return None

    def _partly(self, one: Difference, bench: Bench, wanted: Values, *, before: bool) -> Cause | None:
        """The live run had only the arrivals up to some instant (``before``), or only those from some instant on."""
        order = sorted(bench.members, key=place_of)
        for index in range(1, len(order)):
            border = place_of(order[index])
            kept = [arrival for arrival in bench.arrivals if (place_of(arrival) < border) == before]
            number = counted(self.job, wanted)
            if number is not None and number != (index if before else len(order) - index):
                continue
            if self._gives(one, kept, wanted):
                at = format_instant(order[index].arrival_time_us)
                which = f"before {at}" if before else f"from {at} on"
                facts = {"counted_arrivals": which, "counted": index if before else len(order) - index}
                facts["of"] = len(order)
                what = "stopped" if before else "began"
                return Cause(
                    STOPPED,
                    f"The live run {what} inside this window: recomputed from the arrivals {which} alone, the window is"
                    f" exactly what it wrote ({facts['counted']} of {len(order)} events).",
                    facts,
                )
        return None

    def _late_arrivals(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        emitted_us = one.emitted_us if one.copies else self.last_emitted_us
        if emitted_us is None:
            return None
        versions: dict[str, int] = {}
        batches: list[str] = []
        for part in self.job.inputs:
            commits = self._commits_of(part.name)
            index = bisect_right([at_us for at_us, _, _ in commits], emitted_us)
            if index == 0:
                return None  # nothing was there yet: the two clocks are not the same
            versions[arrivals_table(part.name)] = commits[index - 1][1]
            batches += [batch for _, _, batch in commits[index:] if batch]
        if not batches:
            return None
        known = {id_of(one) for one in self._as_of(versions, one)}
        later = [one for one in bench.arrivals if id_of(one) not in known]
        kept = [one for one in bench.arrivals if id_of(one) in known]
        if not later or not self._gives(one, kept, wanted):
            return None
        when = format_instant(emitted_us)
        result = "the window is exactly what it wrote" if wanted is not None else "there is no such row"
        return Cause(
            LATE_ARRIVALS,
            f"Arrivals were appended to the log after the live run's output of {when}: without the batch(es)"
            f" {listed(batches)} {result}.",
            {
                "emitted_at": when,
                "batches": batches,
                "log_versions": versions,
                "events": [event_id(arrival) for arrival in later[:20]],
                "events_in_all": len(later),
            },
        )

    def _as_of(self, versions: Mapping[str, int], one: Difference) -> list[Arrival]:
        output = OutputRange(one.end_us, one.end_us + 1)
        logs = self._older.setdefault(tuple(sorted(versions.items())), Logs(self.house, versions))
        return logs.of(self.job, near(self.job, output, self.logs))

    def _commits_of(self, name: str) -> list[tuple[int, int, str]]:
        """(commit time, version, batch) of a log, oldest first."""
        if name not in self._commits:
            history = self.logs.table(name).history()
            self._commits[name] = sorted(
                (int(one["timestamp"]) * 1000, int(one["version"]), str(one.get("batch_id") or "")) for one in history
            )
        return self._commits[name]

    def _idle_close(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        if self.job.profile != "atlas" or wanted is None or self.job.query.join is not None:
            return None
        source = self.job.query.sources[0]
        order = sorted(bench.members, key=place_of)
        last_us = max((arrival.arrival_time_us for arrival in bench.arrivals), default=one.end_us)
        number = counted(self.job, wanted)
        for index in range(len(order), 0, -1):
            if order and number is not None and number != index:
                continue
            at_us = order[index].arrival_time_us if index < len(order) else last_us + 1
            close = Arrival(source, None, _free_sequence(bench.arrivals), at_us, {}, one.end_us, "idle")
            kept = bench.arrivals
            if self._gives(one, [*kept, close], wanted):
                return _idle_cause(one.end_us, at_us)
        if not order:
            close = Arrival(source, None, _free_sequence(bench.arrivals), last_us + 1, {}, one.end_us, "idle")
            if self._gives(one, [*bench.arrivals, close], wanted):
                return _idle_cause(one.end_us, last_us + 1)
        return None

    def _row_missing(self, _: Difference, bench: Bench, _wanted: Values | None) -> Cause | None:
        if bench.mine is None:
            return None
        members = bench.members
        facts: dict[str, object] = {
            "recomputed": {name: _shown(bench.mine.row[name]) for name in self.names},
            "events": [event_id(arrival) for arrival in members[:20]],
            "events_in_all": len(members),
        }
        if members and all(id_of(arrival) in self.lost for arrival in members):
            return Cause(
                LOST,
                f"Without {listed([event_words(arrival) for arrival in members])}, which the live run lost elsewhere"
                " too, the window has no row.",
                {"missing_events": [event_id(arrival) for arrival in members]},
            )
        if len(members) == 1:
            facts["also"] = f"{LOST}: the window holds {event_words(members[0])} alone; without it there is no row"
        return Cause(
            ROW_MISSING,
            f"The recomputation gives this row from {len(members)} event(s), and the live run has rows for its"
            " neighbours: the row was deleted or never delivered.",
            facts,
        )

    def _lost_members(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
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
            if self._gives(one, [arrival for arrival in bench.arrivals if id_of(arrival) not in ids], wanted):
                confirmed.append(tuple(gone))
                if ids <= self.lost:
                    break
            if len(confirmed) >= _RUNS:
                break
        if not confirmed:
            return None
        best = next((gone for gone in confirmed if {id_of(one) for one in gone} <= self.lost), confirmed[0])
        self.lost |= {id_of(arrival) for arrival in best} if len(confirmed) == 1 else set()
        return _lost_cause(best, confirmed)

    def _fewer(self, bench: Bench, wanted: Values) -> int | None:
        assert bench.mine is not None
        ours, theirs = counted(self.job, bench.mine.row), counted(self.job, wanted)
        return None if ours is None or theirs is None or self.job.query.join is not None else ours - theirs

    def _choices(self, members: Sequence[Arrival], number: int | None, wanted: Values) -> Iterator[tuple[int, ...]]:
        """Choices of members whose absence leaves the live values, the recomputation aside."""
        if self.job.query.join is not None:
            yield from ((place,) for place in range(min(len(members), _RUNS)))
            return
        sieve = Sieve(self.job, members, self.names, self.evaluate)
        seen: set[frozenset[int]] = set()
        for choice in left_out(members, number):
            gone = frozenset(choice)
            if gone in seen:
                continue
            seen.add(gone)
            if sieve.gives([place for place in range(len(members)) if place not in gone], wanted):
                yield choice

    def _lost_before(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """An event that does not count in the window, but without which others would count elsewhere."""
        inside = {id_of(arrival) for arrival in bench.members}
        others = [arrival for arrival in bench.arrivals if id_of(arrival) not in inside]
        if wanted is None or not others:
            return None
        for arrival in sorted(others, key=lambda other: abs(other.arrival_time_us - one.end_us))[: 4 * _RUNS]:
            if self._gives(one, [other for other in bench.arrivals if other is not arrival], wanted):
                kind = "punctuation" if arrival.punctuation_us is not None else "event"
                self.lost.add(id_of(arrival))
                return Cause(
                    LOST,
                    f"The live run never saw the {kind} {event_words(arrival)}: without it the watermark lies lower,"
                    " and the recomputed window is exactly what the live run wrote.",
                    {"missing_events": [event_id(arrival)], "counts_in_the_window": False},
                )
        return None

    def _counted_twice(self, _: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        members = bench.members
        if wanted is None or not members or self.job.query.join is not None:
            return None
        sieve = Sieve(self.job, members, self.names, self.evaluate)
        places = range(len(members))
        found = [members[place] for place in places if sieve.gives([*places[: place + 1], *places[place:]], wanted)]
        if not found:
            return None
        return Cause(
            TWICE,
            f"Recomputed with {event_words(found[0])} counted twice, the window is exactly what the live run wrote.",
            {"event": event_id(found[0]), "or_one_of": [event_id(arrival) for arrival in found[1:20]]},
        )

    def _log_gap(self, _: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """The live run counted more than the log holds, and the log lacks sequences there."""
        if wanted is None:
            return None
        ours = 0 if bench.mine is None else counted(self.job, bench.mine.row)
        theirs = counted(self.job, wanted)
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

    def _unexplained(self, _: Difference, bench: Bench, wanted: Values | None) -> Cause:
        facts: dict[str, object] = {"events": len(bench.members), "arrivals_tried": len(bench.arrivals)}
        if wanted is not None:
            facts["stream"] = {name: _shown(wanted.get(name)) for name in self.names}
        return Cause(UNEXPLAINED, "No recomputation that was tried gives the live run's row.", facts)


def stop_facts(stop: Stop) -> dict[str, object]:
    """The range of a stop as evidence."""
    neighbours = {"live_before": stop.before_us, "live_after": stop.after_us}
    return {
        "first_missing_end": format_instant(stop.first_us),
        "last_missing_end": format_instant(stop.last_us),
        "window_ends_missing": stop.ends,
        "rows_missing": stop.rows,
        **{name: None if us is None else format_instant(us) for name, us in neighbours.items()},
    }


def id_of(one: Arrival) -> tuple[str, int | None, int]:
    """What names an arrival."""
    return one.input, one.input_partition, one.sequence


def _lost_cause(best: Sequence[Arrival], confirmed: Sequence[Sequence[Arrival]]) -> Cause:
    facts: dict[str, object] = {"missing_events": [event_id(arrival) for arrival in best]}
    doubt = ""
    if len(confirmed) > 1:
        facts["or_one_of"] = [[event_id(arrival) for arrival in gone] for gone in confirmed if gone is not best][:20]
        facts["ways"] = len(confirmed)
        doubt = f" (as would {len(confirmed) - 1} other choice(s): the values do not tell them apart)"
    return Cause(
        LOST,
        f"The live run never counted {listed([event_words(arrival) for arrival in best])}: recomputed without, the"
        f" window is exactly what it wrote{doubt}.",
        facts,
    )


def _idle_cause(end_us: int, at_us: int) -> Cause:
    return Cause(
        IDLE_CLOSE,
        f"The live run had closed the window by {format_instant(at_us)}, which no punctuation in the log records: with"
        f" one of {format_instant(end_us)} at that arrival time the recomputed window is exactly what it wrote.",
        {"punctuation_time": format_instant(end_us), "arrival_time_at_most": format_instant(at_us)},
    )


def _free_sequence(arrivals: Sequence[Arrival]) -> int:
    taken = [one.sequence for one in arrivals if one.input_partition is None]
    return max(taken, default=-1) + 1


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


def _shown(value: object) -> object:
    from pipelines.lakehouse.show import plain

    return plain(value)
