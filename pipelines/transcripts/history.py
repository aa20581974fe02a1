"""What a transcript's arrivals say of their own past, for the plan's read range."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.model import Arrival, Job
from pipelines.core.time import DAY
from pipelines.plan.initial_state import Clock, Summary, SummaryKey, SummaryRow, summary_key_of, timeline_text
from pipelines.reference.events import place_of


class ListedHistory:
    """Answers :class:`pipelines.plan.bounded_reads.History` from arrivals in a list."""

    def __init__(self, job: Job, arrivals: Sequence[Arrival], bucket_us: int = DAY) -> None:
        self._job = job
        self._arrivals = arrivals
        self._bucket_us = bucket_us
        self._events = [arrival for arrival in arrivals if arrival.punctuation_us is None]

    def first_arrival_above(self, input_name: str, event_time_us: int) -> int | None:
        """Exact for a TIMESTAMP column; for an expression, which needs Spark to read, the log's first arrival."""
        part = self._job.input(input_name)
        column = None if part.timestamp_by is None else part.column(part.timestamp_by)
        found = []
        for event in self._events:
            if event.input != (part.same_log_as or part.name):
                continue
            time: object = event.arrival_time_us if part.timestamp_by is None else event_time_us + 1
            if column is not None and column.type == "timestamp":
                time = event.payload[column.name]
            if isinstance(time, int) and time > event_time_us:
                found.append(event.arrival_time_us)
        return min(found, default=None)

    def summary(self, input_name: str) -> Summary | None:
        """See :class:`pipelines.plan.bounded_reads.History`."""
        setting = summary_key_of(self._job, input_name)
        if setting is None:
            return None
        rows, clocks, counting = [], {}, _Counting(setting)
        for one in sorted(self._arrivals, key=place_of):
            if one.input == (self._job.input(input_name).same_log_as or input_name):
                bucket = one.arrival_time_us // self._bucket_us
                rows.append(_row(setting, bucket, one))
                clocks[bucket] = counting.take(one, rows[-1])
        return Summary(self._bucket_us, tuple(rows), clocks if setting.clock else {})


def _row(setting: SummaryKey, bucket: int, one: Arrival) -> SummaryRow:
    """What a single arrival adds to a summary."""
    time: object = one.arrival_time_us if setting.time is None else one.payload[setting.time]
    end = None if setting.end is None else one.payload[setting.end]
    key = [one.payload[column] for column in setting.over]
    usable = one.punctuation_us is None and isinstance(time, int) and None not in key
    time_us = time if usable and isinstance(time, int) else None
    end_us = end if isinstance(end, int) else None
    if time_us is not None and setting.end is not None and (end_us is None or end_us <= time_us):
        time_us = None
    if time_us is not None and setting.early_us is not None and time_us > one.arrival_time_us + setting.early_us:
        time_us = None
    if time_us is not None and setting.late_us is not None:
        time_us = max(time_us, one.arrival_time_us - setting.late_us)
    return SummaryRow(
        bucket=bucket,
        partition=one.input_partition,
        timeline="" if time_us is None else timeline_text(key),
        rows=1,
        first_us=time_us,
        last_us=time_us,
        end_us=None if time_us is None else end_us,
        punctuation_us=one.punctuation_us,
        last_arrival_us=one.arrival_time_us,
    )


class _Counting:
    """The clock of a stream_insight input, arrival by arrival."""

    def __init__(self, setting: SummaryKey) -> None:
        self._setting = setting
        self._now = Clock()

    def take(self, one: Arrival, row: SummaryRow) -> Clock:
        received, baseline_us, cti_us = self._now.received, self._now.baseline_us, self._now.cti_us
        issued = [us for us in (cti_us, one.punctuation_us) if us is not None]
        if row.first_us is not None:
            received += 1
            every, every_us = self._setting.every_events, self._setting.every_us
            due = every_us is not None and (baseline_us is None or row.first_us - baseline_us >= every_us)
            if due or (every is not None and received % every == 0):
                baseline_us = row.first_us
                issued.append(row.first_us - self._setting.delay_us)
        self._now = Clock(received, baseline_us, max(issued, default=None))
        return self._now
