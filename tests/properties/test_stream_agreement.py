"""Random jobs on random logs, live: whatever the commits, the batches and the stops, the stream gives the reference.

No Spark: the engine that the streaming operator keeps gets its messages here as Spark would bring them, and goes
through its saved form between any two batches, as it does in the state store.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from property_logs import Example, example

from pipelines.core.errors import TailraceError
from pipelines.core.model import Arrival, Decision
from pipelines.job.expressions import instant_sql
from pipelines.live.engine import LiveEngine
from pipelines.live.expressions import refuse
from pipelines.live.local_log import announcement, messages
from pipelines.live.spark.operator import run_batch
from pipelines.live.state.arrivals import LogOutOfOrder
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Message
from pipelines.live.state.output import WindowResult, decisions_of
from pipelines.live.windows.by_column import ColumnBuffer
from pipelines.reference.engine import Outcome, run

PROFILES = ("stream_analytics", "atlas", "stream_insight")
CASES = int(os.environ.get("TAILRACE_PROPERTY_CASES", "200"))


class Stream:
    """One job's stream: an engine in its saved form, and the two tables as they are."""

    def __init__(self, one: Example) -> None:
        self.job = one.job
        self.saved: bytes | None = None
        self.decisions: list[Decision] = []
        self.windows: list[WindowResult] = []
        self.provisional: tuple[list[Decision], list[WindowResult]] = [], []

    def batch(self, commit: Sequence[Message]) -> None:
        output = run_batch(self.saved, self.job, commit, self._save)
        if output.error is not None:
            raise output.error
        self.decisions += decisions_of(output.verdicts)
        self.windows += output.windows
        if output.advanced:
            self.provisional = decisions_of(output.provisional_verdicts), output.provisional_windows

    def _save(self, state: bytes) -> None:
        self.saved = state

    def tables(self) -> tuple[Counter[Any], Counter[Any]]:
        windows = [*self.windows, *self.provisional[1]]
        return (
            Counter([*self.decisions, *self.provisional[0]]),
            Counter((*one[:3], tuple(map(canonical, one.values))) for one in windows),
        )


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value + 0.0)
    if isinstance(value, list):
        return tuple(map(canonical, value))
    return value


def expected(outcome: Outcome) -> tuple[Counter[Any], Counter[Any]]:
    windows = Counter(
        (one.window_start_us, one.window_end_us, one.window_id, tuple(map(canonical, one.values.values())))
        for one in outcome.windows
    )
    return Counter(outcome.decisions), windows


@cache
def runnable(seed: int, profile: str) -> tuple[Example, Outcome] | None:
    """The example of that seed and what the reference gives for it; None where either engine refuses it."""
    one = example(seed, profile, plain=True)
    try:
        refuse(one.job)
        return one, run(one.job, one.log, instant_sql=instant_sql)
    except TailraceError:
        return None


def logged(chance: Random, log: Sequence[Arrival]) -> list[Arrival]:
    """The log as it may have been ingested: punctuations for all partitions after rows that they precede."""
    if chance.random() < 0.7:
        return list(log)
    return sorted(log, key=lambda row: row.input_partition is None)


def no_evaluator(*_: Any) -> Any:
    raise AssertionError("plain columns need no evaluator")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_stream_gives_the_reference_whatever_the_commits_and_their_order_with_the_announcement(
    profile: str,
) -> None:
    ran = 0
    buffers: Counter[type] = Counter()
    for seed in range(CASES):
        found = runnable(seed, profile)
        if found is None:
            continue
        (one, outcome), chance = found, Random(seed)
        cuts = sorted(chance.sample(range(1, max(2, len(one.log))), min(3, len(one.log) // 2)))
        *commits, announced = messages(CompiledJob(one.job), logged(chance, one.log), no_evaluator, cuts)
        stream = Stream(one)
        commits.insert(chance.randint(0, len(commits)), announced)
        if chance.random() < 0.3:
            # the last file of a commit may reach the operator before its first
            commits = [sorted(commit, key=lambda message: chance.random()) for commit in commits]
        for commit in commits:
            stream.batch(commit)
        assert stream.tables() == expected(outcome), one
        ran += 1
        buffers.update(set(map(type, LiveEngine.new(one.job).query.windows)))
    assert ran > CASES // 2
    # grids of stream_analytics are windowed by the column, all else row by row
    assert (buffers[ColumnBuffer] > CASES // 10) == (profile == "stream_analytics")
    assert buffers.total() - buffers[ColumnBuffer] > CASES // 10


@pytest.mark.parametrize("profile", PROFILES)
def test_stopping_after_each_commit_and_asking_for_the_end_of_the_log_each_time_changes_nothing(profile: str) -> None:
    """A partition heard for the first time after others were decided begins the stream again, as a run does."""
    restarts = 0
    for seed in range(CASES):
        found = runnable(seed, profile)
        if found is None:
            continue
        (one, outcome), chance = found, Random(seed)
        cuts = sorted(chance.sample(range(1, max(2, len(one.log))), min(3, len(one.log) // 2)))
        *commits, _ = messages(CompiledJob(one.job), one.log, no_evaluator, cuts)
        ends = [*cuts, len(one.log)]
        stream, known = Stream(one), heard(one, 0)
        for number, commit in enumerate(commits):
            now = heard(one, ends[number])
            try:
                if number and undeclared(one, known, now):
                    raise LogOutOfOrder("a partition nobody knew")
                stream.batch([*commit, announcement(number, commit, now, end_of_log=True)])
            except LogOutOfOrder:
                stream, restarts = Stream(one), restarts + 1
                whole = [message for earlier in commits[: number + 1] for message in earlier]
                stream.batch([announcement(number, whole, now, end_of_log=True), *whole])
            known = now
        assert stream.tables() == expected(outcome), one
        stream.batch([announcement(len(commits), [], known, end_of_log=True)])
        assert stream.tables() == expected(outcome), f"nothing new came\n{one}"
    assert restarts


def heard(one: Example, until: int) -> dict[str, list[int]]:
    """The partitions of each input in the first rows of the log."""
    found: dict[str, set[int]] = {part.name: set() for part in one.job.inputs}
    for row in one.log[:until]:
        if row.input_partition is not None:
            found[row.input].add(row.input_partition)
    return {name: sorted(numbers) for name, numbers in found.items()}


def undeclared(one: Example, before: dict[str, list[int]], now: dict[str, list[int]]) -> bool:
    return any(
        set(now[part.name]) - set(before[part.name]) - set(range(part.partitions or 0)) for part in one.job.inputs
    )
