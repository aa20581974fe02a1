"""What a range reads once the log is summed up, and what one arrival or one microsecond more or less would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pipelines.core.model import Arrival, Job, OutputRange
from pipelines.core.time import HOUR, MINUTE, SECOND, parse_instant
from pipelines.job.load import parse_job
from pipelines.plan.bounded_reads import BoundedReads, bounded_reads, why_whole_log
from pipelines.plan.initial_state import InitialStates, initial_state_of
from pipelines.reference.engine import Outcome, run
from pipelines.transcripts.listed_history import ListedHistory

NOON = parse_instant("2026-01-01T12:00:00Z")
RANGE = OutputRange(NOON, NOON + HOUR)
END = RANGE.to_us or 0


def job(profile: str, window: str, ordering: str, more: str = "", columns: str = "at TIMESTAMP") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: example
profile: {profile}
inputs: {{cars: {{columns: "{columns}", timestamp_by: at{more}}}}}
ordering: {ordering}
query: {{from: cars, window: {window}, aggregates: {{n: "count(*)"}}}}
end_of_log: flush
"""
    )


ATLAS = job("atlas", "{tumbling: {size: 10m}}", "{allowed_lateness: 5m}", ", partitions: 1")
POINTS = job("stream_insight", "{tumbling: {size: 10m}}", "{advance: {every: 3}, delay: 5m, action: drop}")
SNAPSHOTS = job(
    "stream_insight",
    "{snapshot: {}}",
    "{advance: {every: 1}, action: adjust}",
    ", shape: interval, end_by: ends",
    "at TIMESTAMP, ends TIMESTAMP",
)


def log(*pairs: tuple[int, int], partition: int = 0) -> list[Arrival]:
    """Arrivals from (arrival, event time) in microseconds after noon."""
    return [
        Arrival("cars", partition, number, NOON + arrival, {"at": NOON + time})
        for number, (arrival, time) in enumerate(pairs)
    ]


def intervals(*triples: tuple[int, int, int]) -> list[Arrival]:
    """Arrivals from (arrival, start, end) in microseconds after noon."""
    return [
        Arrival("cars", 0, number, NOON + arrival, {"at": NOON + start, "ends": NOON + end})
        for number, (arrival, start, end) in enumerate(triples)
    ]


def planned(of: Job, arrivals: Sequence[Arrival], bucket_us: int = 1) -> BoundedReads:
    return bounded_reads(of, RANGE, ListedHistory(of, arrivals, bucket_us))


def first_read(of: Job, arrivals: Sequence[Arrival]) -> int:
    """Where reading begins, in microseconds after noon."""
    found = planned(of, arrivals).range.from_us
    assert found is not None
    return found - NOON


def last_read(of: Job, arrivals: Sequence[Arrival]) -> int:
    """Where reading ends, in microseconds after one o'clock."""
    found = planned(of, arrivals).range.to_us
    assert found is not None
    return found - END


def from_initial_state(of: Job, arrivals: Sequence[Arrival], from_us: int, to_us: int) -> Outcome:
    """The range from the arrivals of ``[from, to]``, counted from noon, and the initial state before them."""
    summary = ListedHistory(of, arrivals, 1).summary("cars")
    assert summary is not None
    read = [one for one in arrivals if NOON + from_us <= one.arrival_time_us <= NOON + to_us]
    return run(of, read, RANGE, initial_states={"cars": initial_state_of(summary, NOON + from_us)})


def as_planned(of: Job, arrivals: Sequence[Arrival]) -> Outcome:
    reads = planned(of, arrivals)
    return run(
        of, [one for one in arrivals if one.arrival_time_us in reads.range], RANGE, initial_states=reads.initial_states
    )


# -- atlas ------------------------------------------------------------------------------------------------------------


def test_an_atlas_range_reads_from_the_first_event_that_a_window_of_it_can_hold() -> None:
    arrivals = log((-9 * HOUR, -10 * MINUTE), (5 * MINUTE, 5 * MINUTE), (2 * HOUR, 2 * HOUR))
    assert first_read(ATLAS, arrivals) == -9 * HOUR
    whole = run(ATLAS, arrivals, RANGE)
    assert as_planned(ATLAS, arrivals) == whole
    assert from_initial_state(ATLAS, arrivals, -9 * HOUR + 1, 2 * HOUR).windows != whole.windows


