"""Which arrivals make an output range exact: the rule and its proof.

**The rule** (stream_analytics, guard E, tolerance L, look-back K): an output range ``[from, to)`` is exact when the
arrivals ``[from - E - max(K, L), to + L]`` are read and every timeline starts with empty state.

*Proof.* Write ``t`` for the time an event counts at, ``arr`` for its arrival, ``M`` for the greatest time its timeline
has seen. The guard gives ``event time <= arr + E`` for everything that is not dropped as early; the late rule gives
``t >= arr - L`` (adjusting moves an event up to that bound, dropping removes it).

1. *Lower end.* A window with ``end >= from`` depends on times ``t >= from - K`` only. A time, of the event itself or of
   a watermark, is at most E after the arrival that caused it. So everything that such a window depends on arrived at
   ``from - K - E`` or later.
2. *Unread events do not move events that are read.* An unread event arrived before ``from - E - max(K, L)``, so the
   watermark that it caused is less than ``from - max(K, L) - out_of_order``. It can only have moved or dropped an event
   whose time is less than that. Such an event is in no window of the range (K). It did not arrive in ``[from, to)``
   either, because times of these arrivals are at least ``from - L`` (L). So windows and verdicts of the range are the
   whole log's.
3. *Upper end.* An event that arrives after ``to + L`` counts after ``to``. Windows of the range end before ``to`` and
   include their end. Verdicts depend on earlier arrivals only.

**A query of several steps** has for each input a K of its own, the sum of what the steps on the way look back, and an
A, what they look ahead (:mod:`pipelines.plan.extent` proves both, :mod:`pipelines.plan.paths` adds them up). With
these, each input reads ``[from - E - max(K, L), to + A + L]`` by its own policy: the timelines of other inputs decide
nothing about it.

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

**Without a guard** (:func:`narrowed`). A query on the log bounds the lower end, without an initial state. Let
``B = from - max(K, L)`` and ``a`` the first arrival of an event whose event time is B or more. Reading from
``min(a, B + L)`` is exact: an earlier arrival has an event time below B and is moved to its arrival minus L at most, so
it counts before B and its watermark is before B. Steps 1 and 2 then hold unchanged. (Of several inputs, B has the
greatest L and ``B + L`` the least, because a late event is moved by its own input's L.)

**With an initial state** (the arithmetic is in :mod:`pipelines.plan.bounded_reads`). Where event and arrival time do
not bound each other, no formula bounds the read range, but the log's *summary* does. It contains, for each bucket
``[b, b + 1)`` of arrival time and each timeline, the least and the greatest time of the events and the greatest
punctuation. A verdict depends on its event and on one state of the timeline, which is a fold over all earlier
arrivals: a maximum, or a counter. So

4. *A run from a bucket with its initial state gives the verdicts of a run from the first arrival.* The state before an
   arrival in ``[s, ..]`` is a fold over all earlier arrivals, which is the fold over those in ``[s, ..]`` that begins
   with the fold over those before ``s``. Arrival order sorts by arrival time first, so the beginning of a bucket splits
   it, also across partitions. An event time in the far future is in the state; its row need not be read.
5. *Windows are the whole log's if every event that they depend on is read.* With ``s`` at or before ``from``, so that
   all verdicts of the range are decided, read from the first bucket to the last that may contain such an event. Other
   events that are read change nothing: they have the verdicts and the windows that they have in the whole log.
6. *The state at the end of the log* (for ``hold``, and the set of partitions) is the fold over the whole summary.

Which events may count in a window of the range, by profile, and when no later arrival can:

*atlas, grid* (windows ``[start, end)``). The windows of the range end in ``[from, to - 1]``, so their events have times
in ``[from - size, to - 2]``; a document keeps its time. No later one counts once a window that ends at ``to - 1`` is
closed: then all windows that end before are closed, and closed windows stay closed. The state is ``max(E)`` and
``max(P)`` of each partition. The watermark is the least over *all* partitions of the log, including those whose first
arrival is after the range. Unless the job file has ``partitions``, a new partition could still appear, and the
watermark would wait for it; so such a range is never final. By ``processing_time`` the times are the arrival times, and
verdicts only report the watermark of the initial state.

*atlas, sessions.* Divide the times of all events of the log, counted or not, into chains: each time is less than the
gap from the next. No event fits a session of another chain, in whatever order they arrive. The verdicts of a chain
depend on its own events and on what is closed when each arrives. So read from the first event of every chain that an
arrival of the range belongs to (its verdict depends on the open sessions of the chain), and of every chain in which a
session may end in ``[from, to - 1]``: its last time is ``from - gap`` or later, its first ``to - 1 - gap`` or earlier.
Once ``to - 1`` is closed, sessions that end there get no more events, and open sessions end later. Other chains may be
read without some members; but a session ends a gap after a time of its chain, so theirs do not end in the range.

*stream_insight, points and intervals.* The state is the number of items counted, the start of the last that triggered,
and the last CTI, each of the *received* items. A start is moved to a later time only, an end never: a lifetime in a
grid's window of the range ends after ``from - size`` and begins at ``to - 2`` or earlier. Once the current time (own
and imported) is beyond ``to - 2``, later items that begin there are dropped, or moved beyond. A snapshot window of the
range ends at an endpoint before ``to``, and a lifetime Y that ends at ``from`` or later contains it. The window starts
at an endpoint at or after Y's start. So both its endpoints are at or after ``B``, the least start of lifetimes that end
at ``from`` or later and begin before ``to``. A lifetime that ends before ``B`` is in no window of the range and bounds
none.

*stream_analytics.* The state is M of each timeline. With ``K`` and the join's bounds as above, an event of a window of
the range counts in ``[from - K, to - 1]`` (one unit more for a left join). It counts at its late-adjusted time, or is
moved to a watermark: ``M - out_of_order`` of the initial state, or of another event of its timeline and bucket, whose
time is then at most ``out_of_order`` above. No later arrival counts once it arrives after ``to + L``; or, without L,
once all partitions have a watermark beyond ``to``, where the job file has ``partitions`` and ``over`` adds no timeline.

**Not bounded**, so that the read range extends to an end of the log: *sessions* of atlas by processing time (they
continue as long as arrivals follow each other); *edges* (a start edge may be open for any time, and its row must be
read); *count windows* (they contain n start times of their group, however long ago the first was); times that are
*expressions*, which only Spark can evaluate. With the latter, two settings stay unbounded as well: an unbounded
tolerance (a verdict may depend on any earlier watermark, and an event of a window may arrive at any later time), and
``hold``, which depends on the watermark at the end of the log, and so on a timeline that fell silent at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pipelines.core.model import Job, OutputRange, StreamAnalyticsOrdering
from pipelines.core.time import format_duration
from pipelines.plan.extent import Extent, greatest, has_join
from pipelines.plan.initial_state import Summary
from pipelines.plan.paths import extents, job_extent


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Arrivals ``[from_us, to_us]``, both ends included; None: from the log's beginning, to its end.

    ``rule`` is its formula; ``reasons`` are sentences that state why an end is open.
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
    """Queries on the whole log of an input, each a pass over a few columns."""

    def first_arrival_above(self, input_name: str, event_time_us: int) -> int | None:
        """At or before the first arrival of an event with a greater event time; None if there is none."""

    def summary(self, input_name: str) -> Summary | None:
        """The summary by :func:`~pipelines.plan.initial_state.summary_key_of`; None where it gives None."""


def narrowed(job: Job, output: OutputRange, history: History) -> ReadRange:
    """:func:`read_range`, with a lower end without a guard where ``history`` gives one (see the module)."""
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
    moved_us = bound_us + min(policy.late_arrival_us or 0 for policy in policies)
    start_us = min([moved_us, *(first for first in firsts if first is not None)])
    reason = "no early guard: reads from the first arrival whose event time can matter to the range"
    return replace(read, from_us=start_us, reasons=(reason,))


def reach_of(job: Job) -> Reach:
    """How far ``job`` must read before and after an output range, and why: the greatest over its inputs."""
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
        # events count at their arrival time: no policy applies, and none is early or late
        return StreamAnalyticsOrdering(early_arrival_us=0, late_arrival_us=0)
    return ordering


def _reach(job: Job, names: Sequence[str], extent: Extent) -> Reach:
    if job.profile == "atlas":
        why = "atlas has no early guard and closes a window only when every partition has passed it"
        return Reach(None, None, "the whole log", (why,))
    if job.profile == "stream_insight":
        why = "stream_insight does not bound how far a start time is from its arrival, and counts items from the first"
        return Reach(None, None, "the whole log", (why,))
    policies = [policy(job, name) for name in names]
    early_us = greatest([one.early_arrival_us for one in policies])
    late_us = greatest([one.late_arrival_us for one in policies])
    back_us = _bounded(extent)
    reasons = []
    if early_us is None:
        reasons.append("without an early guard one far event time sets every later watermark: reads from the beginning")
    if late_us is None:
        reasons.append("with an unbounded late tolerance any arrival may count anywhere: reads the whole log")
    if job.end_of_log == "hold":
        reasons.append(
            "end_of_log: hold depends on the watermark at the end of the log, and so on partitions that fell silent"
            " long ago: reads the whole log"
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
