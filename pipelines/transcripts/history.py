"""What a transcript's arrivals say of their own past, for the plan's read range."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pipelines.core.model import Arrival, Job


class ListedHistory:
    """Answers :class:`pipelines.core.readrange.History` from arrivals in a list."""

    def __init__(self, job: Job, arrivals: Sequence[Arrival]) -> None:
        self._job = job
        self._events = [arrival for arrival in arrivals if arrival.punctuation_us is None]

    def first_arrival_above(self, input_name: str, event_time_us: int) -> int | None:
        """Exact for a TIMESTAMP column; for an expression, which needs Spark to read, the log's first arrival."""
        part = self._job.input(input_name)
        column = None if part.timestamp_by is None else part.column(part.timestamp_by)
        found = []
        for event in self._events:
            if event.input != input_name:
                continue
            time: object = event.arrival_time_us if part.timestamp_by is None else event_time_us + 1
            if column is not None and column.type == "timestamp":
                time = event.payload[column.name]
            if isinstance(time, int) and time > event_time_us:
                found.append(event.arrival_time_us)
        return min(found, default=None)

    def pause(self, input_names: Sequence[str], longer_than_us: int, before_us: int) -> int | None:
        """See :class:`pipelines.core.readrange.History`."""
        times = sorted(event.arrival_time_us for event in self._events if event.input in input_names)
        ends = [after for before, after in pairwise(times) if after - before > longer_than_us and before < before_us]
        return max(ends, default=None)
