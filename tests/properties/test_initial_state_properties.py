"""A read range with its initial state is the cut of the whole log: hundreds of random logs, in plain Python."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from property_logs import Example, example

from pipelines.core.model import Arrival, OutputRange
from pipelines.core.time import HOUR, MINUTE, SECOND
from pipelines.plan.bounded_reads import why_whole_log, with_initial_state
from pipelines.plan.initial_state import InitialStates, Summary, fold, initial_state_of
from pipelines.reference.engine import Outcome, run
from pipelines.reference.events import place_of
from pipelines.transcripts.listed_history import ListedHistory

CASES = int(os.environ.get("TAILRACE_PROPERTY_CASES", "50"))
PROFILES = ("atlas", "stream_insight", "stream_analytics")
BUCKETS_US = (1, SECOND, 7 * SECOND, MINUTE)

many = settings(
    max_examples=max(500, CASES),
    deadline=None,
    derandomize=CASES <= 50,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
seeds = st.integers(0, 2**40)


def carried_example(seed: int, profile: str) -> Example | None:
    """A job that an initial state bounds, with a log that may have far stamps; None for other jobs."""
    one, chance = example(seed, profile, plain=True), Random(seed)
    if why_whole_log(one.job) is not None:
        return None
    log = list(one.log)
    # a lifetime of centuries lies in more windows of a few seconds than fit into memory
    far_us = 10**6 * HOUR if all(part.shape == "point" for part in one.job.inputs) else 10 * HOUR
    for _ in range(chance.choice([0, 0, 1, 2])):
        place = chance.randrange(len(log))
        at_us = log[place].payload["at"]
        if isinstance(at_us, int):
            moved = {"at": at_us + chance.choice([-1, 1]) * chance.choice([MINUTE, HOUR, far_us])}
            log[place] = replace(log[place], payload=log[place].payload | moved)
    return replace(one, log=tuple(log))


def summaries(one: Example, bucket_us: int) -> dict[str, Summary]:
    history = ListedHistory(one.job, one.log, bucket_us)
    found = {part.name: history.summary(part.name) for part in one.job.inputs}
    return {name: summary for name, summary in found.items() if summary is not None}


def answer(
    one: Example, log: Sequence[Arrival], initial_state: InitialStates | None = None
) -> tuple[Counter[str], ...]:
    found: Outcome = run(one.job, log, one.output, initial_states=initial_state)
    return tuple(Counter(map(repr, part)) for part in (found.decisions, found.windows, found.dead_letters))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_read_range_with_its_initial_state_is_the_cut_of_the_whole_log(profile: str) -> None:
    narrower = 0

    @many
    @given(seeds)
    def same(seed: int) -> None:
        nonlocal narrower
        one = carried_example(seed, profile)
        if one is None:
            return
        reads = with_initial_state(one.job, one.output, summaries(one, Random(seed).choice(BUCKETS_US)))
        read = [row for row in one.log if row.arrival_time_us in reads.range]
        assert answer(one, read, reads.initial_states) == answer(one, one.log), (reads.range, one)
        narrower += len(read) < len(one.log)

    same()
    assert narrower > 30, "the examples must put the bounds to the test"


@pytest.mark.parametrize("profile", PROFILES)
def test_any_earlier_beginning_and_any_later_end_give_the_same(profile: str) -> None:
    @many
    @given(seeds)
    def same(seed: int) -> None:
        one, chance = carried_example(seed, profile), Random(seed)
        if one is None:
            return
        known = summaries(one, 1)
        reads = with_initial_state(one.job, one.output, known).range
        from_us = None if reads.from_us is None else reads.from_us - chance.choice([0, 1, SECOND, HOUR])
        to_us = None if reads.to_us is None else reads.to_us + chance.choice([0, 1, SECOND, HOUR])
        read = [row for row in one.log if row.arrival_time_us in replace(reads, from_us=from_us, to_us=to_us)]
        initial_state = {name: initial_state_of(summary, from_us) for name, summary in known.items()}
        assert answer(one, read, initial_state) == answer(one, one.log), one

    same()


@many
@given(seeds, st.sampled_from(PROFILES))
def test_a_settled_range_is_changed_by_nothing_that_arrives_later(seed: int, profile: str) -> None:
    one, chance = carried_example(seed, profile), Random(seed)
    if one is None or one.output.to_us is None:
        return
    log = sorted(one.log, key=place_of)
    cut_us = log[chance.randrange(len(log))].arrival_time_us
    stored = replace(one, log=tuple(row for row in log if row.arrival_time_us <= cut_us))
    reads = with_initial_state(stored.job, stored.output, summaries(stored, 1))
    ends = [
        max((r.arrival_time_us for r in stored.log if r.input == part.name), default=None) for part in one.job.inputs
    ]
    if reads.unsettled is not None or reads.final_us is None:
        return
    if all(end is not None and end > reads.final_us for end in ends):
        assert answer(stored, stored.log) == answer(one, one.log), one


@many
@given(seeds, st.sampled_from(PROFILES))
def test_an_initial_state_of_parts_is_that_of_the_whole(seed: int, profile: str) -> None:
    one, chance = carried_example(seed, profile), Random(seed)
    if one is None:
        return
    for summary in summaries(one, SECOND).values():
        rows = list(summary.rows)
        chance.shuffle(rows)
        cut = chance.randint(0, len(rows))
        first, second = fold(rows[:cut]), fold(rows[cut:])
        together: dict[object, list[int | None]] = {}
        for seen in (*first, *second):
            together.setdefault((seen.partition, seen.timeline), []).append(seen.time_us)
        whole = {(seen.partition, seen.timeline): seen.time_us for seen in summary.seen()}
        assert whole == {
            who: max((time_us for time_us in times if time_us is not None), default=None)
            for who, times in together.items()
        }


def test_an_open_range_reads_everything() -> None:
    one = next(found for seed in range(100) if (found := carried_example(seed, "atlas")) is not None)
    reads = with_initial_state(one.job, OutputRange(), summaries(one, 1))
    assert (reads.range.from_us, reads.range.to_us) == (None, None)
