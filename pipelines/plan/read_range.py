"""Which arrivals make an output range exact: the one place that knows.

**The rule** (stream_analytics, guard E, tolerance L, look-back K): an output range ``[from, to)`` is exact when the
arrivals ``[from - E - max(K, L), to + L]`` are read and every timeline starts with empty state.

*Proof.* Write ``t`` for the time an event counts at, ``arr`` for its arrival, ``M`` for the greatest time its timeline
has seen. The guard gives ``event time <= arr + E`` for everything that is not dropped as early; the late rule gives
``t >= arr - L`` (adjusting moves an event up to that bound, dropping removes it).

1. *Nothing that counts is missed at the lower end.* A window with ``end >= from`` depends on times ``t >= from - K``
   alone, and a time is never more than E ahead of the arrival that caused it, be it the event's own or a watermark's.
   So everything that such a window depends on arrived at ``from - K - E`` or later.
2. *What is not read cannot move what is read.* An unread event arrived before ``from - E - max(K, L)``, so the
   watermark it caused is less than ``from - max(K, L) - out_of_order``. It could only have moved or dropped an event
   whose time is less than that. Such an event is in no window of the range (K); and it is no arrival of ``[from, to)``,
   whose times are at least ``from - L`` (L). So windows and verdicts of the range are the whole log's.
3. *Nothing is missed at the upper end.* What arrives after ``to + L`` counts after ``to``; windows of the range end
   before ``to`` and end with their last instant. Verdicts look at earlier arrivals only.

**A query of several steps** has for each input a K of its own, the sum of what the steps on the way look back, and an
A, what they look ahead (:mod:`pipelines.plan.extent` has both, with their proof). With these, each input reads
``[from - E - max(K, L), to + A + L]`` by its own policy: the timelines of other inputs decide nothing about it.

**K of a session** (S11, timeout T, greatest duration D) is ``2D + T``. Check points cut time into segments
``(c - D, c]``. A *run* is a sequence of events without a pause longer than T. The events of a run's first two segments
are one session, those of each later segment are another, and the check point at the end closes it at the latest. Let a
session end at ``from`` or later. Then the check point c that closes it is at ``from`` or later, and its events are
later than ``c - 2D``. Which of them it contains is known from the times after ``c - 2D - T``:

- Let f be the first event of the segment ``(c - 2D, c - D]``. If an event precedes f by at most T, the run of f began
  in an earlier segment. Then ``(c - D, c]`` is a session of its own, wherever the run began and whatever closed before.
  Else the run begins at f, and its events up to c are one session. Other runs of that segment begin after f.
- If that segment has no event, let f be the first event of ``(c - D, c]``. If an event precedes f by at most T, it is
  two segments or more earlier, and ``(c - D, c]`` is a session of its own. Else the run begins at f, and c does not
  close it. Other runs of that segment begin after f, and c does not close them either.

So it does not matter which events at ``from - K`` or before are read, nor at which times they count. The bound is
tight: in the first case the event one microsecond after ``from - K`` may be the one that precedes f. At the upper end,
a session that ends before ``to`` contains nothing later, and an event that continued it would count before ``to``.

**What history knows.** The open beginning of a job without a guard closes again once the log itself is asked
(:func:`narrowed`), without an initial state. Let ``B = from - max(K, L)`` and ``a`` the first arrival of an event whose
event time is B or more. Reading from ``min(a, B + L)`` is exact: what arrived before has event times below B and is
moved up to its arrival minus L at most, so it counts before B and its watermark is before B. Steps 1 and 2 then go
through unchanged. (Of several inputs, B takes the greatest L and ``B + L`` the least, since a late event is moved by
its own input's.)

**With an initial state** (the arithmetic is in :mod:`pipelines.plan.bounded_reads`). Where event and arrival time do
not bound each other, no formula bounds what must be read; what is known of the whole log does. Its *summary* contains,
for each bucket ``[b, b + 1)`` of arrival time and each timeline, the least and the greatest time of its events and the
greatest punctuation. All that decides about an event besides itself is one state of its timeline, folded over
everything that arrived before: a maximum, or a counter. So

4. *Beginning at a bucket with the initial state is beginning at the log's first arrival.* The states that the arrivals
   of ``[s, ..]`` meet are folds over what came before them, and a fold over a prefix is the fold over its rest begun
   with the fold over its head. Arrival order sorts by arrival time first, so a bucket's beginning cuts it cleanly, also
   across partitions. Every verdict from ``s`` on is the whole log's, however far a stamp is in the future: it is in
   the state, and its row need not be read.
5. *Windows are the whole log's if every event that they depend on is read.* With ``s`` at or before ``from``, so that
   the verdicts of the range are among those decided, read from the first bucket that may contain such an event, and to
   the last. What is read on top does no harm: it is judged as in the whole log, and counts where it does there.
6. *What the whole log says at its end* (``hold``, the set of partitions) comes from the whole summary.

What may count in a window of the range, by profile, and when nothing more can:

*atlas, grid* (windows ``[start, end)``). The windows of the range end at ``from`` to ``to - 1``, so their events have
times from ``from - size`` to ``to - 2``; a document keeps its time. None counts any more once ``to - 1`` is closed:
then all ends before are, and closing never goes back. The state is ``max(E)`` and ``max(P)`` of each partition. The
watermark is the least over *all* partitions of the log, those first heard after the range included: unless the job file
says how many there are, one that is still to come would keep everything back, so such a range is never final. By
``processing_time`` the times are the arrivals themselves, and the initial state is only what a verdict shows.

*atlas, sessions.* Let the times of all events of the log, counted or not, fall into chains, each time less than the gap
from the next. No event ever fits a session of another chain, in whatever order they arrive: a chain is judged by its
own events and by what is closed when each arrives. So read from the first event of every chain that an arrival of the
range belongs to (its verdict asks which sessions of the chain are open), and of every chain in which a session may end
at ``from`` to ``to - 1``: one whose last time is ``from - gap`` or later, its first ``to - 1 - gap`` or before. Once
``to - 1`` is closed, sessions that end there take nothing more, and what is open ends later. What is read of other
chains may lack members; but a session ends a gap after one of its chain's times, so not in the range either way.

*stream_insight, points and intervals.* The state is the number of items counted, the start of the last that triggered,
and the last CTI, each of what was *received*. A lifetime is never moved but up, and its end never: in a grid's window
of the range it ends after ``from - size`` and begins at ``to - 2`` or before. Once the current time (own and imported)
is beyond ``to - 2``, later items that begin there are dropped, or moved beyond. A snapshot window of the range ends at
an endpoint before ``to``, and a lifetime Y spans it, which reaches ``from``. Its beginning, the endpoint before, is at
or after Y's start; so every endpoint that shapes it is at or after ``B``, the least start of lifetimes that reach
``from`` and begin before ``to``: what ends before ``B`` shapes nothing, and shortens no window that it is not in.

*stream_analytics.* The state is M of each timeline. With ``K`` and the join's bounds as above, an event of the range
counts from ``from - K`` to ``to - 1`` (a left join's unit on top). It counts at its own late-adjusted time, or is moved
to a watermark it met: ``M - out_of_order`` of the initial state, or of another event of its timeline and bucket, whose
time is then at most ``out_of_order`` above. Nothing more can count once every arrival is later than ``to + L``; or,
without L, once all partitions have a watermark beyond ``to``, where the job file says how many there are and no key
makes another.

**What stays open**, and reads to the log's own ends: *sessions* of atlas by the clock (they go on as long as arrivals
do); *edges* (a start that opened long ago may be open still, and its row, wherever it is, is needed to count it);
*count windows* (they begin n starts of their group ago, however long that is); times that are *expressions*, which only
Spark can read. For these last an unbounded tolerance stays open too (a verdict may depend on any earlier watermark, and
an event of a window may arrive at any later time), and ``hold``, which asks for the watermark at the end of the log: a
timeline that has been silent since before any bound keeps that back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pipelines.core.model import Job, OutputRange, StreamAnalyticsOrdering
from pipelines.core.time import format_duration
from pipelines.plan.extent import Extent, extents, greatest, has_join, job_extent


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
    """The arrivals that make ``output`` exact for ``job``, whatever input they are of."""
    return _around(output, reach_of(job))


def read_ranges(job: Job, output: OutputRange) -> dict[str, ReadRange]:
    """The arrivals of each input that make ``output`` exact: a long path of steps lengthens the reads of its own inputs
    alone. Inputs that share a log read the same of it."""
    reaches = {part.name: reach_of_input(job, part.name) for part in job.inputs}
    logs = {
        part.log: _greatest_reach({one.name: reaches[one.name] for one in job.inputs if one.log == part.log})
        for part in job.inputs
    }
    return {part.name: _around(output, logs[part.log]) for part in job.inputs}


def _around(output: OutputRange, reach: Reach) -> ReadRange:
    from_us = None if output.from_us is None or reach.before_us is None else output.from_us - reach.before_us
    to_us = None if output.to_us is None or reach.after_us is None else output.to_us + reach.after_us
    return ReadRange(from_us, to_us, reach.rule, reach.reasons)


class History(Protocol):
    """What a log says of its own past, in one pass over a column or two."""

    def first_arrival_above(self, input_name: str, event_time_us: int) -> int | None:
        """At or before the first arrival of an event with a greater event time; None if there is none."""


def narrowed(job: Job, output: OutputRange, history: History) -> ReadRange:
    """:func:`read_range`, with an open beginning closed where ``history`` proves that nothing before it matters."""
    read = read_range(job, output)
    if read.from_us is not None or output.from_us is None or job.profile != "stream_analytics":
        return read
    if has_join(job) or job.end_of_log == "hold":
        return read
    names = _judged_inputs(job)
    policies = [policy(job, name) for name in names]
    late_us = greatest([one.late_arrival_us for one in policies])
    if late_us is None:
        return read
    bound_us = output.from_us - max(_bounded(job_extent(job)), late_us)
    # at B itself too: a sliding window ends when the event at its start leaves, a snapshot at its only instant
    firsts = [history.first_arrival_above(name, bound_us - 1) for name in names]
    moved_us = bound_us + min(one.late_arrival_us or 0 for one in policies)
    start_us = min([moved_us, *(first for first in firsts if first is not None)])
    reason = "no early guard: reads from the first arrival whose event time is within the reach of the range"
    return replace(read, from_us=start_us, reasons=(reason,))


def reach_of(job: Job) -> Reach:
    """How far ``job`` reaches around an output range, and why: the greatest over its inputs."""
    if job.steps is None:
        return _reach(job, _judged_inputs(job), job_extent(job))
    return _greatest_reach({part.name: reach_of_input(job, part.name) for part in job.inputs})


def reach_of_input(job: Job, name: str) -> Reach:
    """How far ``job`` reads one input: all inputs of one step equally far, those of several steps by their own paths
    and policies."""
    return reach_of(job) if job.steps is None else _reach(job, (name,), extents(job).get(name, Extent()))


def policy(job: Job, name: str) -> StreamAnalyticsOrdering:
    """The stream_analytics policy that acts on an input."""
    ordering = job.ordering(name)
    assert isinstance(ordering, StreamAnalyticsOrdering)
    if job.input(name).timestamp_by is None:
        # arrival time is the time: no policy applies, nothing is early or late
        return StreamAnalyticsOrdering(early_arrival_us=0, late_arrival_us=0)
    return ordering


def _reach(job: Job, names: Sequence[str], extent: Extent) -> Reach:
    if job.profile == "atlas":
        why = "atlas has no early guard and closes a window only when every partition has passed it"
        return Reach(None, None, "the whole log", (why,))
    if job.profile == "stream_insight":
        why = "stream_insight bounds nowhere how far a start time is from its arrival, and counts CTIs from the start"
        return Reach(None, None, "the whole log", (why,))
    policies = [policy(job, name) for name in names]
    early_us = greatest([one.early_arrival_us for one in policies])
    late_us = greatest([one.late_arrival_us for one in policies])
    back_us = _bounded(extent)
    reasons = []
    if early_us is None:
        reasons.append("without an early guard one far stamp moves the watermark for ever: reads from the beginning")
    if late_us is None:
        reasons.append("with an unbounded late tolerance any arrival may count anywhere: reads the whole log")
    if job.end_of_log == "hold":
        reasons.append(
            "end_of_log: hold asks for the watermark at the end of the log, and a partition that fell silent long ago"
            " holds it back: reads the whole log"
        )
    before_us = after_us = None
    if late_us is not None and job.end_of_log != "hold":
        before_us = None if early_us is None else early_us + max(back_us, late_us)
        after_us = late_us + extent.ahead_us
    rule = "[from - E - max(K, L), to + A + L]" if extent.ahead_us else "[from - E - max(K, L), to + L]"
    values_us = {"E": early_us, "K": back_us, "L": late_us} | ({"A": extent.ahead_us} if extent.ahead_us else {})
    values = ", ".join(f"{name} = {'none' if us is None else format_duration(us)}" for name, us in values_us.items())
    return Reach(before_us, after_us, f"{rule} with {values}", tuple(reasons))


def _bounded(extent: Extent) -> int:
    assert extent.back_us is not None, "every construct of stream_analytics is bounded"
    return extent.back_us


def _judged_inputs(job: Job) -> tuple[str, ...]:
    """The inputs whose policies decide how much is read."""
    return tuple(extents(job)) if job.steps is None else tuple(part.name for part in job.inputs)


def _greatest_reach(reaches: Mapping[str, Reach]) -> Reach:
    """The reach that suffices for several inputs; the rule names them where they differ."""
    rules = {name: reach.rule for name, reach in reaches.items()}
    same = len(set(rules.values())) == 1
    return Reach(
        greatest([reach.before_us for reach in reaches.values()]),
        greatest([reach.after_us for reach in reaches.values()]),
        next(iter(rules.values())) if same else "; ".join(f"{name}: {rule}" for name, rule in rules.items()),
        tuple(dict.fromkeys(reason for reach in reaches.values() for reason in reach.reasons)),
    )
