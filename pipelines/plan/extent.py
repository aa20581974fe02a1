"""How far around a row in time lies what the row depends on: the composition of a query's steps.

**The rule.** Let a construct have the extent ``(B, A)`` if each of its rows at time ``x`` depends on rows of
``[x - B, x + A]`` alone, their absence included. Then extents add up along a path from an output to an input, and of
several paths the greatest B and the greatest A hold (:mod:`pipelines.plan.paths` adds up).

*Proof.* By induction over the path. A row of the last step at ``x`` depends on rows of the step before in
``[x - B, x + A]``, each of which depends on its own inputs within the sums of the extents before it. No step moves an
unread row into reach, since a row's time depends on inputs within the same bounds.

=====================================  ===========================================================================
construct                              B, A
=====================================  ===========================================================================
filter, projection, elements of an     0, 0: a row depends on itself, or on its own instant
array, reference join, union
window                                 :func:`look_back`, 0
lag, last, aggregate, is_first         the duration that it looks through, 0 (Q62, Q71)
inner join of ``a .. b`` units         ``(max(b, 0, -a) + 1)`` units, 0: a pair counts at its later row, and the other
                                       one is at most so many *boundaries* away, so less than a unit more
left join of ``a .. b`` units          ``(max(b, 0) + max(-a, 0) + 1)`` units, and one unit if ``b >= 0``: a left row
                                       without a partner counts ``max(b, 0)`` units later, and asks for all partners
=====================================  ===========================================================================

A reference join depends on the snapshot that holds at its row's time: for reference data the path ends there, so B is
the sum of what comes *after* the join.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.core.model import AnyOf, Count, Grid, Job, Session, Sliding, Snapshot, Window
from pipelines.core.query import members_of
from pipelines.core.steps import (
    Analysed,
    InputRows,
    Joined,
    Rows,
    StepRows,
    Steps,
    Windowed,
    children_of,
    walk,
)


@dataclass(frozen=True, slots=True)
class Extent:
    """A row at time x depends on rows of ``[x - back_us, x + ahead_us]``; ``back_us`` None: nothing bounds it."""

    back_us: int | None = 0
    ahead_us: int = 0

    def then(self, later: Extent) -> Extent:
        """Along a path: this construct's, and what comes after it."""
        unbounded = self.back_us is None or later.back_us is None
        back_us = None if unbounded else (self.back_us or 0) + (later.back_us or 0)
        return Extent(back_us, self.ahead_us + later.ahead_us)


def windows_of(job: Job) -> tuple[Window, ...]:
    """Every window of the job, those of ``any_of`` one by one."""
    if job.steps is None:
        found = [job.window_query.window]
    else:
        found = [rows.window for _, rows in job.steps.relations() if isinstance(rows, Windowed)]
    return tuple(member for window in found for _, member in members_of(window))


def has_join(job: Job) -> bool:
    """Whether the job joins streams."""
    if job.steps is None:
        return job.window_query.join is not None
    return any(isinstance(rows, Joined) for _, rows in job.steps.relations())


@dataclass(frozen=True, slots=True)
class FirstWindow:
    """The window that events meet first on a path to an output, None on a path without one; ``after`` is what comes
    after it: the windows of ``[x - after.back_us, x + after.ahead_us]`` make the output's rows at x."""

    window: Window | None
    after: Extent


def first_windows(job: Job) -> tuple[FirstWindow, ...]:
    """The first window of each path from the inputs to an output."""
    if job.steps is None:
        return (FirstWindow(job.window_query.window, Extent()),)
    steps = job.steps

    def found(rows: Rows, after: Extent) -> Iterator[FirstWindow]:
        if isinstance(rows, Windowed) and not _has_window(rows.rows, steps):
            yield FirstWindow(rows.window, after)
        elif isinstance(rows, InputRows):
            yield FirstWindow(None, after)
        elif isinstance(rows, StepRows):
            yield from found(steps.step(rows.step), after)
        else:
            for child in children_of(rows):
                yield from found(child, extent_of(rows).then(after))

    return tuple(dict.fromkeys(one for output in steps.outputs for one in found(output.rows, Extent())))


def extent_of(rows: Rows) -> Extent:
    """The extent of one relation, over the rows that it is made of directly."""
    match rows:
        case Windowed(window=window):
            return Extent(look_back(window))
        case Analysed(functions=functions):
            return Extent(max((one.within_us for one in functions), default=0))
        case Joined(unit_us=unit_us, from_units=from_units, to_units=to_units, kind=kind):
            return join_extent(unit_us, from_units, to_units, is_left=kind == "left")
        case _:
            return Extent()


def look_back(window: Window) -> int | None:
    """K: a window does not depend on events that count more than this before its end; None: an atlas session, which
    has no such bound.

    >>> look_back(Sliding(60)), look_back(Session(timeout_us=10, max_duration_us=60))
    (60, 130)
    """
    match window:
        case Grid(size_us=size_us) | Sliding(size_us=size_us):
            return size_us
        case Snapshot() | Count():
            return 0
        case Session(timeout_us=timeout_us, max_duration_us=longest_us):
            return None if longest_us is None else 2 * longest_us + timeout_us
        case AnyOf(members=members):
            return greatest([look_back(member) for _, member in members])


def join_extent(unit_us: int, from_units: int, to_units: int, *, is_left: bool) -> Extent:
    """The extent of a stream join (S14).

    >>> join_extent(60, 0, 5, is_left=True)
    Extent(back_us=360, ahead_us=60)
    """
    if is_left:
        units = max(to_units, 0) + max(-from_units, 0)
        return Extent((units + 1) * unit_us, unit_us if to_units >= 0 else 0)
    return Extent((max(to_units, 0, -from_units) + 1) * unit_us)


def greatest(durations_us: list[int | None]) -> int | None:
    """The greatest; None, without a bound, if one of them is."""
    known = [duration_us for duration_us in durations_us if duration_us is not None]
    return max(known) if len(known) == len(durations_us) else None


def _has_window(rows: Rows, steps: Steps) -> bool:
    return any(
        isinstance(one, Windowed) or (isinstance(one, StepRows) and _has_window(steps.step(one.step), steps))
        for one in walk(rows)
    )
