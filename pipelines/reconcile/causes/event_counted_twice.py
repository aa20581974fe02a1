"""``event_counted_twice``: the live run counted one event two times, as a broker that delivers again makes it."""

from __future__ import annotations

from pipelines.recompute.naming import event_description, event_id
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.rebuilt_window import RebuiltWindow
from pipelines.reconcile.causes.subsets import MemberAggregates


def counted_twice(window: RebuiltWindow) -> Cause | None:
    """With one of its events counted twice the window is what the live run wrote."""
    members = window.members
    if window.live is None or not members or window.job.window_query.join is not None:
        return None
    aggregates = MemberAggregates(window)
    places = range(len(members))
    found = [
        members[place]
        for place in places
        if not window.budget.is_spent and aggregates.give([*places[: place + 1], *places[place:]], window.live)
    ]
    if not found:
        return None
    return Cause(
        "event_counted_twice",
        f"Recomputed with {event_description(found[0])} counted twice, the window is exactly what the live run wrote.",
        {"event": event_id(found[0]), "or_one_of": [event_id(one) for one in found[1:20]]},
    )
