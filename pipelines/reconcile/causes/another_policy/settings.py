"""Jobs that differ from a job in one setting: what the live run may have run under.

For a tolerance the set of values worth trying is finite: a verdict or a window can only change where the tolerance
passes an event's own lateness, or its distance to a window's bound. Between two such thresholds every value gives the
same, and the roundest stands for all.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from pipelines.core.model import (
    AtlasOrdering,
    Count,
    Fate,
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
_ROUND_US = tuple(
    sorted(
        {
            0,
            *(count * SECOND for count in range(1, 61)),
            *(count * MINUTE for count in range(1, 61)),
            *(count * MINUTE for count in (75, 90, 100, 105, 150, 210)),
            *(count * HOUR for count in range(2, 25)),
            *(count * DAY for count in range(2, 8)),
        }
    )
)
_LIKELY_US = tuple(
    us for us in _ROUND_US if us in {0, *(unit * count for unit in (SECOND, MINUTE, HOUR, DAY) for count in _LIKELY)}
)
_UNITS_US = (DAY, 12 * HOUR, 6 * HOUR, HOUR, 30 * MINUTE, 15 * MINUTE, 5 * MINUTE, MINUTE, 30 * SECOND, 10 * SECOND)
_FINE_US = (5 * SECOND, SECOND, 100_000, 10_000, 1_000, 100, 10, 1)


@dataclass(frozen=True)
class Change:
    """``job`` is the original but for ``settings``: key of the job file -> (value there, value tried)."""

    job: Job
    settings: tuple[tuple[str, str, str], ...]
    distance: float = 0.0
    """How far the values lie from the job file's: of several that explain the same, the nearest is named."""
    number: int | None = None
    """The value of a single tolerance, in microseconds, and the same change with another value (None: no change)."""
    vary: Callable[[int], Change | None] | None = dataclasses.field(default=None, compare=False, repr=False)

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
    for name in _inputs(job):
        for field, value in _round_settings(job.ordering(name)):
            yield from _ordering_change(job, [name], field, value)
    if len(_inputs(job)) > 1:
        for field, value in _round_settings(job.ordering(_inputs(job)[0])):
            yield from _ordering_change(job, _inputs(job), field, value)
    for window in _round_windows(job):
        yield from _window_change(job, window)


def round_pairs(job: Job) -> Iterator[Change]:
    """Every two settings of the ordering at round values, the same for all inputs."""
    names = _inputs(job)
    first = job.ordering(names[0])
    by_field: dict[str, list[object]] = {}
    for field, value in _round_settings(first):
        likely = value in _LIKELY_US or not isinstance(value, int) or not field.endswith("_us")
        if value != getattr(first, field) and likely:
            by_field.setdefault(field, []).append(value)
    fields = sorted(by_field)
    for index, one in enumerate(fields):
        for other in fields[index + 1 :]:
            for left, right in product(by_field[one], by_field[other]):
                for change in _ordering_change(job, names, one, left):
                    for both in _ordering_change(change.job, names, other, right):
                        yield Change(both.job, (*change.settings, *both.settings), change.distance + both.distance)


def threshold_changes(job: Job, fates: Sequence[Fate], bounds_us: Sequence[int]) -> Iterator[Change]:
    """One tolerance at a time, at the values where these events' verdicts or windows (``bounds_us``) can change."""
    for name in _inputs(job):
        ordering = job.ordering(name)
        mine = [fate for fate in fates if fate.input == name and fate.event_time_us is not None]
        for field, thresholds_us in _thresholds(ordering, mine, bounds_us):
            for value_us in _representatives(thresholds_us):
                yield from _ordering_change(job, [name], field, value_us)


def window_changes(job: Job, spans_us: Sequence[tuple[int, int]]) -> Iterator[Change]:
    """The window's size and grid as the live rows' starts and ends (``spans_us``) show them."""
    window = job.query.window
    if not spans_us:
        return
    if isinstance(window, Grid):
        (size_us, _), *_ = Counter(end - start for start, end in spans_us).most_common(1)
        if size_us <= 0:
            return
        anchors = sorted({end if job.profile == "stream_analytics" else start for start, end in spans_us})
        steps = [later - earlier for earlier, later in pairwise(anchors)]
        hops_us = dict.fromkeys([size_us, window.hop_us, *([math.gcd(*steps)] if steps else [])])
        for hop_us in hops_us:
            if hop_us > 0:
                offset_us = (anchors[0] - window.align_us) % hop_us
                if (offset_us - window.offset_us) % hop_us == 0:
                    offset_us = window.offset_us
                yield from _window_change(job, Grid(size_us, hop_us, offset_us, window.align_us))
    elif isinstance(window, Sliding):
        (size_us, _), *_ = Counter(end - start for start, end in spans_us).most_common(1)
        yield from _window_change(job, Sliding(size_us))


def _written(value: object, field: str) -> str:
    """A setting's value as a job file writes it."""
    if value is None:
        return {"early_arrival_us": "off", "late_arrival_us": "unbounded"}.get(field, "none")
    if field.endswith("_us") and isinstance(value, int):
        return format_duration(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inputs(job: Job) -> list[str]:
    join = job.query.join
    return [join.left, join.right] if join is not None else list(job.query.sources)


def _round_settings(ordering: Ordering) -> list[tuple[str, object]]:
    """(field, value): every setting at every value that someone is likely to write."""
    found: list[tuple[str, object]] = []
    match ordering:
        case StreamAnalyticsOrdering():
            found += [("late_arrival_us", None), ("early_arrival_us", None)]
            for field in ("late_arrival_us", "out_of_order_us", "early_arrival_us"):
                found += [(field, value_us) for value_us in _ROUND_US]
            found += [("action", "adjust"), ("action", "drop")]
        case AtlasOrdering():
            found += [("allowed_lateness_us", value_us) for value_us in _ROUND_US]
            found += [("boundary", "event_time"), ("boundary", "processing_time")]
        case StreamInsightOrdering():
            found += [("delay_us", sign * value_us) for value_us in (*_ROUND_US, 1) for sign in (1, -1)]
            if ordering.every_events is not None:
                found += [("every_events", count) for count in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 100, 1000)]
            if ordering.every_us is not None:
                found += [("every_us", value_us) for value_us in _ROUND_US if value_us]
            found += [("action", "adjust"), ("action", "drop")]
    return found