def test_an_atlas_event_one_microsecond_before_every_window_is_carried_not_read() -> None:
    arrivals = log((-9 * HOUR, -10 * MINUTE - 1), (5 * MINUTE, 5 * MINUTE), (2 * HOUR, 2 * HOUR))
    assert first_read(ATLAS, arrivals) == 0
    assert as_planned(ATLAS, arrivals) == run(ATLAS, arrivals, RANGE)


def test_a_stamp_from_the_far_future_is_carried_for_ever_and_never_read() -> None:
    far = log((-900 * HOUR, 9000 * HOUR), (5 * MINUTE, 5 * MINUTE), (6 * MINUTE, 6 * MINUTE))
    assert first_read(ATLAS, far) == 0
    found = as_planned(ATLAS, far)
    assert [decision.verdict for decision in found.decisions] == ["dropped", "dropped"]
    assert found == run(ATLAS, far, RANGE)


def test_the_carried_time_decides_to_the_microsecond() -> None:
    arrivals = log((-2 * HOUR, 15 * MINUTE), (MINUTE, 5 * MINUTE))
    # the far stamp minus the lateness of five minutes closes [12:00, 12:10)
    assert [decision.verdict for decision in from_initial_state(ATLAS, arrivals, 0, 2 * HOUR).decisions] == ["dropped"]
    summary = ListedHistory(ATLAS, arrivals, 1).summary("cars")
    assert summary is not None
    initial_state = initial_state_of(summary, NOON)
    (seen,) = initial_state.before
    one_less = replace(initial_state, before=(replace(seen, time_us=NOON + 15 * MINUTE - 1),))
    assert [one.verdict for one in run(ATLAS, arrivals[1:], RANGE, initial_states={"cars": one_less}).decisions] == [
        "accepted"
    ]


def test_an_atlas_window_of_the_range_holds_nothing_at_its_last_instant_but_one() -> None:
    # `to` is excluded and so is a window's end: the latest window ends at to - 1, its last event lies at to - 2
    assert last_read(ATLAS, log((MINUTE, MINUTE), (4 * HOUR, HOUR - 1), (5 * HOUR, 3 * HOUR))) == -1
    assert last_read(ATLAS, log((MINUTE, MINUTE), (4 * HOUR, HOUR - 2), (5 * HOUR, 3 * HOUR))) == 3 * HOUR


ODD = job("atlas", "{tumbling: {size: 10m, offset: -1us}}", "{allowed_lateness: 5m}", ", partitions: 1")


def test_the_last_instant_of_the_last_window_counts_in_the_range() -> None:
    arrivals = log((MINUTE, MINUTE), (4 * HOUR, HOUR - 2), (5 * HOUR, 3 * HOUR))
    whole = run(ODD, arrivals, RANGE)
    assert [row.window_end_us - END for row in whole.windows] == [-50 * MINUTE - 1, -1]
    assert as_planned(ODD, arrivals) == whole
    assert from_initial_state(ODD, arrivals, 0, 5 * HOUR - 1) == whole
    assert from_initial_state(ODD, arrivals, 0, 4 * HOUR - 1).windows == whole.windows[:1]


def test_once_every_window_of_the_range_has_closed_nothing_more_is_read() -> None:
    # closed up to 12:59:59.999998, then up to 12:59:59.999999, the last end there can be
    almost = log((MINUTE, MINUTE), (3 * HOUR, HOUR + 5 * MINUTE - 2), (4 * HOUR, HOUR - 2), (5 * HOUR, 3 * HOUR))
    closed = log((MINUTE, MINUTE), (3 * HOUR, HOUR + 5 * MINUTE - 1), (4 * HOUR, HOUR - 2), (5 * HOUR, 3 * HOUR))
    assert last_read(ODD, almost) == 3 * HOUR
    assert last_read(ODD, closed) == -1
    for arrivals in (almost, closed):
        assert as_planned(ODD, arrivals) == run(ODD, arrivals, RANGE)
    assert from_initial_state(ODD, almost, 0, HOUR - 1) != run(ODD, almost, RANGE)


def test_a_partition_first_heard_after_the_range_holds_its_watermark_back() -> None:
    undeclared = job("atlas", "{tumbling: {size: 10m}}", "{allowed_lateness: 5m}")
    arrivals = log((-1, 30 * MINUTE), (MINUTE, MINUTE), (4 * HOUR, 4 * HOUR)) + log((5 * HOUR, 5 * HOUR), partition=1)
    found = as_planned(undeclared, arrivals)
    assert [(decision.verdict, decision.watermark_us) for decision in found.decisions] == [("accepted", None)]
    assert found == run(undeclared, arrivals, RANGE)
    without = as_planned(undeclared, arrivals[:-1])
    assert [decision.verdict for decision in without.decisions] == ["dropped"]


