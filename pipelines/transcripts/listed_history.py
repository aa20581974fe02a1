"""The history of a transcript's arrivals, from which a plan derives its read range."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.model import Arrival, Job
from pipelines.core.time import DAY
from pipelines.plan.initial_state import Clock, Summary, SummaryKey, SummaryRow, summary_key_of, timeline_text
from pipelines.reference.events import place_of


class ListedHistory:
    """Implements :class:`pipelines.plan.bounded_reads.History` over arrivals in a list."""

    def __init__(self, job: Job, arrivals: Sequence[Arrival], bucket_us: int = DAY) -> None:
        self._job = job
        self._arrivals = arrivals
        self._bucket_us = bucket_us

    def first_arrival_above(self, input_name: str, event_time_us: int) -> int | None:
        """Exact for a TIMESTAMP column; for an expression, which needs Spark to read, the log's first arrival."""
        part = self._job.input(input_name)
        column = None if part.timestamp_by is None else part.column(part.timestamp_by)
        found = []
        for arrival in self._arrivals:
            if arrival.input != part.log or arrival.punctuation_us is not None:
                continue
            time: object = arrival.arrival_time_us if part.timestamp_by is None else event_time_us + 1
            if column is not None and column.type == "timestamp":
                time = arrival.payload[column.name]
            if isinstance(time, int) and time > event_time_us:
                found.append(arrival.arrival_time_us)
        return min(found, default=None)

    def summary(self, input_name: str) -> Summary | None:
        """See :class:`pipelines.plan.bounded_reads.History`."""
        key = summary_key_of(self._job, input_name)
        if key is None:
            return None
        rows, clocks, clock = [], {}, Clock()
        log = self._job.input(input_name).log
        for arrival in sorted(self._arrivals, key=place_of):
            if arrival.input == log:
                row = _summary_row(key, arrival.arrival_time_us // self._bucket_us, arrival)
                clock = _advanced(clock, key, row)
                rows.append(row)
                clocks[row.bucket] = clock
        return Summary(self._bucket_us, tuple(rows), clocks if key.clock else {})


def _summary_row(key: SummaryKey, bucket: int, arrival: Arrival) -> SummaryRow:
    """The summary of a single arrival."""
    time: object = arrival.arrival_time_us if key.time is None else arrival.payload[key.time]
    end = None if key.end is None else arrival.payload[key.end]
    over = [arrival.payload[column] for column in key.over]
    time_us = time if arrival.punctuation_us is None and isinstance(time, int) and None not in over else None
    end_us = end if isinstance(end, int) else None
    if time_us is not None and key.end is not None and (end_us is None or end_us <= time_us):
        time_us = None
    if time_us is not None and key.early_us is not None and time_us > arrival.arrival_time_us + key.early_us:
        time_us = None
    if time_us is not None and key.late_us is not None:
        time_us = max(time_us, arrival.arrival_time_us - key.late_us)
    return SummaryRow(
        bucket=bucket,
        partition=arrival.input_partition,
        timeline="" if time_us is None else timeline_text(over),
        rows=1,
        first_us=time_us,
        last_us=time_us,
        end_us=None if time_us is None else end_us,
        punctuation_us=arrival.punctuation_us,
        last_arrival_us=arrival.arrival_time_us,
    )


def _advanced(clock: Clock, key: SummaryKey, row: SummaryRow) -> Clock:
    """The clock of a stream_insight input after the arrival of ``row``."""
    received, baseline_us = clock.received, clock.baseline_us
    issued = [us for us in (clock.cti_us, row.punctuation_us) if us is not None]
    if row.first_us is not None:
        received += 1
        due = key.every_us is not None and (baseline_us is None or row.first_us - baseline_us >= key.every_us)
        if due or (key.every_events is not None and received % key.every_events == 0):
            baseline_us = row.first_us
            issued.append(row.first_us - key.delay_us)
    return Clock(received, baseline_us, max(issued, default=None))
