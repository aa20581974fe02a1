"""The tests that a policy made on one event, with its numbers, and which event or punctuation set the watermark.

The verdict itself is the reference engine's; here it is only put into words and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.core.model import (
    Arrival,
    AtlasOrdering,
    Fate,
    Job,
    StreamAnalyticsOrdering,
    StreamInsightOrdering,
)
from pipelines.core.time import format_duration, format_instant
from pipelines.core.values import grouping_key
from pipelines.recompute.naming import event_words
from pipelines.reference.events import place_of

FateOf = Callable[[Arrival], "Fate | None"]


@dataclass(frozen=True)
class Test:
    """One comparison that the policy made: ``hit`` when it moved or refused the event."""

    name: str
    hit: bool
    says: str

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {"test": self.name, "hit": self.hit, "says": self.says}


@dataclass(frozen=True)
class Reasons:
    """The tests in the order in which they were made, and where the watermark in force came from."""

    tests: tuple[Test, ...]
    watermark_us: int | None
    set_by: Arrival | None = None
    watermark_says: str = "There was no watermark yet."
    more: Mapping[str, object] = field(default_factory=dict)


def reasons(job: Job, one: Arrival, fate: Fate, earlier: Sequence[Arrival], fate_of: FateOf) -> Reasons:
    """Why ``one`` has its ``fate``; ``earlier`` are the arrivals before it, in any order, as far as they matter."""
    before = sorted((other for other in earlier if place_of(other) < place_of(one)), key=place_of)
    if "invalid_time" in fate.reasons:
        return Reasons((Test("valid_time", True, "Its time cannot be read, or says nothing possible: dropped."),), None)
    if "invalid_key" in fate.reasons:
        return Reasons((Test("valid_key", True, "A column of 'over' is null: it belongs to no substream."),), None)
    ordering = job.ordering(one.input)
    match ordering:
        case StreamAnalyticsOrdering():
            return _stream_analytics(job, ordering, one, fate, before, fate_of)
        case AtlasOrdering():
            return _atlas(job, ordering, one, fate, before, fate_of)
        case StreamInsightOrdering():
            return _stream_insight(ordering, fate, before, fate_of)


def _stream_analytics(
    job: Job, ordering: StreamAnalyticsOrdering, one: Arrival, fate: Fate, before: Sequence[Arrival], fate_of: FateOf
) -> Reasons:
    time_us = fate.event_time_us
    assert time_us is not None
    part = job.input(one.input)
    if part.timestamp_by is None:
        return Reasons((), None, watermark_says="The input has no timestamp_by: events count when they arrive.")

    def timeline(other: Arrival) -> tuple[object, ...]:
        return (other.input_partition, *(grouping_key(other.payload[column]) for column in part.over))

    early_us, late_us, disorder_us = ordering.early_arrival_us, ordering.late_arrival_us, ordering.out_of_order_us
    latest: tuple[int, Arrival] | None = None
    for other in before:
        known = fate_of(other) if other.input == one.input and timeline(other) == timeline(one) else None
        if known is None or known.event_time_us is None or {"early", "invalid_key"} & set(known.reasons):
            continue
        seen_us = known.event_time_us
        if late_us is not None:
            seen_us = max(seen_us, other.arrival_time_us - late_us)
        if latest is None or seen_us > latest[0]:
            latest = seen_us, other
    tests = []
    arrival = format_instant(one.arrival_time_us)
    if early_us is not None:
        bound_us = one.arrival_time_us + early_us
        tests.append(_test("early", time_us, ">", bound_us, f"its arrival {arrival} plus {format_duration(early_us)}"))
        if tests[-1].hit:
            return Reasons(tuple(tests), fate.watermark_us, *_greatest(ordering, one, latest, fate))
    counts_us = time_us
    if late_us is not None:
        bound_us = one.arrival_time_us - late_us
        tests.append(_test("late", time_us, "<", bound_us, f"its arrival {arrival} minus {format_duration(late_us)}"))
        counts_us = max(time_us, bound_us)
    if latest is not None:
        bound_us = latest[0] - disorder_us
        what = f"the greatest time before it, {format_instant(latest[0])}, minus {format_duration(disorder_us)}"
        tests.append(_test("out_of_order", counts_us, "<", bound_us, what))
    return Reasons(tuple(tests), fate.watermark_us, *_greatest(ordering, one, latest, fate))


def _greatest(
    ordering: StreamAnalyticsOrdering, one: Arrival, latest: tuple[int, Arrival] | None, fate: Fate
) -> tuple[Arrival | None, str]:
    if fate.watermark_us is None:
        return None, "It is the first event of its timeline: there was no watermark yet."
    at, disorder = format_instant(fate.watermark_us), format_duration(ordering.out_of_order_us)
    late_us = ordering.late_arrival_us
    if latest is None or (late_us is not None and latest[0] < one.arrival_time_us - late_us):
        late = format_duration(late_us or 0)
        return (
            None,
            f"The watermark was {at}: its own arrival minus {late} minus {disorder}; no earlier event says more.",
        )
    return latest[1], (
        f"The watermark was {at}: {event_words(latest[1])} had brought the timeline to {format_instant(latest[0])},"
        f" minus {disorder}."
    )


def _atlas(
    job: Job, ordering: AtlasOrdering, one: Arrival, fate: Fate, before: Sequence[Arrival], fate_of: FateOf
) -> Reasons:
    setters = _partition_setters(job, one, before, fate_of)
    says = "There was no watermark yet: a partition of the input has not been heard."
    set_by = None
    if fate.watermark_us is not None:
        known = [found for found in setters.values() if found[0] == fate.watermark_us]
        says = f"The watermark was {format_instant(fate.watermark_us)}."
        if known:
            set_by = known[0][1]
            kind = "the punctuation" if set_by.punctuation_us is not None else "event"
            says = (
                f"The watermark was {format_instant(fate.watermark_us)}, the least over {len(setters)} partition(s):"
                f" {kind} {event_words(set_by)} had brought its own there."
            )
    tests = []
    if ordering.boundary == "processing_time":
        says += " Windows go by the clock here: it counts when it arrives."
    elif "late" in fate.reasons:
        starts = ", ".join(format_instant(us) for us in fate.missed_windows_us)
        lateness = format_duration(ordering.allowed_lateness_us)
        what = f"the window(s) from {starts}" if starts else "every session that it fits"
        tests.append(Test("late", True, f"With an allowed lateness of {lateness}, {what} had closed when it came."))
    else:
        tests.append(Test("late", False, "Every window that holds its time was still open when it came."))
    return Reasons(tuple(tests), fate.watermark_us, set_by, says)


def _partition_setters(
    job: Job, one: Arrival, before: Sequence[Arrival], fate_of: FateOf
) -> dict[int, tuple[int, Arrival]]:
    """By partition the greatest time it had seen, and who brought it."""
    declared = job.input(one.input).partitions
    heard = {other.input_partition for other in before if other.input_partition is not None}
    partitions = range(declared) if declared is not None else sorted(one for one in heard if one is not None)
    found: dict[int, tuple[int, Arrival]] = {}
    for other in before:
        if other.input != one.input:
            continue
        fate = None if other.punctuation_us is not None else fate_of(other)
        time_us = other.punctuation_us if fate is None else fate.event_time_us
        if time_us is None:
            continue
        for partition in partitions if other.input_partition is None else [other.input_partition]:
            if partition not in found or time_us > found[partition][0]:
                found[partition] = time_us, other
    return found


def _stream_insight(ordering: StreamInsightOrdering, fate: Fate, before: Sequence[Arrival], fate_of: FateOf) -> Reasons:
    cti_us = fate.watermark_us
    if cti_us is None:
        return Reasons((), None, watermark_says="There was no CTI yet: nothing could violate one.")
    set_by = next((other for other in before if _issued(ordering, other, fate_of, cti_us)), None)
    says = f"The current CTI was {format_instant(cti_us)}"
    if set_by is not None and set_by.punctuation_us is not None:
        says += f", enqueued as {event_words(set_by)}."
    elif set_by is not None:
        says += f", the start of {event_words(set_by)} minus the delay of {format_duration(ordering.delay_us)}."
    else:
        says += ", imported from another input."
    end_edge = fate.reasons == ("orphan_end",)
    time_us = fate.system_timestamp_us if fate.event_time_us is None else fate.event_time_us
    tests = []
    if time_us is not None and not end_edge:
        hit = "before_current_time" in fate.reasons
        if hit == (time_us < cti_us):
            tests.append(_test("before_current_time", time_us, "<", cti_us, "the current CTI"))
        else:
            tests.append(Test("before_current_time", hit, f"Its end was judged against {format_instant(cti_us)}."))
    if "orphan_end" in fate.reasons:
        tests.append(Test("orphan_end", True, "No open start edge matches this end edge."))
    if "cancelled" in fate.reasons:
        tests.append(Test("cancelled", True, "Its end equals its start: both edges cancel each other."))
    return Reasons(tuple(tests), cti_us, set_by, says)


def _issued(ordering: StreamInsightOrdering, other: Arrival, fate_of: FateOf, cti_us: int) -> bool:
    if other.punctuation_us is not None:
        return other.punctuation_us == cti_us
    fate = fate_of(other)
    return fate is not None and fate.event_time_us is not None and fate.event_time_us - ordering.delay_us == cti_us


def _test(name: str, left_us: int, sign: str, right_us: int, what: str) -> Test:
    hit = left_us > right_us if sign == ">" else left_us < right_us
    relation = sign if hit else {"<": ">=", ">": "<="}[sign]
    words, result = name.replace("_", " "), "yes" if hit else "no"
    left, right = format_instant(left_us), format_instant(right_us)
    return Test(name, hit, f"Is it {words}? {left} {relation} {right} ({what}): {result}.")
