"""The causes a difference may have, and how a cause, its evidence and an event are put into words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import Arrival
from pipelines.core.time import format_instant

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


def id_of(one: Arrival) -> tuple[str, int | None, int]:
    """What names an arrival."""
    return one.input, one.input_partition, one.sequence


def event_id(one: Arrival) -> str:
    """``input/partition/sequence``, as ``tailrace why --event`` takes it; a punctuation for all says ``all``."""
    partition = "all" if one.input_partition is None else one.input_partition
    return f"{one.input}/{partition}/{one.sequence}"


def event_words(one: Arrival) -> str:
    """``cars/0/17 (arrived 2026-01-01T12:07:00Z)``"""
    return f"{event_id(one)} (arrived {format_instant(one.arrival_time_us)})"


def listed(words: Sequence[str], limit: int = 5) -> str:
    """``a, b and c``, or the first few and how many more."""
    if len(words) > limit:
        return f"{', '.join(words[:limit])} and {len(words) - limit} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))
