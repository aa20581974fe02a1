"""Watermarks by one sort of each timeline: the strategy that suits every job and every log."""

from __future__ import annotations

from pipelines.batch.columns import MAX_BEFORE_US, SEQUENCE, TIME_US
from pipelines.batch.spark.prefix_max import prefix_max
from pipelines.batch.stream_analytics.input_events import InputEvents
from pipelines.batch.stream_analytics.watermarks.judged import EveryEvent


def by_sorting(events: InputEvents) -> EveryEvent:
    """One shuffle and one sort of every event, with all it holds; nothing runs before the query does."""
    scanned = prefix_max(events.timed, events.timeline, (SEQUENCE,), TIME_US, MAX_BEFORE_US)
    return EveryEvent(events, events.after_initial_state(scanned))
