"""Which arrivals make an output range exact: the one place that knows.

**The rule** (stream_analytics, guard E, tolerance L, look-back K): an output range ``[from, to)`` is exact when the
arrivals ``[from - E - max(K, L), to + L]`` are read and every timeline starts with empty state.

*Proof.* Write ``t`` for the time an event counts at, ``arr`` for its arrival, ``M`` for the greatest time its timeline
has seen. The guard gives ``event time <= arr + E`` for everything that is not dropped as early; the late rule gives
``t >= arr - L`` (adjusting moves an event up to that bound, dropping removes it).

1. *Nothing that counts is missed at the lower end.* A window with ``end >= from`` holds times ``t > from - K``, and
   a time never lies more than E ahead of the arrival that caused it, be it the event's own or a watermark's. So
   everything that counts in the range arrived after ``from - K - E``.
2. *What is not read cannot move what is read.* An unread event arrived before ``from - E - max(K, L)``, so the
   watermark it caused lies below ``from - max(K, L) - out_of_order``. It could only have moved or dropped an event
   whose time lies below that. Such an event is in no window of the range (K); and it is no arrival of ``[from, to)``,
   whose times are at least ``from - L`` (L). So windows and verdicts of the range are the whole log's.
3. *Nothing is missed at the upper end.* What arrives after ``to + L`` counts after ``to``; windows of the range end
   before ``to`` and end with their last instant. Verdicts look at earlier arrivals only.

**What history knows.** Two of the open beginnings close again once the log itself is asked (:func:`narrowed`), with
nothing carried.

*No guard.* Let ``B = from - max(K, L)`` and ``a`` the first arrival of an event whose event time is B or more. Reading
from ``min(a, B + L)`` is exact: what arrived before has event times below B and is moved up to its arrival minus L at
most, so it counts before B and its watermark lies before B. Steps 1 and 2 then go through unchanged.
(Of several inputs, B takes the greatest L and ``B + L`` the least, since a late event is moved by its own input's.)

*Sessions.* Let no event arrive between ``a1`` and ``a2``, with ``a2 - a1 > timeout + L + E`` and
``a1 + E + timeout < from``. Reading from ``a2`` is exact: what came before counts at ``a1 + E`` at most and what comes
after at ``a2 - L`` at least, so no session spans the pause, those before it have ended before ``from``, and no
watermark from before reaches anything after.

**With an initial state** (the arithmetic is in :mod:`pipelines.plan.bounded_reads`). Where event and arrival time do
not bound each other, no formula bounds what must be read; what is known of the whole log does. Its *summary* holds, for
each bucket ``[b, b + 1)`` of arrival time and each timeline, the least and the greatest time of its events and the
greatest punctuation. All that decides about an event besides itself is one state of its timeline, folded over
everything that arrived before: a maximum, or a counter. So

4. *Beginning at a bucket with the carried state is beginning at the log's first arrival.* The states that the arrivals
   of ``[s, ..]`` meet are folds over what came before them, and a fold over a prefix is the fold over its rest begun
   with the fold over its head. Arrival order sorts by arrival time first, so a bucket's beginning cuts it cleanly, also
   across partitions. Every verdict from ``s`` on is the whole log's, however far a stamp lies in the future: it is in
   the state, and its row need not be read.
5. *Windows are the whole log's if every event that counts in one of them is read.* With ``s`` at or before ``from``, so
   that the verdicts of the range are among those decided, read from the first bucket that may hold such an event, and
   to the last. What is read on top does no harm: it is judged as in the whole log, and counts where it does there.
6. *What the whole log says at its end* (``hold``, the set of partitions) comes from the whole summary.

What may count in a window of the range, by profile, and when nothing more can:

*atlas, grid* (windows ``[start, end)``). The windows of the range end at ``from`` to ``to - 1``, so their events have
times from ``from - size`` to ``to - 2``; a document keeps its time. None counts any more once ``to - 1`` is closed:
then all ends before are, and closing never goes back. The state is ``max(E)`` and ``max(P)`` of each partition. The
watermark is the least over *all* partitions of the log, those first heard after the range included: unless the job file
says how many there are, one that is still to come would hold everything back, so such a range is never final. By
``processing_time`` the times are the arrivals themselves, and what is carried is only what a verdict shows.

*atlas, sessions.* Let the times of all events of the log, counted or not, fall into chains, each time less than the gap
from the next. No event ever fits a session of another chain, in whatever order they arrive: a chain is judged by its
own events and by what is closed when each arrives. So read from the first event of every chain that an arrival of the
range lies in (its verdict asks which sessions of the chain are open), and of every chain in which a session may end at
``from`` to ``to - 1``: one whose last time is ``from - gap`` or later, its first ``to - 1 - gap`` or before. Once
``to - 1`` is closed, sessions that end there take nothing more, and what is open ends later. What is read of other
chains may lack members; but a session ends a gap after one of its chain's times, so not in the range either way.

*stream_insight, points and intervals.* The state is the number of items counted, the start of the last that triggered,
and the last CTI, each of what was *received*. A lifetime is never moved but up, and its end never: in a grid's window
of the range it ends after ``from - size`` and begins at ``to - 2`` or before. Once the current time (own and imported)
is beyond ``to - 2``, later items that begin there are dropped, or moved beyond. A snapshot window of the range ends at
an endpoint before ``to``, and a lifetime Y spans it, which reaches ``from``. Its beginning, the endpoint before, is at
or after Y's start; so every endpoint that shapes it lies at or after ``B``, the least start of lifetimes that reach
``from`` and begin before ``to``: what ends before ``B`` shapes nothing, and shortens no window that it is not in.

*stream_analytics.* The state is M of each timeline. With ``K`` and the join's bounds as above, an event of the range
counts from ``from - K`` to ``to - 1`` (a left join's unit on top). It counts at its own late-adjusted time, or is moved
to a watermark it met: ``M - out_of_order`` of the carry, or of another event of its timeline and bucket, whose time
then lies at most ``out_of_order`` above. Nothing more can count once every arrival is later than ``to + L``; or,
without L, once all partitions have a watermark beyond ``to``, where the job file says how many there are and no key
makes another.

**What stays open**, and reads to the log's own ends: *sessions* of stream_analytics (one that never pauses remembers
its beginning, and where it was cut at ``max_duration`` hangs on that; the policy moves times: pauses between them
are not known before all is judged) and those by the clock (they go on as long as arrivals do); *edges* (a start that
opened long ago may be open still, and its row, wherever it lies, is needed to count it); *count windows* (they begin n
starts of their group ago, however long that is); times that are *expressions*, which only Spark can read. For a profile
whose engine takes no carry the same holds of an unbounded tolerance (a verdict may hang on any earlier watermark, and a
window may be met at any later arrival), and of ``hold``, which asks for the watermark at the end of the log, and a
timeline that has been silent since before any bound holds that back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pipelines.core.model import (
    AnyOf,
    Count,
    Grid,
    Job,
    Join,
    OutputRange,
    Session,
    Sliding,
    Snapshot,
    StreamAnalyticsOrdering,
    Window,
)
from pipelines.core.time import UNIT_US, format_duration


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Arrivals ``[from_us, to_us]``, both ends included; None: from the log's beginning, to its end.

    ``rule`` is the formula that gave it, ``reasons`` say in sentences why an end is open.
    """

    from_us: int | None
    to_us: int | None
    rule: str
    reasons: tuple[str, ...] = ()

    def __contains__(self, arrival_time_us: int) -> bool:
        return (self.from_us is None or arrival_time_us >= self.from_us) and (
            self.to_us is None or arrival_time_us <= self.to_us
        )


