"""The causes a difference may have, and how a cause, its evidence and an event are put into words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

ANOTHER_POLICY = "another_policy"
STOPPED = "stream_stopped_or_restarted"
IDLE_CLOSE = "idle_close_not_recorded"
LATE_ARRIVALS = "late_arrivals_after_output"
DUPLICATE = "duplicate_emission"
LOST = "lost_events"
TWICE = "event_counted_twice"
ROW_MISSING = "row_missing_in_stream"
FLOATING_POINT = "floating_point_only"
OUT_OF_DATE = "replay_out_of_date"
UNEXPLAINED = "unexplained"

CAUSES = (
    ANOTHER_POLICY,
    STOPPED,
    IDLE_CLOSE,
    LATE_ARRIVALS,
    DUPLICATE,
    LOST,
    TWICE,
    ROW_MISSING,
    FLOATING_POINT,
    OUT_OF_DATE,
    UNEXPLAINED,
)
"""Every cause; all but the last are proved: a recomputation gives the live run's row, or the rows themselves say it."""


@dataclass(frozen=True)
class Cause:
    """A cause, a sentence, and the facts behind it as JSON-ready data."""

    name: str
    says: str
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def evidence(self) -> str:
        """The column ``evidence``: a JSON object whose ``says`` is the sentence."""
        return json.dumps({"says": self.says, **self.facts}, ensure_ascii=False)