def test_an_atlas_range_is_final_only_where_partitions_are_declared_and_its_windows_have_closed() -> None:
    undeclared = job("atlas", "{tumbling: {size: 10m}}", "{allowed_lateness: 5m}")
    passed = log((MINUTE, MINUTE), (2 * HOUR, 2 * HOUR))
    assert planned(ATLAS, passed).unsettled is None
    assert "partition" in str(planned(undeclared, passed).unsettled)
    assert "open" in str(planned(ATLAS, passed[:1]).unsettled)


def test_by_the_clock_an_atlas_range_reads_its_own_arrivals_and_one_window_more() -> None:
    clock = job("atlas", "{tumbling: {size: 10m}}", "{boundary: processing_time}", ", partitions: 1")
    arrivals = log(*((minute * MINUTE, 0) for minute in range(-30, 90, 5)))
    assert (first_read(clock, arrivals), last_read(clock, arrivals)) == (-10 * MINUTE, -1)
    assert as_planned(clock, arrivals) == run(clock, arrivals, RANGE)


SESSIONS = job("atlas", "{session: {gap: 5m}}", "{allowed_lateness: 5m}", ", partitions: 1")


def test_an_atlas_session_is_read_from_its_first_event_however_long_it_has_lasted() -> None:
    steady = [(minute * MINUTE, minute * MINUTE) for minute in range(-300, 90, 4)]
    # five minutes apart is two sessions, one microsecond less is one
    apart = log((-305 * MINUTE, -305 * MINUTE), *steady)
    linked = log((-305 * MINUTE, -305 * MINUTE + 1), *steady)
    assert first_read(SESSIONS, apart) == -300 * MINUTE
    assert first_read(SESSIONS, linked) == -305 * MINUTE
    for rows in (apart, linked):
        assert as_planned(SESSIONS, rows) == run(SESSIONS, rows, RANGE)


def test_an_atlas_session_that_can_end_in_the_range_is_read_whole() -> None:
    for end, expected in ((0, -9 * HOUR), (-1, 0)):
        ended = log((-9 * HOUR, -8 * MINUTE), (-8 * HOUR, -5 * MINUTE + end), (3 * HOUR, 3 * HOUR))
        assert first_read(SESSIONS, ended) == expected
        whole = run(SESSIONS, ended, RANGE)
        assert len(whole.windows) == 1 + end
        assert as_planned(SESSIONS, ended) == whole
    ended = log((-9 * HOUR, -8 * MINUTE), (-8 * HOUR, -5 * MINUTE))
    assert from_initial_state(SESSIONS, ended, -9 * HOUR + 1, HOUR) != run(SESSIONS, ended, RANGE)


def test_an_atlas_document_is_late_or_not_by_the_session_it_fits_which_is_read() -> None:
    closed = log((-9 * HOUR, -9 * HOUR), (-8 * HOUR, -8 * HOUR), (MINUTE, -9 * HOUR + MINUTE))
    open_still = log((-9 * HOUR, -9 * HOUR), (-8 * HOUR, -9 * HOUR + 3 * MINUTE), (MINUTE, -9 * HOUR + MINUTE))
    for rows, verdict in ((closed, "dropped"), (open_still, "accepted")):
        assert first_read(SESSIONS, rows) == -9 * HOUR
        assert [decision.verdict for decision in as_planned(SESSIONS, rows).decisions] == [verdict]
        assert as_planned(SESSIONS, rows) == run(SESSIONS, rows, RANGE)
    assert [decision.verdict for decision in from_initial_state(SESSIONS, open_still, 0, HOUR).decisions] == ["dropped"]


# -- stream_analytics -------------------------------------------------------------------------------------------------

TIMEOUTS = job(
    "stream_analytics",
    "{session: {timeout: 5m, max_duration: 10m}}",
    "{early_arrival: off, late_arrival: unbounded, out_of_order: 30d, action: drop}",
    ", partitions: 1",
)


