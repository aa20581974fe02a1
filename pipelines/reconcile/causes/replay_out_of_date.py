"""``replay_out_of_date``: the log and the job file as they are now give the live row."""

from __future__ import annotations

from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.rebuilt_window import RebuiltWindow


def out_of_date(window: RebuiltWindow) -> Cause | None:
    """Recomputed, the window is what the live run wrote: the replay's row is older."""
    if not window.is_live(window.found) or len(window.difference.copies) > 1:
        return None
    return Cause(
        "replay_out_of_date",
        "Recomputed from the log and the job file as they are now, the window is what the live run wrote: the replay's"
        " row is older. Replay the range again.",
    )
