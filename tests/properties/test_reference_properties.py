"""What holds for every log: nothing is lost, nothing depends on how the log was handed over, bounds are exact."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st
from session_walk import walked

from pipelines.core.model import (
    Aggregate,
    Arrival,
    AtlasOrdering,
    Column,
    Grid,
    Input,
    Job,
    Query,
    Session,
    Sliding,
    Snapshot,
    StreamAnalyticsOrdering,
    StreamInsightOrdering,
)
from pipelines.plan.extent import look_back
from pipelines.reference.aggregates import exact_sum
from pipelines.reference.engine import run
from pipelines.reference.events import Row
from pipelines.reference.sessions import assign_timeout_sessions
from pipelines.reference.windows import ends_on_grid, starts_on_grid

COLUMNS = (Column("at", "timestamp"), Column("device", "string"), Column("ends", "timestamp"))
COUNT = (Aggregate("n", "count"),)
SIZE = 20
quick = settings(max_examples=150, deadline=None)

small = st.integers(0, 12)
optional = st.none() | small


def job(profile, ordering, window, *, over=(), shape="point", end="flush", group=()):
    end_by = "ends" if shape == "interval" else None
    one = Input("events", COLUMNS, "at", over=over, shape=shape, end_by=end_by)
    query = Query(window, COUNT, ("events",), group_by=group)
    return Job("example", profile, (one,), (("events", ordering),), query, end)


@st.composite
def logs(draw, partitions=2, punctuations=False):
    """Arrivals of a few partitions at one clock that never falls, with times near it and now and then none."""
    clock = 100
    sequences: Counter[int] = Counter()
    log = []
    for _ in range(draw(st.integers(0, 14))):
        clock += draw(st.integers(0, 6))
        partition = draw(st.integers(0, partitions - 1))
        around = clock + draw(st.integers(-25, 15))
        if punctuations and draw(st.integers(0, 5)) == 0:
            spoken = draw(st.sampled_from([partition, None]))
            key = -1 if spoken is None else partition
            log.append(Arrival("events", spoken, sequences[key], clock, {}, around, "idle"))
            sequences[key] += 1
            continue
        time = None if draw(st.integers(0, 12)) == 0 else around
        ends = around + draw(st.integers(0, 20))
        payload = {"at": time, "device": draw(st.sampled_from(["a", "b", None])), "ends": ends}
        log.append(Arrival("events", partition, sequences[partition], clock, payload))
        sequences[partition] += 1
    return log


stream_analytics = st.builds(StreamAnalyticsOrdering, optional, optional, small, st.sampled_from(["adjust", "drop"]))
atlas = st.builds(AtlasOrdering, small)
stream_insight = st.one_of(
    st.builds(
        StreamInsightOrdering, st.sampled_from(["adjust", "drop"]), st.integers(1, 4), st.none(), st.integers(-2, 9)
    ),
    st.builds(
        StreamInsightOrdering, st.sampled_from(["adjust", "drop"]), st.none(), st.integers(1, 9), st.integers(-2, 9)
    ),
)
grids = st.builds(Grid, st.integers(1, 30), st.integers(1, 30), st.integers(-9, 9), st.just(0))
jobs = st.one_of(
    st.builds(
        lambda ordering, window, over, end: job("stream_analytics", ordering, window, over=over, end=end),
        stream_analytics,
        st.one_of(grids, st.just(Sliding(SIZE)), st.just(Session(5, 10, (), 0)), st.just(Snapshot())),
        st.sampled_from([(), ("device",)]),
        st.sampled_from(["flush", "hold"]),
    ),
    st.builds(
        lambda ordering, window, end: job("atlas", ordering, window, end=end),
        atlas,
        st.one_of(grids, st.just(Session(5, None, ("device",)))),
        st.sampled_from(["flush", "hold"]),
    ),
    st.builds(
        lambda ordering, window, shape, end: job("stream_insight", ordering, window, shape=shape, end=end),
        stream_insight,
        st.one_of(grids, st.just(Snapshot())),
        st.sampled_from(["point", "interval"]),
        st.sampled_from(["flush", "hold"]),
    ),
)


@quick
@given(jobs, logs(punctuations=True))
def test_every_window_names_the_events_that_it_counts(one, log):
    outcome = run(one, log)
    assert [len(members) for members in outcome.members] == [row.values["n"] for row in outcome.windows]
    counts = {(one.input_partition, one.sequence) for one in outcome.decisions if one.verdict != "dropped"}
    assert all((one.input_partition, one.sequence) in counts for members in outcome.members for one in members)


@quick
@given(jobs, logs(punctuations=True))
def test_every_event_has_exactly_one_decision(one, log):
    decisions = run(one, log).decisions
    events = [row for row in log if row.punctuation_us is None]
    assert Counter((decision.input_partition, decision.sequence) for decision in decisions) == Counter(
        (row.input_partition, row.sequence) for row in events
    )
    by_verdict = Counter(decision.verdict for decision in decisions)
    assert sum(by_verdict[word] for word in ("accepted", "adjusted", "partial", "dropped")) == len(events)
    for decision in decisions:
        assert (decision.system_timestamp_us is None) == (decision.verdict == "dropped")
        assert bool(decision.reasons) == (decision.verdict != "accepted")


@quick
@given(jobs, logs(punctuations=True), st.randoms())
def test_nothing_depends_on_the_order_in_which_the_log_is_handed_over(one, log, chance):
    shuffled = list(log)
    chance.shuffle(shuffled)
    assert run(one, shuffled) == run(one, log)


@quick
@given(jobs, logs(punctuations=True))
def test_what_hold_emits_is_what_flush_emits_less_what_was_still_open(one, log):
    from dataclasses import replace

    held = run(replace(one, end_of_log="hold"), log).windows
    flushed = run(replace(one, end_of_log="flush"), log).windows
    if one.query.window == Snapshot() or isinstance(one.query.window, Grid):
        assert set(map(repr, held)) <= set(map(repr, flushed))
    assert len(held) <= len(flushed)


@quick
@given(stream_analytics, logs(), st.integers(1, 30))
def test_tumbling_windows_count_each_surviving_event_once(ordering, log, size):
    outcome = run(job("stream_analytics", ordering, Grid(size, size, 0, 0), group=("device",)), log)
    survived = sum(decision.verdict != "dropped" for decision in outcome.decisions)
    assert sum(row.values["n"] for row in outcome.windows) == survived


@quick
@given(stream_analytics, logs(), st.sampled_from([(), ("device",)]))
def test_the_policy_is_a_running_maximum_over_adjusted_times(ordering, log, over):
    """The closed form: ``sys = max(t, M - out_of_order)`` with M over all valid events before that are not early."""
    decisions = run(job("stream_analytics", ordering, Grid(SIZE, SIZE, 0, 0), over=over), log).decisions
    before: dict[tuple[object, ...], list[int]] = {}
    for decision in decisions:
        row = next(x for x in log if (x.input_partition, x.sequence) == (decision.input_partition, decision.sequence))
        time, key = row.payload["at"], row.payload["device"] if over else "all"
        if time is None or key is None:
            assert decision.verdict == "dropped"
            continue
        if ordering.early_arrival_us is not None and time > row.arrival_time_us + ordering.early_arrival_us:
            assert decision.reasons == ("early",)
            continue
        late = ordering.late_arrival_us
        adjusted = time if late is None else max(time, row.arrival_time_us - late)
        seen = before.setdefault((row.input_partition, key), [])
        expected = max([adjusted, *(one - ordering.out_of_order_us for one in seen)])
        seen.append(adjusted)
        if expected == time:
            assert (decision.verdict, decision.system_timestamp_us) == ("accepted", time)
        elif ordering.action == "adjust":
            assert (decision.verdict, decision.system_timestamp_us) == ("adjusted", expected)
        else:
            assert decision.verdict == "dropped"


@quick
@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(1, 1000), st.integers(5000, 9000))
def test_each_bound_of_stream_analytics_moves_a_verdict_by_one_microsecond(early, late, disorder, clock):
    def verdicts(ordering, *rows):
        log = [
            Arrival("events", 0, n, when, {"at": at, "device": "a", "ends": None}) for n, (at, when) in enumerate(rows)
        ]
        return [one.verdict for one in run(job("stream_analytics", ordering, Grid(SIZE, SIZE, 0, 0)), log).decisions]

    guard = StreamAnalyticsOrdering(early, None, 0)
    assert verdicts(guard, (clock + early, clock)) == ["accepted"]
    assert verdicts(guard, (clock + early + 1, clock)) == ["dropped"]
    tolerance = StreamAnalyticsOrdering(None, late, 0)
    assert verdicts(tolerance, (clock - late, clock)) == ["accepted"]
    assert verdicts(tolerance, (clock - late - 1, clock)) == ["adjusted"]
    reorder = StreamAnalyticsOrdering(None, None, disorder)
    assert verdicts(reorder, (clock, clock), (clock - disorder, clock)) == ["accepted", "accepted"]
    assert verdicts(reorder, (clock, clock), (clock - disorder - 1, clock)) == ["accepted", "adjusted"]


@quick
@given(st.integers(0, 1000), st.integers(1, 100))
def test_the_closing_of_an_atlas_window_moves_by_one_microsecond(lateness, size):
    def verdict(newest):
        rows = [
            Arrival("events", 0, n, 9000, {"at": at, "device": "a", "ends": None}) for n, at in enumerate([newest, 0])
        ]
        return run(job("atlas", AtlasOrdering(lateness), Grid(size, size, 0, 0)), rows).decisions[1].verdict

    assert verdict(size + lateness - 1) == "accepted"
    assert verdict(size + lateness) == "dropped"


@quick
@given(st.sampled_from(["adjust", "drop"]), st.integers(0, 9), logs(partitions=1))
def test_one_cti_an_event_is_a_watermark_that_trails_by_the_delay(action, delay, log):
    """With N = 1 and a delay of at least 0 a point or interval violates iff ``start < M - delay``."""
    ordering = StreamInsightOrdering(action, 1, None, delay)
    decisions = run(job("stream_insight", ordering, Snapshot(), shape="interval"), log).decisions
    newest = -math.inf
    for decision, row in zip(decisions, log, strict=True):
        start, end = row.payload["at"], row.payload["ends"]
        if start is None or end <= start:
            assert decision.reasons == ("invalid_time",)
            continue
        bound = newest - delay
        newest = max(newest, start)
        if start >= bound:
            assert (decision.verdict, decision.system_timestamp_us, decision.lifetime_end_us) == (
                "accepted",
                start,
                end,
            )
        elif action == "adjust" and end > bound:
            assert (decision.verdict, decision.system_timestamp_us, decision.lifetime_end_us) == (
                "adjusted",
                bound,
                end,
            )
        else:
            assert decision.verdict == "dropped"


@quick
@given(grids, st.integers(-200, 200))
def test_windows_with_ends_on_the_grid_are_all_that_hold_the_instant(grid, at):
    found = ends_on_grid(grid, at)
    every = [
        (end - grid.size_us, end) for end in range(at, at + grid.size_us) if (end - grid.offset_us) % grid.hop_us == 0
    ]
    assert found == every
    assert all(start < at <= end for start, end in found)


@quick
@given(grids, st.integers(-200, 200), st.integers(1, 60))
def test_windows_with_starts_on_the_grid_are_all_that_overlap_the_lifetime(grid, start, length):
    end = start + length
    every = [
        (one, one + grid.size_us)
        for one in range(start - grid.size_us + 1, end)
        if (one - grid.offset_us) % grid.hop_us == 0
    ]
    assert starts_on_grid(grid, start, end) == every


@st.composite
def sessions_and_times(draw):
    """A session window, and times whose distances are mostly near the timeout."""
    timeout, longest = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    steps = st.lists(
        st.sampled_from([0, 1, timeout - 1, timeout, timeout, timeout + 1]) | st.integers(0, 12), max_size=20
    )
    times = list(accumulate(draw(steps), initial=draw(st.integers(-20, 20))))
    return Session(timeout, longest, (), 0), times


def timeout_sessions(window, times):
    rows = [Row(time, (number,), {}, {}) for number, time in enumerate(times)]
    return [(*span, len(inside)) for span, inside in assign_timeout_sessions(window, rows, None)]


@settings(quick, max_examples=1000)
@given(sessions_and_times())
def test_sessions_are_those_of_a_walk_through_time(given_sessions):
    window, times = given_sessions
    assert timeout_sessions(window, times) == walked(times, window.timeout_us, window.max_duration_us)


@settings(quick, max_examples=1000)
@given(sessions_and_times(), st.integers(-10, 120), st.integers(1, 30), st.lists(st.integers(0, 30), max_size=4))
def test_sessions_of_a_range_are_the_same_whatever_counts_before_their_look_back_and_after_the_range(
    given_sessions, begin, length, others
):
    window, times = given_sessions
    end, back = begin + length, begin - look_back(window)
    read = [time for time in times if back < time < end]
    wrong = [back - other for other in others[:2]] + [end + other for other in others[2:]]

    def in_range(sessions):
        return [one for one in sessions if begin <= one[1] < end]

    assert in_range(timeout_sessions(window, read + wrong)) == in_range(timeout_sessions(window, times))


@quick
@given(jobs, logs(punctuations=True), st.integers(-3, 3))
def test_a_log_moved_by_whole_hops_gives_the_same_windows_moved(one, log, steps):
    hop = one.query.window.hop_us if isinstance(one.query.window, Grid) else 10  # check points of sessions: every 10
    far = steps * hop

    def moved(value):
        return None if value is None else value + far

    shifted = [
        Arrival(
            row.input,
            row.input_partition,
            row.sequence,
            row.arrival_time_us + far,
            {name: value if name == "device" else moved(value) for name, value in row.payload.items()},
            moved(row.punctuation_us),
            row.cause,
        )
        for row in log
    ]
    here, there = run(one, log), run(one, shifted)
    assert [(one.verdict, one.reasons, moved(one.system_timestamp_us)) for one in here.decisions] == [
        (decision.verdict, decision.reasons, decision.system_timestamp_us) for decision in there.decisions
    ]
    assert [(row.window_start_us + far, row.window_end_us + far, row.values) for row in here.windows] == [
        (row.window_start_us, row.window_end_us, row.values) for row in there.windows
    ]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12), st.randoms())
def test_sums_are_correctly_rounded_in_any_order(values, chance):
    shuffled = list(values)
    chance.shuffle(shuffled)
    total = exact_sum(values)
    assert repr(exact_sum(shuffled)) == repr(total)
    exact = sum(map(Fraction, values), Fraction(0))
    if math.isfinite(total):
        assert Fraction(total) == Fraction(float(exact))
    else:
        assert abs(exact) >= Fraction(2) ** 1024 - Fraction(2) ** 970
