"""Random jobs on random logs: the engines agree, and no result depends on where reading begins or how rows lie.

``TAILRACE_PROPERTY_CASES`` sets how many examples Spark gets in all: 16 by default, 2000 in `make test-long`.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from property_logs import ROUNDED, Example, example, without

from pipelines.batch import engine
from pipelines.batch.logs import LogSlice
from pipelines.batch.spark.expressions import SparkExpressions
from pipelines.batch.spark.local_rows import local_rows
from pipelines.batch.stream_analytics.watermarks import statistics, strategy, task_ranges
from pipelines.core.model import Arrival, Grid, OutputRange
from pipelines.core.time import MINUTE, SECOND
from pipelines.job.expressions import instant_sql
from pipelines.plan.bounded_reads import BoundedReads, bounded_reads
from pipelines.plan.initial_state import InitialStates
from pipelines.plan.watermark_strategy import WatermarkStrategy, cell_grid_of
from pipelines.reference.engine import run
from pipelines.transcripts.engines import arrival_frame, arrival_frames, reference_outcome, run_batch
from pipelines.transcripts.judge import Outcome
from pipelines.transcripts.listed_history import ListedHistory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = int(os.environ.get("TAILRACE_PROPERTY_CASES", "16"))
PACKED = WatermarkStrategy("packed", "packed", "asked for")
GRID_CELLS = WatermarkStrategy("packed", "grid_cells", "asked for")
FILE_ORDER = WatermarkStrategy("file_order", "file_order", "asked for")
FILE_ORDER_IN_CELLS = WatermarkStrategy("file_order", "grid_cells", "asked for")
STRATEGIES = (PACKED, GRID_CELLS, FILE_ORDER, FILE_ORDER_IN_CELLS)
PROFILES = ("stream_analytics", "atlas", "stream_insight")

# an example on Spark takes a second, so failures are made small by our own means, not by thousands of tries
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "ci", deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=_QUIET, database=None
)
settings.register_profile("long", settings.get_profile("ci"), derandomize=False)
LONG = CASES > 50
BASE = settings.get_profile("long" if LONG else "ci")
on_spark = settings(BASE, max_examples=max(1, CASES // 4))
in_python = settings(BASE, max_examples=max(200, CASES))
seeds = st.integers(0, 2**40)


def canonical(value: object, column: str = "") -> object:
    """A value that equals another only if both are the same bits; NaN is one value, and so is zero."""
    if isinstance(value, float):
        if column in ROUNDED and math.isfinite(value):
            return f"{value:.11e}"
        return "NaN" if math.isnan(value) else repr(value + 0.0)
    if isinstance(value, list | tuple):
        return tuple(canonical(item) for item in value)
    return value


def rows(part: Any) -> Counter[Any]:
    return Counter(tuple(sorted((key, canonical(value, key)) for key, value in row.items())) for row in part)


def difference(one: Outcome, other: Outcome) -> str:
    """The rows that only one of the two has; empty where they agree."""
    lines = []
    for name in ("verdicts", "windows"):
        left, right = rows(getattr(one, name)), rows(getattr(other, name))
        lines += [f"{name} only left  x{count}: {dict(row)}" for row, count in (left - right).items()]
        lines += [f"{name} only right x{count}: {dict(row)}" for row, count in (right - left).items()]
    return "\n".join(lines)


def reading(one: Example, output: OutputRange | None = None) -> tuple[BoundedReads, list[Arrival]]:
    """What a plan reads of the example, summed up in buckets of a size of its own."""
    bucket_us = Random(one.seed).choice([1, SECOND, 7 * SECOND, MINUTE])
    reads = bounded_reads(one.job, output or one.output, ListedHistory(one.job, one.log, bucket_us))
    return reads, [row for row in one.log if row.arrival_time_us in reads.range]


def reference(
    one: Example,
    log: Sequence[Arrival] | None = None,
    output: OutputRange | None = None,
    initial_states: InitialStates | None = None,
) -> Outcome:
    return reference_outcome(
        one.job,
        run(
            one.job,
            one.log if log is None else log,
            one.output if output is None else output,
            evaluate=SparkExpressions(),
            instant_sql=instant_sql,
            initial_states=initial_states,
        ),
    )


def batch(spark: SparkSession, one: Example, layout: int) -> Outcome:
    """The batch engine over the plan's arrivals alone, shuffled and spread over some files' worth of partitions."""
    chance = Random(layout)
    reads, log = reading(one)
    chance.shuffle(log)
    frames = arrival_frames(spark, one.job, log)
    parts = chance.randint(1, 4)
    return run_batch(
        one.job, {name: frame.repartition(parts) for name, frame in frames.items()}, one.output, reads.initial_states
    )


def slices_of(spark: SparkSession, one: Example, log: Sequence[Arrival]) -> engine.LogSlices:
    """Each input's arrivals in arrival order, cut into up to three files somewhere."""
    found: dict[str, list[LogSlice]] = {}
    for part in one.job.inputs:
        mine = sorted(
            (row for row in log if row.input == part.name),
            key=lambda row: (row.arrival_time_us, row.input_partition, row.sequence),
        )
        cuts = sorted(Random(one.seed).choices(range(len(mine) + 1), k=2))
        files = [rows for start, end in pairwise([0, *cuts, len(mine)]) if (rows := mine[start:end])]
        found[part.name] = [
            LogSlice(arrival_frame(spark, part, rows), rows[0].arrival_time_us, rows[-1].arrival_time_us)
            for rows in files
        ]
    return {name: partial(list, each) for name, each in found.items()}


