"""``row_missing_in_stream``: the job gives the row, and the live run, which has its neighbours, does not have it."""

from __future__ import annotations

from pipelines.lakehouse.show import plain
from pipelines.recompute.naming import event_description, event_id
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.rebuilt_window import RebuiltWindow


def row_missing(window: RebuiltWindow) -> Cause | None:
    """The job gives the row, and the live run has none."""
    if window.found is None or window.difference.copies:
        return None
    members = window.members
    details: dict[str, object] = {
        "recomputed": {name: plain(window.found.row[name]) for name in window.by.names},
        "events": [event_id(one) for one in members[:20]],
        "events_in_all": len(members),
    }
    if len(members) == 1:
        alone = event_description(members[0])
        details["also"] = f"lost_events: {alone} is the window's only event; without it there is no row"
    return Cause(
        "row_missing_in_stream",
        f"The recomputation gives this row from {len(members)} event(s), and the live run has rows for its neighbours:"
        " the row was deleted or never delivered.",
        details,
    )
