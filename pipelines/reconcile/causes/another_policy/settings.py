"""Jobs that differ from a job in one setting or two: what the live run may have run under.

For a tolerance the set of values worth trying is finite: a verdict or a window can only change where the tolerance
passes an event's own lateness, or its distance to a window's bound. Between two such thresholds every value gives the
same, and the roundest stands for all.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Any

from pipelines.core.model import (
    AtlasOrdering,
    Count,
    Decision,
    Grid,
    Job,
    Ordering,
    Session,
    Sliding,
    StreamAnalyticsOrdering,
    StreamInsightOrdering,
    Window,
)
from pipelines.core.time import DAY, HOUR, MINUTE, SECOND, format_duration

_LIKELY = (1, 2, 3, 5, 10, 15, 20, 30)
_LIKELY_US = {0, *(unit * count for unit in (SECOND, MINUTE, HOUR, DAY) for count in _LIKELY)}
_ROUND_US = sorted(
    {
        0,
        *(count * unit for unit in (SECOND, MINUTE) for count in range(1, 61)),
        *(count * MINUTE for count in (75, 90, 100, 105, 150, 210)),
        *(count * HOUR for count in range(2, 25)),
        *(count * DAY for count in range(2, 8)),
    }
)
_UNITS_US = (
    *(DAY, 12 * HOUR, 6 * HOUR, HOUR, 30 * MINUTE, 15 * MINUTE, 5 * MINUTE, MINUTE),
    *(30 * SECOND, 10 * SECOND, 5 * SECOND, SECOND, 100_000, 10_000, 1_000, 100, 10, 1),
)
"""Of two durations the one that is a multiple of an earlier unit is rounder."""

_ACTIONS = ("adjust", "drop")
_ROUND_VALUES: dict[type[Ordering], dict[str, Sequence[object]]] = {
    StreamAnalyticsOrdering: {
        "late_arrival_us": [None, *_ROUND_US],
        "out_of_order_us": _ROUND_US,
        "early_arrival_us": [None, *_ROUND_US],
        "action": _ACTIONS,
    },
    AtlasOrdering: {"allowed_lateness_us": _ROUND_US, "boundary": ("event_time", "processing_time")},
    StreamInsightOrdering: {
        "delay_us": [sign * us for us in (*_ROUND_US, 1) for sign in (1, -1)],
        "every_events": (*range(1, 11), 20, 50, 100, 1000),
        "every_us": _ROUND_US[1:],
        "action": _ACTIONS,
    },
}
"""The settings of each ordering, at every value that someone is likely to write."""
_ALTERNATIVES = ("every_events", "every_us")
"""Settings of which an ordering has one or none."""

Setting = tuple[str, object]
"""A field of an ordering, and a value."""


@dataclass(frozen=True)
class Change:
    """``job`` is the original but for ``settings``: key of the job file -> (value there, value tried).

    ``distance``: how far the values are from the job file's. Of a change of one setting of the ordering, ``inputs``
    are those that have it, ``field`` is its name and ``number`` the value of a tolerance, in microseconds.
    """

    job: Job
    settings: tuple[tuple[str, str, str], ...]
    distance: float = 0.0
    inputs: tuple[str, ...] = ()
    field: str = ""
    number: int | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Which settings it changes."""
        return tuple(key for key, _, _ in self.settings)

    @property
    def description(self) -> str:
        """``ordering.late_arrival: 10m instead of 20m``"""
        return ", ".join(f"{key}: {tried} instead of {before}" for key, before, tried in self.settings)

    @property
    def rank(self) -> tuple[object, ...]:
        """Lower is likelier: few settings, near values, short to write."""
        return len(self.settings), self.distance, sum(len(tried) for _, _, tried in self.settings)


def round_changes(job: Job) -> Iterator[Change]:
    """Every setting at every round value, one setting at a time."""
    inputs = job.window_query.inputs
    for names in [*((name,) for name in inputs), *([inputs] if len(inputs) > 1 else [])]:
        for setting in _round_settings(job.ordering(names[0])):
            yield from with_setting(job, names, setting)
    for window in _round_windows(job.window_query.window):
        yield from _with_window(job, window)


def round_pairs(job: Job) -> Iterator[Change]:
    """Every two settings of the ordering at likely values, the same for all inputs."""
    names = job.window_query.inputs
    by_field: dict[str, list[Setting]] = {}
    for field, value in _round_settings(job.ordering(names[0])):
        if value in _LIKELY_US or not isinstance(value, int) or not field.endswith("_us"):
            by_field.setdefault(field, []).append((field, value))
    for one, other in combinations(sorted(by_field), 2):
        for left, right in product(by_field[one], by_field[other]):
            for change in with_setting(job, names, left):
                for both in with_setting(change.job, names, right):
                    yield Change(both.job, change.settings + both.settings, change.distance + both.distance)


def threshold_changes(job: Job, decisions: Sequence[Decision], bounds_us: Sequence[int]) -> Iterator[Change]:
    """One tolerance at a time, at the values where these events' verdicts or windows (``bounds_us``) can change."""
    for name in job.window_query.inputs:
        mine = [decision for decision in decisions if decision.input == name and decision.event_time_us is not None]
        for field, thresholds_us in _thresholds(job.ordering(name), mine, bounds_us):
            for value_us in _representatives(thresholds_us):
                yield from with_setting(job, (name,), (field, value_us))


