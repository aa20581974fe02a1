"""Had the live run closed the window because its source was idle, and the log does not record it?"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.model import Arrival
from pipelines.core.time import format_instant
from pipelines.reconcile.causes.names import IDLE_CLOSE, Cause
from pipelines.reconcile.causes.rebuilt_window import Bench, Difference, Values, Workbench
from pipelines.reconcile.causes.subsets import counted
from pipelines.reference.events import place_of


def idle_close(work: Workbench, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
    """A punctuation of the window's end, put before some arrival, gives what the live run wrote; atlas alone."""
    if work.job.profile != "atlas" or wanted is None or work.job.query.join is not None:
        return None
    source = work.job.query.sources[0]
    order = sorted(bench.members, key=place_of)
    last_us = max((arrival.arrival_time_us for arrival in bench.arrivals), default=one.end_us)
    number = counted(work.job, wanted)
    for index in range(len(order), 0, -1):
        if order and number is not None and number != index:
            continue
        at_us = order[index].arrival_time_us if index < len(order) else last_us + 1
        close = Arrival(source, None, _free_sequence(bench.arrivals), at_us, {}, one.end_us, "idle")
        kept = bench.arrivals
        if work.gives(one, [*kept, close], wanted):
            return _idle_cause(one.end_us, at_us)
    if not order:
        close = Arrival(source, None, _free_sequence(bench.arrivals), last_us + 1, {}, one.end_us, "idle")
        if work.gives(one, [*bench.arrivals, close], wanted):
            return _idle_cause(one.end_us, last_us + 1)
    return None


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
