"""Random jobs on random logs, live: whatever the commits, the batches and the stops, the stream gives the reference.

No Spark: the machine that the streaming operator keeps is fed here as Spark would feed it, and goes through its saved
form between any two batches, as it does in the state store. Half of the logs come as Arrow columns, as they do from
Spark, half as Python values.
"""

from __future__ import annotations

import json
import math
import pickle
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from property_logs import Example, example

from pipelines.core.errors import TailraceError
from pipelines.job.expressions import instant_sql
from pipelines.live.engine import Machine
from pipelines.live.local_log import messages
from pipelines.live.spark.operator import restored, step
from pipelines.live.state.intake import PLAIN_ROWS, ROWS, Message, pack
from pipelines.live.state.output import Output
from pipelines.live.state.program import Program, refuse
from pipelines.live.state.rows import Decision, LogOutOfOrder, decisions_of
from pipelines.live.windows.by_column import ColumnBuffer
from pipelines.live.windows.by_row import RowBuffer
from pipelines.reference.engine import Outcome, run

PROFILES = ("stream_analytics", "atlas", "stream_insight")
CASES = 400


class Stream:
    """One job's stream: a machine in its saved form, and the two tables as they stand."""

    def __init__(self, one: Example) -> None:
        self.program = Program(one.job)
        self.saved: tuple[bytes] | None = None
        self.total = Output()
        self.decisions: list[Decision] = []
        self.provisional: list[Decision] = []

    def batch(self, commit: Sequence[Message]) -> None:
        machine = restored(self.saved, self.program.job)
        output = step(self.program, machine, list(commit), self._save)
        if output.error is not None:
            raise output.error
        self.decisions += decisions_of(output.verdicts)
        self.total.results += output.results
        if output.moved:
            self.provisional = decisions_of(output.provisional_verdicts)
            self.total.provisional_results = output.provisional_results

    def _save(self, machine: bytes) -> None:
        self.saved = (machine,)

    def tables(self) -> tuple[Counter[Any], Counter[Any]]:
        decisions = [*self.decisions, *self.provisional]
        results = [*self.total.results, *self.total.provisional_results]
        return (
            Counter(tuple(one) for one in decisions),
            Counter((*one[:3], tuple(map(canonical, one.values))) for one in results),
        )


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value + 0.0)
    if isinstance(value, list):
        return tuple(map(canonical, value))
    return value


def expected(outcome: Outcome) -> tuple[Counter[Any], Counter[Any]]:
    fates = Counter(
        (
            *(one.input, one.input_partition, one.sequence, one.arrival_time_us, one.event_time_us, one.verdict),
            *(one.reasons, one.system_timestamp_us, one.lifetime_end_us, one.watermark_us, one.missed_windows_us),
        )
        for one in outcome.fates
    )
    windows = Counter(
        (one.window_start_us, one.window_end_us, one.window_id, tuple(map(canonical, one.values.values())))
        for one in outcome.windows
    )
    return fates, windows


def in_either_form(chance: Random, commits: list[list[Message]]) -> list[list[Message]]:
    if chance.random() < 0.5:
        return commits
    return [[arrow(message) if message.kind == PLAIN_ROWS else message for message in commit] for commit in commits]


def arrow(message: Message) -> Message:
    return message._replace(kind=ROWS, body=pack(pa.table(pickle.loads(message.body))))


def runnable(seed: int, profile: str) -> tuple[Example, Outcome] | None:
    """The example of that seed and what the reference gives for it; None where either engine refuses it."""
    one = example(seed, profile, plain=True)
    try:
        refuse(one.job)
        return one, run(one.job, one.log, instant_sql=instant_sql)
    except TailraceError:
        return None


def no_evaluator(*_: Any) -> Any:
    raise AssertionError("plain columns need no evaluator")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_stream_gives_the_reference_whatever_the_commits_and_their_order_with_the_announcement(
    profile: str,
) -> None:
    ran = 0
    holders: Counter[type] = Counter()
    for seed in range(CASES):
        found = runnable(seed, profile)
        if found is None:
            continue
        (one, outcome), chance = found, Random(seed)
        cuts = sorted(chance.sample(range(1, max(2, len(one.log))), min(3, len(one.log) // 2)))
        *commits, announced = in_either_form(chance, messages(Program(one.job), one.log, no_evaluator, cuts))
        stream = Stream(one)
        commits.insert(chance.randint(0, len(commits)), announced)
        if chance.random() < 0.3:
            # the last file of a commit may reach the operator before its first
            commits = [sorted(commit, key=lambda message: chance.random()) for commit in commits]
        for commit in commits:
            stream.batch(commit)
        assert stream.tables() == expected(outcome), one
        ran += 1
        holders.update(set(map(type, Machine.new(one.job).members)))
    assert ran > CASES // 2
    # grids of stream_analytics are windowed by the column, all else row by row
    assert holders[RowBuffer] > CASES // 10
    assert holders[ColumnBuffer] > CASES // 10 or profile != "stream_analytics"


@pytest.mark.parametrize("profile", PROFILES)
def test_stopping_after_each_commit_and_telling_the_end_each_time_changes_nothing(profile: str) -> None:
    """A partition heard for the first time after others were decided begins the stream again, as a run does."""
    restarts = 0
    for seed in range(CASES):
        found = runnable(seed, profile)
        if found is None:
            continue
        (one, outcome), chance = found, Random(seed)
        cuts = sorted(chance.sample(range(1, max(2, len(one.log))), min(3, len(one.log) // 2)))
        *commits, _ = in_either_form(chance, messages(Program(one.job), one.log, no_evaluator, cuts))
        ends = [*cuts, len(one.log)]
        stream, known = Stream(one), heard(one, 0)
        for number, commit in enumerate(commits):
            now = heard(one, ends[number])
            try:
                if number and undeclared(one, known, now):
                    raise LogOutOfOrder("a partition nobody knew")
                stream.batch([*commit, announcement(number, [number], commits, now)])
            except LogOutOfOrder:
                stream, restarts = Stream(one), restarts + 1
                whole = [message for earlier in commits[: number + 1] for message in earlier]
                stream.batch([announcement(number, range(number + 1), commits, now), *whole])
            known = now
        assert stream.tables() == expected(outcome), one
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


def announcement(
    number: int, which: Sequence[int], commits: Sequence[Sequence[Message]], partitions: dict[str, list[int]]
) -> Message:
    portions = [
        {"input": message.input, "files": {message.file: message.row_count}}
        for place in which
        for message in commits[place]
    ]
    body = {"number": number, "end_of_log": True, "portions": portions, "partitions": partitions}
    return Message("announcement", "", "", 0, json.dumps(body).encode())
