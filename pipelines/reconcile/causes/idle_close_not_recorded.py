"""``idle_close_not_recorded``: the live run closed the window because its source was idle, and the log lacks it."""

from __future__ import annotations

from pipelines.core.model import Arrival
from pipelines.core.time import format_instant
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.rebuilt_window import RebuiltWindow
from pipelines.reconcile.causes.subsets import events_in
from pipelines.reference.events import place_of


def idle_close(window: RebuiltWindow) -> Cause | None:
    """A punctuation of the window's end, put before some arrival, gives what the live run wrote; atlas alone."""
    job, end_us = window.job, window.difference.end_us
    if job.profile != "atlas" or window.live is None:
        return None
    order = sorted(window.members, key=place_of)
    last_us = max((one.arrival_time_us for one in window.arrivals), default=end_us)
    number = events_in(job, window.live)
    taken = [one.sequence for one in window.arrivals if one.input_partition is None]
    # of the window's own events at least one came before the close
    for counted in range(len(order), min(len(order), 1) - 1, -1):
        if order and number not in (None, counted):
            continue
        at_us = order[counted].arrival_time_us if counted < len(order) else last_us + 1
        close = Arrival(job.window_query.sources[0], None, max(taken, default=-1) + 1, at_us, {}, end_us, "idle")
        if window.gives_live([*window.arrivals, close]):
            end, at = format_instant(end_us), format_instant(at_us)
            return Cause(
                "idle_close_not_recorded",
                f"The live run had closed the window by {at}, which no punctuation in the log records: with one of"
                f" {end} at that arrival time the recomputed window is exactly what it wrote.",
                {"punctuation_time": end, "arrival_time_at_most": at},
            )
    return None