def _round_windows(job: Job) -> Iterator[Window]:
    window = job.query.window
    if isinstance(window, Session):
        for value_us in _ROUND_US[1:]:
            yield dataclasses.replace(window, timeout_us=value_us)
        if window.max_duration_us is not None:
            for value_us in _ROUND_US[1:]:
                yield dataclasses.replace(window, max_duration_us=value_us)
    if isinstance(window, Count):
        for number in range(1, 11):
            yield Count(number)


def _ordering_change(job: Job, names: Sequence[str], field: str, value: object) -> Iterator[Change]:
    before = {_written(getattr(job.ordering(name), field), field) for name in names}
    changed: dict[str, Any] = {field: value}
    orderings = tuple(
        (name, dataclasses.replace(ordering, **changed) if name in names else ordering)
        for name, ordering in job.orderings
    )
    if orderings != job.orderings:
        one_of_several = len(_inputs(job)) > 1 and len(names) == 1
        key = f"ordering.{names[0]}." if one_of_several else "ordering."
        tried = _written(value, field)
        settings = ((key + field.removesuffix("_us"), " and ".join(sorted(before)), tried),)
        away = max(_distance(getattr(job.ordering(name), field), value) for name in names)
        tolerance = value if field.endswith("_us") and isinstance(value, int) else None

        def vary(number: int) -> Change | None:
            return next(_ordering_change(job, names, field, number), None)

        yield Change(dataclasses.replace(job, orderings=orderings), settings, away, tolerance, vary)


def _distance(before: object, tried: object) -> float:
    """How far two values of a setting lie apart; by their ratio, so that 5s is as far from 10s as 10m from 20m."""
    if isinstance(before, int) and isinstance(tried, int):
        return abs(math.log((abs(tried) + SECOND) / (abs(before) + SECOND))) + ((before < 0) != (tried < 0))
    return 1.0 if isinstance(before, str) else 10.0


def _window_change(job: Job, window: Window) -> Iterator[Change]:
    if window != job.query.window:
        before, tried = _window_parts(job.query.window), _window_parts(window)
        settings = tuple(
            (f"query.window.{key}", before[key], value) for key, value in tried.items() if before.get(key) != value
        )
        yield Change(dataclasses.replace(job, query=dataclasses.replace(job.query, window=window)), settings)


def _window_parts(window: Window) -> Mapping[str, str]:
    match window:
        case Grid():
            return {
                "size": format_duration(window.size_us),
                "hop": format_duration(window.hop_us),
                "offset": format_duration(window.offset_us),
            }
        case Sliding():
            return {"size": format_duration(window.size_us)}
        case Session():
            longest = "none" if window.max_duration_us is None else format_duration(window.max_duration_us)
            return {"timeout": format_duration(window.timeout_us), "max_duration": longest}
        case Count():
            return {"n": str(window.n)}
    return {}


def _thresholds(
    ordering: Ordering, fates: Sequence[Fate], bounds_us: Sequence[int]
) -> Iterator[tuple[str, Iterable[int]]]:
    """For each tolerance the values at which something changes for these events."""
    late: set[int] = set()
    disorder: set[int] = set()
    early: set[int] = set()
    latest: dict[int, int] = {}
    for fate in fates:
        assert fate.event_time_us is not None
        arrival_us, time_us = fate.arrival_time_us, fate.event_time_us
        early.add(time_us - arrival_us)
        late.add(arrival_us - time_us)
        # a late event is moved to its arrival minus the tolerance: it passes a bound that lies after its own time
        late.update(arrival_us - bound_us for bound_us in bounds_us if bound_us > time_us)
        before_us = latest.get(fate.input_partition)
        if before_us is not None:
            disorder.add(before_us - time_us)
            disorder.update(before_us - bound_us for bound_us in bounds_us if bound_us > time_us)
        latest[fate.input_partition] = max(time_us, before_us) if before_us is not None else time_us
    match ordering:
        case StreamAnalyticsOrdering():
            yield "late_arrival_us", late
            yield "out_of_order_us", disorder
            yield "early_arrival_us", early
        case AtlasOrdering():
            yield "allowed_lateness_us", disorder
        case StreamInsightOrdering():
            yield "delay_us", disorder
            if ordering.every_us is not None:
                yield "every_us", disorder


def _representatives(thresholds_us: Iterable[int]) -> Iterator[int]:
    """Each threshold itself, and the roundest value between it and the next."""
    points = sorted({0, *(one for one in thresholds_us if one > 0)})
    for point, following in zip(points, [*points[1:], None], strict=True):
        yield point
        roundest_us = roundest(point + 1, point + 30 * DAY if following is None else following - 1)
        if roundest_us is not None:
            yield roundest_us


def roundest(low_us: int, high_us: int) -> int | None:
    """The roundest duration in ``[low_us, high_us]``, None where that is empty."""
    if low_us > high_us:
        return None
    for unit_us in (*_UNITS_US, *_FINE_US):
        value_us = -(-low_us // unit_us) * unit_us
        if value_us <= high_us:
            return value_us
    return low_us