@pytest.mark.parametrize(("time", "begin"), [(1, -9 * HOUR), (0, -9 * HOUR), (-1, 0)])
def test_a_session_range_reads_what_can_decide_about_its_first_session_however_early_it_arrived(
    time: int, begin: int
) -> None:
    # 11:40:00.000001 begins a segment; what precedes it by the timeout of 5m decides whether 11:50 closes a session
    run_of_it = [(0, minute * MINUTE + (minute == -20)) for minute in range(-20, 0, 4)]
    arrivals = log((-9 * HOUR, -25 * MINUTE + time), *run_of_it, (9 * HOUR, 40 * 24 * HOUR))
    assert first_read(TIMEOUTS, arrivals) == begin
    whole = run(TIMEOUTS, arrivals, RANGE)
    assert [(row.window_end_us - NOON, row.values) for row in whole.windows] == [(0, {"n": 2 if time == 1 else 5})]
    assert as_planned(TIMEOUTS, arrivals) == whole
    assert (from_initial_state(TIMEOUTS, arrivals, 0, HOUR) == whole) == (time != 1)


def test_a_session_range_reads_to_the_last_event_that_counts_before_its_end() -> None:
    # a timeout apart, so the second one extends the session beyond the range; at its end it comes too late for that
    for time, last in ((HOUR - 1, 2 * HOUR), (HOUR, -1)):
        arrivals = log((0, HOUR - 5 * MINUTE - 1), (3 * HOUR, time), (4 * HOUR, 31 * 24 * HOUR))
        assert last_read(TIMEOUTS, arrivals) == last
        whole = run(TIMEOUTS, arrivals, RANGE)
        assert [row.window_end_us - NOON for row in whole.windows] == [HOUR - 1] * (last == -1)
        assert as_planned(TIMEOUTS, arrivals) == whole


def test_a_session_range_is_final_once_every_watermark_has_passed_it() -> None:
    arrivals = log((0, HOUR - 5 * MINUTE - 1), (HOUR, 31 * 24 * HOUR), (3 * HOUR, HOUR - 1))
    assert last_read(TIMEOUTS, arrivals) == -1
    assert planned(TIMEOUTS, arrivals[:1]).unsettled is not None
    assert planned(TIMEOUTS, arrivals[:2]).unsettled is None
    assert as_planned(TIMEOUTS, arrivals) == run(TIMEOUTS, arrivals, RANGE)


# -- stream_insight ---------------------------------------------------------------------------------------------------


def test_the_counter_is_carried_from_the_first_event_of_the_log() -> None:
    arrivals = log((-9 * HOUR, -9 * HOUR), (-8 * HOUR, -8 * HOUR), (MINUTE, 30 * MINUTE), (2 * MINUTE, 24 * MINUTE))
    assert first_read(POINTS, arrivals) == 0
    # the third event of the log issues the first CTI, 12:25, and the fourth lies before it
    found = as_planned(POINTS, arrivals)
    assert [(decision.verdict, decision.watermark_us) for decision in found.decisions] == [
        ("accepted", None),
        ("dropped", NOON + 25 * MINUTE),
    ]
    assert found == run(POINTS, arrivals, RANGE)
    ((name, initial_state),) = (planned(POINTS, arrivals).initial_states or {}).items()
    one_less: InitialStates = {
        name: replace(initial_state, clock=replace(initial_state.clock, received=initial_state.clock.received - 1))
    }
    assert run(POINTS, arrivals[2:], RANGE, initial_states=one_less) != found


def test_the_current_time_is_carried_to_the_microsecond() -> None:
    arrivals = log(*((-9 * HOUR, 30 * MINUTE),) * 3, (MINUTE, 25 * MINUTE), (2 * MINUTE, 25 * MINUTE - 1))
    assert [decision.verdict for decision in as_planned(POINTS, arrivals).decisions] == ["accepted", "dropped"]
    assert as_planned(POINTS, arrivals) == run(POINTS, arrivals, RANGE)


EVERY_HOUR = job("stream_insight", "{tumbling: {size: 10m}}", "{advance: {every: 1h}, action: drop}")


@pytest.mark.parametrize(("last", "verdict"), [(-1, "accepted"), (0, "dropped")])
def test_the_start_that_triggered_last_is_carried(last: int, verdict: str) -> None:
    arrivals = log((-9 * HOUR, -40 * MINUTE), (MINUTE, 20 * MINUTE + last), (2 * MINUTE, 5 * MINUTE))
    found = as_planned(EVERY_HOUR, arrivals)
    assert first_read(EVERY_HOUR, arrivals) == 0
    assert [decision.verdict for decision in found.decisions] == ["accepted", verdict]
    assert found == run(EVERY_HOUR, arrivals, RANGE)