def smallest(spark: SparkSession, one: Example, tries: int = 60) -> Example:
    """The example with as few rows as ``tries`` runs can find that still makes the engines differ."""
    size = max(1, len(one.log) // 2)
    while tries > 0:
        for start in range(0, len(one.log), size):
            tries -= 1
            shorter = without(one, range(start, start + size))
            if shorter.log and difference(reference(shorter), batch(spark, shorter, 0)):
                one = shorter
                break
        else:
            if size == 1:
                break
            size //= 2
        size = min(size, max(1, len(one.log) // 2))
    return one


@pytest.mark.spark
@pytest.mark.parametrize("profile", PROFILES)
def test_the_batch_engine_agrees_with_the_reference_engine(profile: str, spark: SparkSession) -> None:
    @on_spark
    @given(seeds)
    def agrees(seed: int) -> None:
        one = example(seed, profile)
        if difference(reference(one), batch(spark, one, seed)):
            small = smallest(spark, one)
            found = difference(reference(small), batch(spark, small, 0)) or "only in the layout of the whole"
            pytest.fail(f"reference (left) and spark (right) differ:\n{found}\n{small!r}", pytrace=False)

    agrees()


def with_cells(seed: int) -> Example:
    """The next example that ``grid_cells`` can decide; about one in sixteen is."""
    return next(one for number in count(seed) if cell_grid_of((one := example(number, "stream_analytics")).job))


@pytest.mark.spark
def test_every_watermark_strategy_agrees_with_the_reference_engine(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # small buckets and tasks, so that a short log is cut into ranges as a long one is
    monkeypatch.setattr(task_ranges, "ROWS_PER_TASK", 4)
    for module in (statistics, task_ranges):
        monkeypatch.setattr(module, "BUCKET_US", 2 * SECOND)
    applied = Counter[str]()

    def counted(name: str) -> Callable[..., object]:
        original = getattr(strategy, name)

        def call(*given: object) -> object:
            found = original(*given)
            applied[name] += found is not None
            return found

        return call

    replaceable = ("in_file_order", "packed", "by_cells")
    for name in replaceable:
        monkeypatch.setattr(strategy, name, counted(name))

    turns = count(1)

    @on_spark
    @given(seeds)
    def agrees(seed: int) -> None:
        turn = next(turns)
        one = with_cells(seed) if turn % 2 else example(seed, "stream_analytics")
        expected = reference(one)
        reads, log = reading(one)
        frames, slices = arrival_frames(spark, one.job, log), slices_of(spark, one, log)
        every_verdict = replace(one.job, keep_verdicts="all")
        exceptions = replace(one.job, keep_verdicts="exceptions")
        # few examples share the strategies and the two ways to ask for less, each of many has them all
        for asked in STRATEGIES if LONG else (STRATEGIES * 2)[turn % 4 : turn % 4 + 2]:
            found = run_batch(every_verdict, frames, one.output, reads.initial_states, asked, slices)
            assert not difference(expected, found), (asked, one)
        if LONG or turn % 4 == 0:
            fewer = run_batch(exceptions, frames, one.output, reads.initial_states, PACKED)
            assert not difference(expected, Outcome(expected.verdicts, fewer.windows)), one
        if LONG or turn % 4 == 1:
            alone = engine.windows_alone(one.job, frames, one.output, reads.initial_states, GRID_CELLS)
            assert not difference(expected, Outcome(expected.verdicts, tuple(local_rows(alone)))), one

    agrees()
    assert all(applied[name] for name in replaceable), f"a strategy never applied, only what replaces it: {applied}"


@pytest.mark.spark
def test_results_are_the_same_bits_however_rows_are_laid_out(spark: SparkSession) -> None:
    @settings(on_spark, max_examples=max(1, CASES // 8))
    @given(seeds, st.sampled_from(PROFILES))
    def same(seed: int, profile: str) -> None:
        one = example(seed, profile, plain=True)
        first, second = batch(spark, one, seed), batch(spark, one, seed + 1)
        exact = [Counter(map(repr, part)) for part in (first.verdicts, second.verdicts, first.windows, second.windows)]
        assert exact[0] == exact[1], one
        assert exact[2] == exact[3], one

    same()


@in_python
@given(seeds, st.sampled_from(PROFILES))
def test_a_range_from_its_read_range_alone_is_the_cut_of_the_whole(seed: int, profile: str) -> None:
    one = example(seed, profile, plain=True)
    reads, read = reading(one)
    found = difference(reference(one), reference(one, read, initial_states=reads.initial_states))
    assert not found, f"whole (left), read range (right):\n{found}\n{one!r}"


@in_python
@given(seeds, st.sampled_from(PROFILES))
def test_three_ranges_side_by_side_are_the_whole(seed: int, profile: str) -> None:
    one = example(seed, profile, plain=True)
    first, last = one.log[0].arrival_time_us, one.log[-1].arrival_time_us
    cuts = sorted(Random(seed).sample(range(first // 1_000_000 - 5, last // 1_000_000 + 10), 2))
    bounds = [None, *(cut * 1_000_000 for cut in cuts), None]
    parts = [_alone(one, OutputRange(*pair)) for pair in pairwise(bounds)]
    together = Outcome(
        tuple(row for part in parts for row in part.verdicts), tuple(row for part in parts for row in part.windows)
    )
    found = difference(reference(one, output=OutputRange()), together)
    assert not found, f"whole (left), three ranges (right):\n{found}\n{one!r}"


def _alone(one: Example, output: OutputRange) -> Outcome:
    reads, read = reading(one, output)
    return reference(one, read, output, reads.initial_states)


@in_python
@given(seeds, st.sampled_from(PROFILES))
def test_every_event_has_one_verdict_and_a_plain_grid_counts_each_that_was_not_dropped_once(
    seed: int, profile: str
) -> None:
    one = example(seed, profile, plain=True)
    whole = reference(one, output=OutputRange())
    events = Counter((row.input, row.input_partition, row.sequence) for row in one.log if row.punctuation_us is None)
    assert Counter((row["input"], row["partition"], row["sequence"]) for row in whole.verdicts) == events, one
    window = one.job.window_query.window
    points = all(part.shape == "point" for part in one.job.inputs)
    grid = isinstance(window, Grid) and window.size_us == window.hop_us
    if grid and points and one.job.window_query.join is None and one.job.end_of_log == "flush":
        counted = sum(row["n"] for row in whole.windows)
        assert counted == sum(row["verdict"] != "dropped" for row in whole.verdicts), one