@dataclass(frozen=True, slots=True)
class Reach:
    """How far before ``from`` and after ``to`` a job must read; None: all of it."""

    before_us: int | None
    after_us: int | None
    rule: str
    reasons: tuple[str, ...]


def read_range(job: Job, output: OutputRange) -> ReadRange:
    """The arrivals that make ``output`` exact for ``job``."""
    reach = reach_of(job)
    from_us = None if output.from_us is None or reach.before_us is None else output.from_us - reach.before_us
    to_us = None if output.to_us is None or reach.after_us is None else output.to_us + reach.after_us
    return ReadRange(from_us, to_us, reach.rule, reach.reasons)


class History(Protocol):
    """What a log says of its own past, in one pass over a column or two."""

    def first_arrival_above(self, input_name: str, event_time_us: int) -> int | None:
        """At or before the first arrival of an event with a greater event time; None if there is none."""

    def pause(self, input_names: Sequence[str], longer_than_us: int, before_us: int) -> int | None:
        """The arrival that ends the latest pause of all these inputs together that is longer than this and begins at
        an arrival before ``before_us``; None if there is none."""


def narrowed(job: Job, output: OutputRange, history: History) -> ReadRange:
    """:func:`read_range`, with an open beginning closed where ``history`` proves that nothing before it matters."""
    read = read_range(job, output)
    if read.from_us is not None or output.from_us is None or job.profile != "stream_analytics":
        return read
    if job.query.join is not None or job.end_of_log == "hold":
        return read
    names = job.query.sources
    policies = [policy(job, name) for name in names]
    early_us = _greatest([one.early_arrival_us for one in policies])
    late_us = _greatest([one.late_arrival_us for one in policies])
    look_back_us = look_back(job.query.window)
    if late_us is None:
        return read
    if early_us is None and look_back_us is not None:
        least_us = min(one.late_arrival_us or 0 for one in policies)
        return _without_guard(read, output.from_us, max(look_back_us, late_us), least_us, names, history)
    if early_us is not None and isinstance(job.query.window, Session):
        return _from_pause(read, output.from_us, early_us, late_us, job.query.window.timeout_us, names, history)
    return read


