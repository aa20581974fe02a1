"""Which arrivals a range reads, rule by rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from pipelines.core.model import Arrival, Job, OutputRange, StreamAnalyticsOrdering
from pipelines.core.time import MINUTE, format_instant, parse_instant
from pipelines.job.load import parse_job
from pipelines.plan.read_range import read_range
from pipelines.reference.engine import run

NOON = parse_instant("2026-01-01T12:00:00Z")
ONE = parse_instant("2026-01-01T13:00:00Z")


def job(window: str = "{tumbling: {size: 10m}}", ordering: str = "{late_arrival: 5m}", more: str = "") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: example
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}}}
ordering: {ordering}
query: {{from: cars, window: {window}, aggregates: {{n: "count(*)"}}}}
{more}
"""
    )


def bounds_of(of: Job) -> tuple[str | None, str | None]:
    found = read_range(of, OutputRange(NOON, ONE))
    return (
        None if found.from_us is None else format_instant(found.from_us),
        None if found.to_us is None else format_instant(found.to_us),
    )


def test_the_window_reaches_further_back_than_the_tolerance() -> None:
    assert bounds_of(job()) == ("2026-01-01T11:45:00Z", "2026-01-01T13:05:00Z")


def test_the_tolerance_reaches_further_back_than_the_window() -> None:
    assert bounds_of(job(ordering="{late_arrival: 20m, early_arrival: 1m}")) == (
        "2026-01-01T11:39:00Z",
        "2026-01-01T13:20:00Z",
    )


def test_the_longest_of_several_windows_counts() -> None:
    window = "{any_of: {short: {tumbling: {size: 1m}}, long: {hopping: {size: 2h, hop: 1h}}}}"
    assert bounds_of(job(window)) == ("2026-01-01T09:55:00Z", "2026-01-01T13:05:00Z")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (job(ordering="{late_arrival: 5m, early_arrival: off}"), (None, "2026-01-01T13:05:00Z")),
        (job(ordering="{late_arrival: unbounded}"), (None, None)),
        (job(more="end_of_log: hold"), (None, None)),
    ],
)
def test_where_a_premise_falls_the_bound_falls_and_a_reason_is_given(of: Job, expected: tuple[str, str]) -> None:
    assert bounds_of(of) == expected
    assert read_range(of, OutputRange(NOON, ONE)).reasons


def test_without_timestamp_by_nothing_is_early_or_late() -> None:
    of = job()
    plain = dataclasses.replace(of, inputs=(dataclasses.replace(of.inputs[0], timestamp_by=None),))
    assert bounds_of(plain) == ("2026-01-01T11:50:00Z", "2026-01-01T13:00:00Z")


def test_an_open_side_stays_open() -> None:
    found = read_range(job(), OutputRange(None, ONE))
    assert found.from_us is None
    assert found.to_us == ONE + 5 * 60_000_000


def test_both_ends_are_included_and_one_microsecond_beyond_is_not() -> None:
    found = read_range(job(), OutputRange(NOON, ONE))
    assert found.from_us is not None
    assert found.to_us is not None
    assert found.from_us in found
    assert found.to_us in found
    assert found.from_us - 1 not in found
    assert found.to_us + 1 not in found


def test_several_inputs_read_what_the_widest_policy_needs() -> None:
    of = job()
    second = dataclasses.replace(of.inputs[0], name="trucks")
    union = dataclasses.replace(
        of,
        inputs=(*of.inputs, second),
        orderings=(*of.orderings, ("trucks", StreamAnalyticsOrdering(60_000_000, 1_800_000_000))),
        query=dataclasses.replace(of.query, sources=("cars", "trucks")),
    )
    assert bounds_of(union) == ("2026-01-01T11:25:00Z", "2026-01-01T13:30:00Z")


SESSIONS = job(
    "{any_of: {grid: {tumbling: {size: 1m}}, session: {session: {timeout: 5m, max_duration: 10m}}}}",
    "{early_arrival: 1m, late_arrival: 2m}",
)