def test_a_point_is_read_from_the_first_instant_of_the_first_window_on() -> None:
    for before, expected in ((0, -9 * HOUR), (1, 0)):
        arrivals = log((-9 * HOUR, -10 * MINUTE - before), (MINUTE, MINUTE))
        assert first_read(POINTS, arrivals) == expected
        assert as_planned(POINTS, arrivals) == run(POINTS, arrivals, RANGE)
    arrivals = log((-9 * HOUR, -10 * MINUTE), (MINUTE, MINUTE))
    assert from_initial_state(POINTS, arrivals, -9 * HOUR + 1, HOUR) != run(POINTS, arrivals, RANGE)


def test_once_the_current_time_has_passed_the_range_nothing_more_is_read() -> None:
    odd = job("stream_insight", "{tumbling: {size: 10m, offset: -1us}}", "{advance: {every: 1}, action: drop}")
    # a CTI of 12:59:59.999998 still lets the last instant of the range in, one of 12:59:59.999999 does not
    still = log((MINUTE, MINUTE), (3 * HOUR, HOUR - 2), (4 * HOUR, HOUR - 2), (5 * HOUR, 5 * HOUR))
    passed = log((MINUTE, MINUTE), (3 * HOUR, HOUR - 1), (4 * HOUR, HOUR - 2), (5 * HOUR, 5 * HOUR))
    assert (last_read(odd, still), last_read(odd, passed)) == (3 * HOUR, -1)
    for arrivals in (still, passed):
        assert as_planned(odd, arrivals) == run(odd, arrivals, RANGE)
    assert from_initial_state(odd, still, 0, 4 * HOUR - 1) != run(odd, still, RANGE)


def test_a_snapshot_reads_every_endpoint_since_the_start_of_what_is_still_alive_in_the_range() -> None:
    arrivals = intervals(
        (-9 * HOUR, -9 * HOUR, -8 * HOUR),
        (-7 * HOUR, -7 * HOUR, 30 * MINUTE),
        (-6 * HOUR, -6 * HOUR, -5 * HOUR),
        (2 * HOUR, 2 * HOUR, 3 * HOUR),
    )
    assert first_read(SNAPSHOTS, arrivals) == -7 * HOUR
    whole = run(SNAPSHOTS, arrivals, RANGE)
    assert [(row.window_start_us - NOON, row.window_end_us - NOON) for row in whole.windows] == [
        (-5 * HOUR, 30 * MINUTE)
    ]
    assert as_planned(SNAPSHOTS, arrivals) == whole
    assert from_initial_state(SNAPSHOTS, arrivals, -7 * HOUR + 1, HOUR) != whole


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (job("atlas", "{session: {gap: 5m}}", "{boundary: processing_time}"), "a session by processing time"),
        (job("stream_insight", "{count: {n: 2}}", "{advance: {every: 1}, action: drop}"), "count window"),
        (
            job(
                "stream_insight",
                "{tumbling: {size: 5m}}",
                "{advance: {every: 1}, action: drop}",
                ", shape: edge, end_by: ends, edge_by: edge",
                "at TIMESTAMP, ends TIMESTAMP, edge STRING",
            ),
            "edge",
        ),
        (replace(ATLAS, inputs=(replace(ATLAS.inputs[0], timestamp_by="at + INTERVAL 1 HOUR"),)), "expression"),
    ],
)
def test_what_no_initial_state_bounds_reads_the_whole_log_and_gives_the_reason(of: Job, why: str) -> None:
    assert why in str(why_whole_log(of))
    found = planned(of, log((-9 * HOUR, 0)))
    assert (found.range.from_us, found.range.to_us, found.initial_states) == (None, None, None)
    assert found.range.reasons


def test_a_summary_in_wide_buckets_reads_more_and_gives_the_same() -> None:
    arrivals = log(*((minute * MINUTE, minute * MINUTE - minute % 7 * SECOND) for minute in range(-300, 300, 7)))
    whole = run(ATLAS, arrivals, RANGE)
    for bucket_us in (1, SECOND, 7 * MINUTE, 24 * HOUR):
        reads = planned(ATLAS, arrivals, bucket_us)
        read = [one for one in arrivals if one.arrival_time_us in reads.range]
        assert run(ATLAS, read, RANGE, initial_states=reads.initial_states) == whole