def _without_guard(
    read: ReadRange, from_us: int, back_us: int, least_late_us: int, names: Sequence[str], history: History
) -> ReadRange:
    bound_us = from_us - back_us
    # at B itself too: a sliding window ends when the event at its start leaves, a snapshot at its only instant
    firsts = [history.first_arrival_above(name, bound_us - 1) for name in names]
    start_us = min([bound_us + least_late_us, *(first for first in firsts if first is not None)])
    reason = "no early guard: reads from the first arrival whose event time lies within the reach of the range"
    return replace(read, from_us=start_us, reasons=(reason,))


def _from_pause(
    read: ReadRange, from_us: int, early_us: int, late_us: int, timeout_us: int, names: Sequence[str], history: History
) -> ReadRange:
    start_us = history.pause(names, timeout_us + late_us + early_us, from_us - early_us - timeout_us)
    if start_us is None:
        return read
    reason = "sessions: reads from the latest pause in the log that no session can span"
    return replace(read, from_us=min(start_us, from_us), reasons=(reason,))


def reach_of(job: Job) -> Reach:
    """How far ``job`` reaches around an output range, and why."""
    if job.profile == "atlas":
        why = "atlas has no early guard and closes a window only when every partition has passed it"
        return Reach(None, None, "the whole log", (why,))
    if job.profile == "stream_insight":
        why = "stream_insight bounds nowhere how far a start time lies from its arrival, and counts CTIs from the start"
        return Reach(None, None, "the whole log", (why,))
    return _stream_analytics(job)


def _stream_analytics(job: Job) -> Reach:
    join = job.query.join
    names = (join.left, join.right) if join else job.query.sources
    policies = [policy(job, name) for name in names]
    early_us = _greatest([one.early_arrival_us for one in policies])
    late_us = _greatest([one.late_arrival_us for one in policies])
    look_back_us = look_back(job.query.window)
    reasons = []
    if early_us is None:
        reasons.append("without an early guard one far stamp moves the watermark for ever: reads from the beginning")
    if late_us is None:
        reasons.append("with an unbounded late tolerance any arrival may count anywhere: reads the whole log")
    if look_back_us is None:
        reasons.append("a session that never pauses remembers its beginning: reads from the beginning")
    if job.end_of_log == "hold":
        reasons.append(
            "end_of_log: hold asks for the watermark at the end of the log, and a partition that fell silent long ago"
            " holds it back: reads the whole log"
        )
    before_us = None
    if early_us is not None and late_us is not None and look_back_us is not None and job.end_of_log != "hold":
        before_us = early_us + max(look_back_us + join_look_back(join), late_us)
    after_us = None
    if late_us is not None and job.end_of_log != "hold":
        after_us = late_us + join_look_ahead(join)
    rule = "[from - E - max(K, L), to + L]"
    told = {"E": early_us, "K": None if look_back_us is None else look_back_us + join_look_back(join), "L": late_us}
    values = ", ".join(f"{name} = {'none' if us is None else format_duration(us)}" for name, us in told.items())
    return Reach(before_us, after_us, f"{rule} with {values}", tuple(reasons))


def look_back(window: Window) -> int | None:
    """K: how far before its end a window's content may begin; None where that has no bound."""
    match window:
        case Grid(size_us=size_us) | Sliding(size_us=size_us):
            return size_us
        case Snapshot() | Count():
            return 0
        case Session():
            return None
        case AnyOf(members=members):
            return _greatest([look_back(member) for _, member in members])


def members_of(window: Window) -> tuple[tuple[str | None, Window], ...]:
    """The windows of a query with their ids; a single one has none."""
    return window.members if isinstance(window, AnyOf) else ((None, window),)


def policy(job: Job, name: str) -> StreamAnalyticsOrdering:
    """The stream_analytics policy that acts on an input."""
    ordering = job.ordering(name)
    assert isinstance(ordering, StreamAnalyticsOrdering)
    if job.input(name).timestamp_by is None:
        # arrival time is the time: no policy applies, nothing is early or late
        return StreamAnalyticsOrdering(early_arrival_us=0, late_arrival_us=0)
    return ordering


def join_look_back(join: Join | None) -> int:
    """How far before a joined row the events lie that make it.

    Boundaries are counted, not durations, so a match may lie one unit further away than the bound says. A left row
    without a match counts ``to`` units after it, and what could have matched it may lie ``-from`` units before it.
    """
    if join is None:
        return 0
    units = max(abs(join.from_units), abs(join.to_units))
    if join.kind == "left":
        units = max(units, max(join.to_units, 0) + max(-join.from_units, 0))
    return (units + 1) * UNIT_US[join.unit]


def join_look_ahead(join: Join | None) -> int:
    """An unmatched left row is known only when no right row can match, up to one unit after its stamp."""
    if join is None or join.kind == "inner":
        return 0
    return UNIT_US[join.unit]


def _greatest(durations_us: list[int | None]) -> int | None:
    known = [duration_us for duration_us in durations_us if duration_us is not None]
    return max(known) if len(known) == len(durations_us) else None
