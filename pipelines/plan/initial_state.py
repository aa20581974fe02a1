"""What an arrival log leaves behind: its summary, bucket by bucket, and the carry into a read range.

A summary holds no events, only what max, count and "the last one that triggered" say of them. All of it is
associative, so rows of the same bucket may be split, merged and made in any order. Which arrivals remain to be read
once a carry is at hand, and why, stands in :mod:`pipelines.plan.read_range`.
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
    """All that the summary of one input depends on, besides its log.

    ``time`` is the TIMESTAMP column that events happen at (None: arrival time), ``end`` the one that intervals end at.
    ``early_us`` and ``late_us`` make the time of a stream_analytics event: none if early, else at least arrival minus
    late. ``clock``: CTIs are counted, by the three fields that follow. ``island_us``: rows hold times that lie less
    than this apart, each from the next, instead of those of one UTC day.
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
    """Arrivals of one timeline in one bucket of arrival time, with times of one UTC day or island, or without any.

    ``partition`` None: punctuations for all. ``timeline``: see :func:`timeline_text`. ``first_us`` and ``last_us``: the
    least and the greatest time of its events, None where they have none; ``end_us``: their greatest end (intervals
    alone); ``punctuation_us``: the greatest punctuation.
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
    """Where the CTIs of a stream_insight input stand: items counted, start of the last that triggered, last CTI."""

    received: int = 0
    baseline_us: int | None = None
    cti_us: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole log: ``rows``, and the clock after each bucket that has arrivals (stream_insight).

    Bucket ``b`` holds the arrivals in ``[b * bucket_us, (b + 1) * bucket_us)``.
    """

    bucket_us: int
    rows: tuple[SummaryRow, ...]
    clocks: Mapping[int, Clock]

    def clock(self, bucket: int | None = None) -> Clock:
        """The clock before the first arrival of ``bucket``; None: at the end of the log."""
        earlier = [one for one in self.clocks if bucket is None or one < bucket]
        return self.clocks[max(earlier)] if earlier else Clock()

    def seen(self, bucket: int | None = None) -> tuple[TimelineState, ...]:
        """What each timeline had seen before ``bucket``; None: at the end of the log."""
        return fold(row for row in self.rows if bucket is None or row.bucket < bucket)

    def partitions(self) -> frozenset[int]:
        """Every input partition that the log names."""
        return frozenset(row.partition for row in self.rows if row.partition is not None)


@dataclass(frozen=True, slots=True)
class TimelineState:
    """The greatest time and the greatest punctuation of one timeline; None: it had none."""

    partition: int | None
    timeline: str
    time_us: int | None
    punctuation_us: int | None


@dataclass(frozen=True, slots=True)
class InitialState:
    """What one input brings into a read range, and what the rest of its log adds at its end.

    ``before`` and ``clock``: from the arrivals before the read range. ``at_end``, ``clock_at_end``, ``last_arrival_us``
    and ``partitions``: from the whole log.
    """

    partitions: frozenset[int]
    before: tuple[TimelineState, ...]
    at_end: tuple[TimelineState, ...]
    clock: Clock
    clock_at_end: Clock
    last_arrival_us: int | None


InitialStates = Mapping[str, InitialState]
"""By input."""


def initial_state_of(summary: Summary, bucket: int | None) -> InitialState:
    """The carry into a read range that begins with ``bucket``; None: with the log."""
    return InitialState(
        partitions=summary.partitions(),
        before=() if bucket is None else summary.seen(bucket),
        at_end=summary.seen(),
        clock=Clock() if bucket is None else summary.clock(bucket),
        clock_at_end=summary.clock(),
        last_arrival_us=max((row.last_arrival_us for row in summary.rows), default=None),
    )


def fold(rows: Iterable[SummaryRow]) -> tuple[TimelineState, ...]:
    """The greatest of each timeline, in order of partition and timeline."""
    found: dict[tuple[int | None, str], tuple[int | None, int | None]] = {}
    for row in rows:
        time_us, punctuation_us = found.get((row.partition, row.timeline), (None, None))
        found[row.partition, row.timeline] = greater(time_us, row.last_us), greater(punctuation_us, row.punctuation_us)
    order = sorted(found, key=lambda who: (who[0] is not None, who[0] or 0, who[1]))
    return tuple(TimelineState(*who, *found[who]) for who in order)


def greater(one: int | None, other: int | None) -> int | None:
    """The greater of the two, the known one if the other is None."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


_KEY_TYPES = frozenset({"string", "boolean", "tinyint", "smallint", "int", "integer", "bigint", "date"})
"""Types whose values have one text each: the timelines of other keys are not summed up."""


def summary_key_of(job: Job, name: str) -> SummaryKey | None:
    """What the summary of that input depends on; None where its times are expressions, which Spark alone can read."""
    part, ordering = job.input(name), job.ordering(name)
    keys = [part.column(key) for key in part.over]
    if any(key is None or key.type not in _KEY_TYPES for key in keys):
        return None
    over = tuple(key.name for key in keys if key is not None)
    columns = [None if text is None else part.column(text) for text in (part.timestamp_by, part.end_by)]
    for text, column in zip((part.timestamp_by, part.end_by), columns, strict=True):
        if text is not None and (column is None or column.type != "timestamp"):
            return None
    time, end = (None if column is None else column.name for column in columns)
    match ordering:
        case AtlasOrdering():
            # at most some 1440 islands a day, however short the gap: a wider one only links more than need be
            gaps_us = [window.timeout_us for window in windows_of(job) if isinstance(window, Session)]
            return SummaryKey(time, island_us=max(*gaps_us, MINUTE) if gaps_us else None)
        case StreamAnalyticsOrdering():
            if time is None:
                return SummaryKey(time, over=over)
            return SummaryKey(time, over=over, early_us=ordering.early_arrival_us, late_us=ordering.late_arrival_us)
        case StreamInsightOrdering():
            end = end if part.shape == "interval" else None
            by = (ordering.every_events, ordering.every_us, ordering.delay_us)
            return SummaryKey(time, end, (), None, None, True, *by)


def _type(part: Input, column: str) -> str | None:
    found = part.column(column)
    return None if found is None else found.type


def timeline_text(values: Sequence[object]) -> str:
    """The values of ``over`` as JSON, dates in ISO 8601; empty without ``over``."""
    return json.dumps(list(values), ensure_ascii=False, default=str) if values else ""


def timeline_values(part: Input, text: str) -> tuple[object, ...]:
    """The inverse of :func:`timeline_text`."""
    values = json.loads(text) if text else []
    kinds = [_type(part, column) for column in part.over]
    return tuple(
        dt.date.fromisoformat(value) if kind == "date" else value for kind, value in zip(kinds, values, strict=True)
    )