def window_changes(job: Job, spans_us: Sequence[tuple[int, int]]) -> Iterator[Change]:
    """The window's size and grid as the live rows' starts and ends (``spans_us``) show them."""
    window = job.window_query.window
    if not spans_us or not isinstance(window, (Grid, Sliding)):
        return
    (size_us, _), *_ = Counter(end - start for start, end in sorted(spans_us)).most_common(1)
    if isinstance(window, Sliding):
        yield from _with_window(job, Sliding(size_us))
        return
    anchors = sorted({end if job.profile == "stream_analytics" else start for start, end in spans_us})
    steps = [later - earlier for earlier, later in pairwise(anchors)]
    for hop_us in dict.fromkeys([size_us, window.hop_us, *([math.gcd(*steps)] if steps else [])]):
        if size_us > 0 and hop_us > 0:
            offset_us = (anchors[0] - window.align_us) % hop_us
            if (offset_us - window.offset_us) % hop_us == 0:
                offset_us = window.offset_us
            yield from _with_window(job, Grid(size_us, hop_us, offset_us, window.align_us))


def with_setting(job: Job, names: Sequence[str], setting: Setting) -> Iterator[Change]:
    """The job with a setting changed for these inputs; nothing if that changes nothing."""
    field, value = setting
    before = [getattr(job.ordering(name), field) for name in names]
    changed: dict[str, Any] = {field: value}
    orderings = tuple(
        (name, dataclasses.replace(ordering, **changed) if name in names else ordering)
        for name, ordering in job.orderings
    )
    if orderings == job.orderings:
        return
    owner = f"{names[0]}." if len(names) < len(job.window_query.inputs) else ""
    written = " and ".join(sorted({_written(one, field) for one in before}))
    yield Change(
        dataclasses.replace(job, orderings=orderings),
        ((f"ordering.{owner}{field.removesuffix('_us')}", written, _written(value, field)),),
        max(_distance(one, value) for one in before),
        tuple(names),
        field,
        value if field.endswith("_us") and isinstance(value, int) else None,
    )


def roundest(low_us: int, high_us: int) -> int | None:
    """The roundest duration in ``[low_us, high_us]``, None where that is empty."""
    multiples = (-(-low_us // unit_us) * unit_us for unit_us in _UNITS_US)
    return next((value_us for value_us in multiples if value_us <= high_us), None)


def _round_settings(ordering: Ordering) -> Iterator[Setting]:
    for field, values in _ROUND_VALUES[type(ordering)].items():
        if field not in _ALTERNATIVES or getattr(ordering, field) is not None:
            yield from ((field, value) for value in values)


def _round_windows(window: Window) -> Iterator[Window]:
    if isinstance(window, Session):
        for value_us in _ROUND_US[1:]:
            yield dataclasses.replace(window, timeout_us=value_us)
        for value_us in _ROUND_US[1:] if window.max_duration_us is not None else []:
            yield dataclasses.replace(window, max_duration_us=value_us)
    if isinstance(window, Count):
        yield from map(Count, range(1, 11))


def _with_window(job: Job, window: Window) -> Iterator[Change]:
    """The job with a window of the same kind; nothing if it is the same."""
    before = job.window_query.window
    settings = tuple(
        (f"query.window.{name.removesuffix('_us')}", _written(getattr(before, name), name), _written(tried, name))
        for name in (field.name for field in dataclasses.fields(window))
        if getattr(before, name) != (tried := getattr(window, name))
    )
    if settings:
        yield Change(dataclasses.replace(job, query=dataclasses.replace(job.window_query, window=window)), settings)


def _written(value: object, field: str) -> str:
    """A setting's value as a job file writes it."""
    if value is None:
        return {"early_arrival_us": "off", "late_arrival_us": "unbounded"}.get(field, "none")
    return format_duration(value) if field.endswith("_us") and isinstance(value, int) else str(value)


def _distance(before: object, tried: object) -> float:
    """How far two values of a setting are apart; by their ratio, so that 5s is as far from 10s as 10m from 20m."""
    if isinstance(before, int) and isinstance(tried, int):
        return abs(math.log((abs(tried) + SECOND) / (abs(before) + SECOND))) + ((before < 0) != (tried < 0))
    return 1.0 if isinstance(before, str) else 10.0


def _thresholds(
    ordering: Ordering, decisions: Sequence[Decision], bounds_us: Sequence[int]
) -> Iterator[tuple[str, Iterable[int]]]:
    """For each tolerance the values at which something changes for these events."""
    late: set[int] = set()
    disorder: set[int] = set()
    early: set[int] = set()
    latest: dict[int, int] = {}
    for decision in decisions:
        assert decision.event_time_us is not None
        arrival_us, time_us = decision.arrival_time_us, decision.event_time_us
        early.add(time_us - arrival_us)
        # a late event is moved to its arrival minus the tolerance: it passes a bound after its own time
        passed_us = [time_us, *(bound_us for bound_us in bounds_us if bound_us > time_us)]
        late.update(arrival_us - us for us in passed_us)
        before_us = latest.get(decision.input_partition)
        if before_us is not None:
            disorder.update(before_us - us for us in passed_us)
        latest[decision.input_partition] = time_us if before_us is None else max(time_us, before_us)
    found = {"late_arrival_us": late, "early_arrival_us": early}
    for field in _ROUND_VALUES[type(ordering)]:
        if field.endswith("_us") and (field not in _ALTERNATIVES or getattr(ordering, field) is not None):
            yield field, found.get(field, disorder)


def _representatives(thresholds_us: Iterable[int]) -> Iterator[int]:
    """Each threshold itself, and the roundest value between it and the next."""
    points = sorted({0, *(one for one in thresholds_us if one > 0)})
    for point, following in zip(points, [*points[1:], points[-1] + 30 * DAY + 1], strict=True):
        yield point
        roundest_us = roundest(point + 1, following - 1)
        if roundest_us is not None:
            yield roundest_us