def ends(log: Sequence[tuple[int, int]], from_us: int, to_us: int = 2 * ONE) -> list[tuple[int, int]]:
    """End and number of events of the sessions of [12:00, 13:00), in microseconds after noon, from those of ``log``
    (arrival, event time; microseconds after noon) that arrive at ``from_us`` .. ``to_us``."""
    rows = [
        Arrival("cars", 0, number, NOON + arrival, {"at": NOON + time, "booth": None})
        for number, (arrival, time) in enumerate(log)
        if from_us <= NOON + arrival <= to_us
    ]
    found = run(SESSIONS, rows, OutputRange(NOON, ONE)).windows
    return [(row.window_end_us - NOON, int(str(row.values["n"]))) for row in found if row.window_id == "session"]


def test_a_session_looks_back_two_segments_and_the_timeout_and_not_a_microsecond_further() -> None:
    read = read_range(SESSIONS, OutputRange(NOON, ONE))
    assert read.from_us == NOON - 26 * MINUTE
    assert read.rule.endswith("with E = 1m, K = 25m, L = 2m")
    # 11:40:00.000001 begins the segment of 11:50; what precedes it by a timeout decides whether 11:50 closes a session
    run_of_it = [(minute * MINUTE + (minute == -20), minute * MINUTE + (minute == -20)) for minute in range(-20, 0, 4)]
    older = [(-26 * MINUTE + 1, -25 * MINUTE + 1), *run_of_it]
    pause = [(-26 * MINUTE, -25 * MINUTE), *run_of_it]
    for log, sessions in ((older, [(0, 2)]), (pause, [(0, 5)])):
        assert ends(log, 0) == sessions
        assert ends(log, read.from_us) == sessions
        assert ends(log, read.from_us + 1) == sessions
    assert ends(older, read.from_us + 2) == [(0, 5)]


def test_a_session_of_the_range_needs_no_event_that_counts_at_its_end_or_later() -> None:
    read = read_range(SESSIONS, OutputRange(NOON, ONE))
    assert read.to_us == ONE + 2 * MINUTE
    hour = 60 * MINUTE
    open_still = [(55 * MINUTE - 1, 55 * MINUTE - 1), (hour + 2 * MINUTE - 1, hour - 1)]
    ended = [(55 * MINUTE - 1, 55 * MINUTE - 1), (hour + 2 * MINUTE, hour)]
    for log, sessions in ((open_still, []), (ended, [(hour - 1, 1)])):
        assert ends(log, 0) == sessions
        assert ends(log, 0, read.to_us - 1) == sessions
    assert ends(open_still, 0, read.to_us - 2) == [(hour - 1, 1)]


LEFT_JOIN = parse_job(
    """
tailrace: 1
job: example
profile: stream_analytics
inputs:
  a: {columns: "at TIMESTAMP", timestamp_by: at}
  b: {columns: "at TIMESTAMP", timestamp_by: at}
ordering: {early_arrival: 0s, late_arrival: 0s}
query:
  join: {left: a, right: b, within: {unit: minute, from: -3, to: 2}, kind: left}
  window: {tumbling: {size: 1m}}
  aggregates: {n: "count(*)"}
"""
)


def test_a_left_join_reads_what_could_have_matched_a_row_that_counts_only_once_nothing_can() -> None:
    matching, row = parse_instant("2026-01-01T11:57:00Z"), parse_instant("2026-01-01T12:00:59Z")
    log = [Arrival("b", 0, 0, matching, {"at": matching}), Arrival("a", 0, 0, row, {"at": row})]
    output = OutputRange(parse_instant("2026-01-01T12:03:00Z"), parse_instant("2026-01-01T12:04:00Z"))
    reads = read_range(LEFT_JOIN, output)
    assert reads.from_us == parse_instant("2026-01-01T11:56:00Z")
    assert run(LEFT_JOIN, [one for one in log if one.arrival_time_us in reads], output).windows == ()
    assert run(LEFT_JOIN, log, output).windows == ()
    # unmatched it would count at 12:02:59, two minutes after it
    assert [one.values for one in run(LEFT_JOIN, log[1:], output).windows] == [{"n": 1}]
