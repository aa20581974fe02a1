"""The summary of an arrival log, by bucket of arrival time, and the initial state of a read range.

A summary contains no events, only counts, maxima and the last event that triggered a CTI. These are associative, so
rows of one bucket may be split, merged and made in any order. :mod:`pipelines.plan.read_range` proves which arrivals
a read range with an initial state needs.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.core.model import AtlasOrdering, Input, Job, Session, StreamAnalyticsOrdering, StreamInsightOrdering
from pipelines.core.time import MINUTE
from pipelines.plan.extent import windows_of


@dataclass(frozen=True, slots=True)
class SummaryKey:
    """All settings that the summary of one input depends on.

    ``time`` is the TIMESTAMP column of the event time (None: arrival time), ``end`` the one of an interval's end.
    ``early_us`` and ``late_us`` give the time of a stream_analytics event: none if it is early, else the greater of
    the event time and arrival minus late. ``clock``: CTIs are issued, by the three fields after it. ``island_us``: a
    row has times of which each is less than this from the next, instead of times of one UTC day.
    """

    time: str | None
    end: str | None = None
    over: tuple[str, ...] = ()
    early_us: int | None = None
    late_us: int | None = None
    clock: bool = False
    every_events: int | None = None
    every_us: int | None = None
    delay_us: int = 0
    island_us: int | None = None


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """Arrivals of one timeline in one bucket of arrival time, with times of one UTC day or island, or without a time.

    ``partition`` None: punctuations that apply to all partitions. ``timeline``: see :func:`timeline_text`.
    ``first_us`` and ``last_us``: the least and the greatest time of the events, None where they have none; ``end_us``:
    their greatest end (intervals only); ``punctuation_us``: the greatest punctuation.
    """

    bucket: int
    partition: int | None
    timeline: str
    rows: int
    first_us: int | None
    last_us: int | None
    end_us: int | None
    punctuation_us: int | None
    last_arrival_us: int


@dataclass(frozen=True, slots=True)
class Clock:
    """The CTI state of a stream_insight input: items counted, start of the last that triggered, last CTI (I4 to I8)."""

    received: int = 0
    baseline_us: int | None = None
    cti_us: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole log: ``rows``, and the clock after each bucket that has arrivals (stream_insight).

    Bucket ``b`` contains the arrivals in ``[b * bucket_us, (b + 1) * bucket_us)``.
    """

    bucket_us: int
    rows: tuple[SummaryRow, ...]
    clocks: Mapping[int, Clock]

    def clock(self, bucket: int | None = None) -> Clock:
        """The clock before the first arrival of ``bucket``; None: at the end of the log."""
        earlier = [each for each in self.clocks if bucket is None or each < bucket]
        return self.clocks[max(earlier)] if earlier else Clock()

    def seen(self, bucket: int | None = None) -> tuple[TimelineState, ...]:
        """The state of each timeline before ``bucket``; None: at the end of the log."""
        return fold(row for row in self.rows if bucket is None or row.bucket < bucket)

    def partitions(self) -> frozenset[int]:
        """Every input partition of the log."""
        return frozenset(row.partition for row in self.rows if row.partition is not None)


@dataclass(frozen=True, slots=True)
class TimelineState:
    """The greatest time and the greatest punctuation of one timeline; None: it has none."""

    partition: int | None
    timeline: str
    time_us: int | None
    punctuation_us: int | None


@dataclass(frozen=True, slots=True)
class InitialState:
    """The state of one input before a read range (``before``, ``clock``), and at the end of the log (the others)."""

    partitions: frozenset[int]
    before: tuple[TimelineState, ...]
    at_end: tuple[TimelineState, ...]
    clock: Clock
    clock_at_end: Clock
    last_arrival_us: int | None


InitialStates = Mapping[str, InitialState]
"""By input."""


def initial_state_of(summary: Summary, bucket: int | None) -> InitialState:
    """The initial state of a read range that begins with ``bucket``; None: with the log."""
    return InitialState(
        partitions=summary.partitions(),
        before=() if bucket is None else summary.seen(bucket),
        at_end=summary.seen(),
        clock=Clock() if bucket is None else summary.clock(bucket),
        clock_at_end=summary.clock(),
        last_arrival_us=max((row.last_arrival_us for row in summary.rows), default=None),
    )


def fold(rows: Iterable[SummaryRow]) -> tuple[TimelineState, ...]:
    """The greatest time and punctuation of each timeline, in order of partition and timeline."""
    found: dict[tuple[int | None, str], tuple[int | None, int | None]] = {}
    for row in rows:
        time_us, punctuation_us = found.get((row.partition, row.timeline), (None, None))
        found[row.partition, row.timeline] = greater(time_us, row.last_us), greater(punctuation_us, row.punctuation_us)
    order = sorted(found, key=lambda key: (key[0] is not None, key[0] or 0, key[1]))
    return tuple(TimelineState(*key, *found[key]) for key in order)


def greater(left: int | None, right: int | None) -> int | None:
    """The greater of the two; of a number and None the number."""
    return max((us for us in (left, right) if us is not None), default=None)


_KEY_TYPES = frozenset({"string", "boolean", "tinyint", "smallint", "int", "integer", "bigint", "date"})
"""Types whose values have one text each. A log with ``over`` columns of other types has no summary."""


def summary_key_of(job: Job, name: str) -> SummaryKey | None:
    """The settings of that input's summary; None where its times are expressions, or its ``over`` columns of other
    types than :data:`_KEY_TYPES`."""
    source, ordering = job.input(name), job.ordering(name)
    keys = [source.column(key) for key in source.over]
    if any(key is None or key.type not in _KEY_TYPES for key in keys):
        return None
    over = tuple(key.name for key in keys if key is not None)
    columns = [None if text is None else source.column(text) for text in (source.timestamp_by, source.end_by)]
    for text, column in zip((source.timestamp_by, source.end_by), columns, strict=True):
        if text is not None and (column is None or column.type != "timestamp"):
            return None
    time, end = (None if column is None else column.name for column in columns)
    match ordering:
        case AtlasOrdering():
            # a minute at least, for at most 1440 islands a day: a wider gap only links more times
            gaps_us = [window.timeout_us for window in windows_of(job) if isinstance(window, Session)]
            return SummaryKey(time, island_us=max(*gaps_us, MINUTE) if gaps_us else None)
        case StreamAnalyticsOrdering():
            if time is None:
                return SummaryKey(time, over=over)
            return SummaryKey(time, over=over, early_us=ordering.early_arrival_us, late_us=ordering.late_arrival_us)
        case StreamInsightOrdering():
            end = end if source.shape == "interval" else None
            by = (ordering.every_events, ordering.every_us, ordering.delay_us)
            return SummaryKey(time, end, (), None, None, True, *by)


def timeline_text(values: Sequence[object]) -> str:
    """The values of ``over`` as JSON, dates in ISO 8601; empty without ``over``."""
    return json.dumps(list(values), ensure_ascii=False, default=str) if values else ""


def timeline_values(source: Input, text: str) -> tuple[object, ...]:
    """The inverse of :func:`timeline_text`."""
    values = zip(map(source.column, source.over), json.loads(text) if text else [], strict=True)
    return tuple(
        dt.date.fromisoformat(value) if column and column.type == "date" else value for column, value in values
    )
