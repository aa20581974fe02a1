"""Which arrivals a few windows are recomputed from."""

from __future__ import annotations

from pipelines.core.model import Job, OutputRange, Session, Window
from pipelines.core.time import DAY
from pipelines.plan.bounded_reads import BoundedReads
from pipelines.plan.extent import look_back
from pipelines.plan.read_range import ReadRange, read_range
from pipelines.recompute.logs import Logs

_AROUND_US = 2 * DAY


def reads_around(job: Job, output: OutputRange, logs: Logs, most: int, *, history: bool = True) -> BoundedReads:
    """The arrivals to recompute ``output`` from, and the state that they begin with.

    1. Where a formula bounds both ends: the formula's. They are exact for an altered log or policy, too.
    2. Else all that the formula leaves, if they are at most ``most``.
    3. Else what a replay reads of the log as it is. That may take a pass over the log; not without ``history``.
    4. Else, where a replay reads the whole log: two days on either side. They begin with empty timelines, so results
       need not be exact, and ``rule`` is :data:`AROUND`.
    """
    formula = read_range(job, output)
    if _is_closed(formula) or logs.count(job, formula) <= most:
        return BoundedReads(formula, formula.to_us)
    if history:
        found = logs.bounded_reads(job, output)
        if _is_closed(found.range):
            return found
    ends_us = [us for us in (output.from_us, output.to_us) if us is not None]
    assert ends_us, "a range without ends has nothing around it"
    from_us = min(ends_us) - _AROUND_US if formula.from_us is None else formula.from_us
    to_us = max(ends_us) + _AROUND_US if formula.to_us is None else formula.to_us
    return BoundedReads(ReadRange(from_us, to_us, AROUND), None)


AROUND = "two days on either side"


def _is_closed(read: ReadRange) -> bool:
    return read.from_us is not None and read.to_us is not None


def reach_us(window: Window) -> int:
    """How far back a window reaches from its end; of an atlas session, which is unbounded, as far as its gap."""
    back_us = look_back(window)
    if back_us is None:
        assert isinstance(window, Session)
        return window.timeout_us
    return back_us
