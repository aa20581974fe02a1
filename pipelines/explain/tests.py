"""The tests that a policy made on one event, with its numbers, and which event or punctuation set the watermark.

The verdict itself is the reference engine's; here its reasons are given in sentences and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.core.model import (
    Arrival,
    AtlasOrdering,
    Decision,
    Input,
    Job,
    StreamAnalyticsOrdering,
    StreamInsightOrdering,
)
from pipelines.core.time import format_duration, format_instant
from pipelines.core.values import grouping_key
from pipelines.recompute.naming import event_description
from pipelines.reference.events import place_of

DecisionOf = Callable[[Arrival], "Decision | None"]


@dataclass(frozen=True)
class Test:
    """One comparison that the policy made: ``hit`` when it moved or refused the event."""

    name: str
    hit: bool
    sentence: str

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {"test": self.name, "hit": self.hit, "says": self.sentence}


@dataclass(frozen=True)
class Reasons:
    """The tests in the order in which they were made, and where the watermark in force came from: ``set_by`` where an
    arrival that was read set it."""

    tests: tuple[Test, ...]
    set_by: Arrival | None = None
    watermark_sentence: str = "There was no watermark yet."


def reasons(job: Job, one: Arrival, decision: Decision, read: Sequence[Arrival], decision_of: DecisionOf) -> Reasons:
    """Why ``one`` has its ``decision``; ``read`` are the arrivals that it was recomputed from, in any order."""
    before = sorted((other for other in read if place_of(other) < place_of(one)), key=place_of)
    if "invalid_time" in decision.reasons:
        return Reasons((Test("valid_time", True, "Its time cannot be read, or is impossible: dropped."),))
    if "invalid_key" in decision.reasons:
        return Reasons((Test("valid_key", True, "A column of 'over' is null: it belongs to no substream."),))
    ordering = job.ordering(one.input)
    match ordering:
        case StreamAnalyticsOrdering():
            return _stream_analytics(job, ordering, one, decision, before, decision_of)
        case AtlasOrdering():
            return _atlas(ordering, one, decision, before, decision_of)
        case StreamInsightOrdering():
            return _stream_insight(ordering, decision, before, decision_of)


def _stream_analytics(
    job: Job,
    ordering: StreamAnalyticsOrdering,
    one: Arrival,
    decision: Decision,
    before: Sequence[Arrival],
    decision_of: DecisionOf,
) -> Reasons:
    time_us = decision.event_time_us
    assert time_us is not None
    part = job.input(one.input)
    if part.timestamp_by is None:
        return Reasons((), watermark_sentence="The input has no timestamp_by: events count when they arrive.")

    early_us, late_us, disorder_us = ordering.early_arrival_us, ordering.late_arrival_us, ordering.out_of_order_us
    least_us = None if late_us is None else one.arrival_time_us - late_us
    set_by, sentence = None, "It is the first event of its timeline: there was no watermark yet."
    if decision.watermark_us is not None:
        at, disorder = format_instant(decision.watermark_us), format_duration(disorder_us)
        latest_us = decision.watermark_us + disorder_us
        if late_us is not None and latest_us == least_us:
            late = format_duration(late_us)
            what = f"its own arrival minus {late} minus {disorder}; no earlier event brought it further"
        else:
            set_by = next(
                (other for other in before if _seen_us(part, ordering, one, other, decision_of) == latest_us), None
            )
            who = "an arrival before those read" if set_by is None else event_description(set_by)
            what = f"{who} had brought the timeline to {format_instant(latest_us)}, minus {disorder}"
        sentence = f"The watermark was {at}: {what}."
    tests = []
    arrival = format_instant(one.arrival_time_us)
    if early_us is not None:
        bound_us = one.arrival_time_us + early_us
        tests.append(_test("early", time_us, ">", bound_us, f"its arrival {arrival} plus {format_duration(early_us)}"))
        if tests[-1].hit:
            return Reasons(tuple(tests), set_by, sentence)
    counts_us = time_us
    if least_us is not None and late_us is not None:
        tests.append(_test("late", time_us, "<", least_us, f"its arrival {arrival} minus {format_duration(late_us)}"))
        counts_us = max(time_us, least_us)
    if decision.watermark_us is not None:
        tests.append(_test("out_of_order", counts_us, "<", decision.watermark_us, "the watermark"))
    return Reasons(tuple(tests), set_by, sentence)


def _seen_us(
    part: Input, ordering: StreamAnalyticsOrdering, one: Arrival, other: Arrival, decision_of: DecisionOf
) -> int | None:
    """What the timeline of ``one`` saw of another arrival (S5); None if nothing."""

    def timeline(arrival: Arrival) -> tuple[object, ...]:
        return (arrival.input_partition, *(grouping_key(arrival.payload[column]) for column in part.over))

    decision = decision_of(other) if other.input == one.input and timeline(other) == timeline(one) else None
    if decision is None or decision.event_time_us is None or {"early", "invalid_key"} & set(decision.reasons):
        return None
    late_us = ordering.late_arrival_us
    return decision.event_time_us if late_us is None else max(decision.event_time_us, other.arrival_time_us - late_us)


def _atlas(
    ordering: AtlasOrdering, one: Arrival, decision: Decision, before: Sequence[Arrival], decision_of: DecisionOf
) -> Reasons:
    sentence = "There was no watermark yet: a partition of the input has not been heard."
    set_by = None
    if decision.watermark_us is not None:
        sentence = f"The watermark was {format_instant(decision.watermark_us)}, the least over the input's partitions."
        set_by = _set_by(one, decision.watermark_us, before, decision_of)
    if set_by is not None:
        kind = "the punctuation" if set_by.punctuation_us is not None else "event"
        sentence = f"{sentence[:-1]}: {kind} {event_description(set_by)} had brought its own there."
    tests = []
    if ordering.boundary == "processing_time":
        sentence += " Windows go by the clock here: it counts when it arrives."
    elif "late" in decision.reasons:
        starts = ", ".join(format_instant(us) for us in decision.missed_windows_us)
        lateness = format_duration(ordering.allowed_lateness_us)
        what = f"the window(s) from {starts}" if starts else "every session that it fits"
        tests.append(Test("late", True, f"With an allowed lateness of {lateness}, {what} had closed when it came."))
    else:
        tests.append(Test("late", False, "Every window that holds its time was still open when it came."))
    return Reasons(tuple(tests), set_by, sentence)


def _set_by(one: Arrival, watermark_us: int, before: Sequence[Arrival], decision_of: DecisionOf) -> Arrival | None:
    """The first arrival that brought its partition to the watermark, of a partition that was no further (A3)."""
    times_us: list[tuple[int, Arrival]] = []
    for other in before:
        decision = decision_of(other)
        time_us = other.punctuation_us if decision is None else decision.event_time_us
        if other.input == one.input and time_us is not None:
            times_us.append((time_us, other))
    further = {other.input_partition for time_us, other in times_us if time_us > watermark_us}
    found = (other for time_us, other in times_us if time_us == watermark_us)
    return next((other for other in found if other.input_partition not in further), None)


def _stream_insight(
    ordering: StreamInsightOrdering, decision: Decision, before: Sequence[Arrival], decision_of: DecisionOf
) -> Reasons:
    cti_us = decision.watermark_us
    if cti_us is None:
        return Reasons((), watermark_sentence="There was no CTI yet: nothing could violate one.")
    set_by = next((other for other in before if _issued(ordering, other, decision_of, cti_us)), None)
    sentence = f"The current CTI was {format_instant(cti_us)}"
    if set_by is not None and set_by.punctuation_us is not None:
        sentence += f", enqueued as {event_description(set_by)}."
    elif set_by is not None:
        delay = format_duration(ordering.delay_us)
        sentence += f", the start of {event_description(set_by)} minus the delay of {delay}."
    elif ordering.import_from is not None:
        sentence += ", imported from another input."
    else:
        sentence += ", issued by an arrival before those read."
    end_edge = decision.reasons == ("orphan_end",)
    time_us = decision.system_timestamp_us if decision.event_time_us is None else decision.event_time_us
    tests = []
    if time_us is not None and not end_edge:
        hit = "before_current_time" in decision.reasons
        if hit == (time_us < cti_us):
            tests.append(_test("before_current_time", time_us, "<", cti_us, "the current CTI"))
        else:
            tests.append(Test("before_current_time", hit, f"Its end was judged against {format_instant(cti_us)}."))
    if "orphan_end" in decision.reasons:
        tests.append(Test("orphan_end", True, "No open start edge matches this end edge."))
    if "cancelled" in decision.reasons:
        tests.append(Test("cancelled", True, "Its end equals its start: both edges cancel each other."))
    return Reasons(tuple(tests), set_by, sentence)


def _issued(ordering: StreamInsightOrdering, other: Arrival, decision_of: DecisionOf, cti_us: int) -> bool:
    if other.punctuation_us is not None:
        return other.punctuation_us == cti_us
    decision = decision_of(other)
    time_us = None if decision is None else decision.event_time_us
    return time_us is not None and time_us - ordering.delay_us == cti_us


def _test(name: str, left_us: int, sign: str, right_us: int, what: str) -> Test:
    hit = left_us > right_us if sign == ">" else left_us < right_us
    relation = sign if hit else {"<": ">=", ">": "<="}[sign]
    left, right, result = format_instant(left_us), format_instant(right_us), "yes" if hit else "no"
    return Test(name, hit, f"Is it {name.replace('_', ' ')}? {left} {relation} {right} ({what}): {result}.")
