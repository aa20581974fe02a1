"""Each figure of ``tune`` is that of a run under the setting: the reference engine runs each over the whole log."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from property_logs import ROUNDED, Example, example
from test_engine_agreement import CASES, PROFILES, canonical, in_python, on_spark, reference, seeds

from pipelines.core.errors import UsageError
from pipelines.core.model import Job, output_name
from pipelines.core.time import SECOND
from pipelines.plan.bounded_reads import BoundedReads, bounded_reads
from pipelines.plan.read_range import ReadRange
from pipelines.transcripts.engines import arrival_frames
from pipelines.transcripts.judge import Outcome
from pipelines.transcripts.listed_history import ListedHistory
from pipelines.tune.at_once import cells_of
from pipelines.tune.result import Figures
from pipelines.tune.run import Scan, measured
from pipelines.tune.settings import FLAGS, Setting, settings_of
from pipelines.tune.truth import truth_of, truth_states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = {
    "--late": ["0s", "1s", "5s", "1m", "unbounded"],
    "--out-of-order": ["0s", "1s", "7s"],
    "--early": ["0s", "3s", "5m", "off"],
    "--allowed-lateness": ["0s", "1s", "3s", "7s"],
    "--delay": ["0s", "-1us", "1s", "5s"],
}
NEVER_COUNTS = {"invalid_time", "invalid_key", "orphan_end", "cancelled"}


def tried(one: Example) -> tuple[Setting, ...]:
    """A few settings of the example's job."""
    chance = Random(one.seed)
    lists = {}
    for flag in FLAGS[one.job.profile]:
        values = ",".join(chance.sample(VALUES[flag], chance.choice([1, 2])))
        try:
            settings_of(one.job, {flag: values})
        except UsageError:
            continue  # a flag that has no effect in this job
        lists[flag] = values
    return settings_of(one.job, lists)


def reading(one: Example, job: Job) -> BoundedReads:
    bucket_us = Random(one.seed).choice([1, SECOND, 7 * SECOND])
    return bounded_reads(job, one.output, ListedHistory(job, one.log, bucket_us))


def tuned(spark: SparkSession, one: Example, asked: Sequence[Setting]) -> list[Figures]:
    truth = truth_of(one.job)
    whole = BoundedReads(ReadRange(None, None, ""), None)
    of_truth = reading(one, truth) if one.job.profile == "stream_analytics" else whole
    reads = [reading(one, setting.job) for setting in asked]
    scan = Scan(arrival_frames(spark, one.job, one.log), {}, one.output)
    return measured(asked, reads, of_truth, scan)[0]


def true_outcome(one: Example) -> Outcome:
    events = tuple(row for row in one.log if row.punctuation_us is None)
    return reference(replace(one, job=truth_of(one.job), log=events), initial_states=truth_states(one.job))


def by_key(job: Job, outcome: Outcome) -> dict[Any, list[Any]]:
    keys = ["window_start", "window_end", "window_id", *map(output_name, job.window_query.group_by)]
    found: dict[Any, list[Any]] = {}
    for row in outcome.windows:
        found.setdefault(tuple(canonical(row[name]) for name in keys), []).append(row)
    return found


def same(job: Job, left: list[Any], right: list[Any], names: Sequence[str]) -> bool:
    def rows(part: list[Any]) -> Counter[Any]:
        return Counter(tuple(canonical(row[name], name) for name in names) for row in part)

    return rows(left) == rows(right)


def amounts(job: Job, name: str, mine: dict[Any, list[Any]], true: dict[Any, list[Any]]) -> Iterator[float]:
    (aggregate,) = (each for each in job.window_query.aggregates if each.name == name)
    absent = 0 if aggregate.function in ("count", "sum") else None
    for key in {*mine, *true}:
        rows = [found.get(key, []) for found in (mine, true)]
        if max(map(len, rows)) > 1:
            continue
        left, right = (part[0][name] if part else absent for part in rows)
        if isinstance(left, int | float) and isinstance(right, int | float):
            amount = abs(float(left - right))
            if math.isfinite(amount):
                yield amount


@pytest.mark.spark
@pytest.mark.parametrize("profile", PROFILES)
def test_each_figure_is_that_of_a_run_under_the_setting(profile: str, spark: SparkSession) -> None:
    @settings(on_spark, max_examples=max(2, CASES // 8))
    @given(seeds)
    def agrees(seed: int) -> None:
        compare(spark, example(seed, profile))

    agrees()


@pytest.mark.spark
def test_settings_that_are_measured_at_once_have_the_same_figures(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("pipelines.tune.run.one_by_one")

    @settings(on_spark, max_examples=max(4, CASES // 4))
    @given(seeds)
    def agrees(seed: int) -> None:
        compare(spark, next(one for number in count(seed) if is_shared(one := example(number, "stream_analytics"))))

    agrees()


def is_shared(one: Example) -> bool:
    begin_empty = all(reading(one, setting.job).initial_states is None for setting in tried(one))
    return begin_empty and cells_of(one.job) is not None


def compare(spark: SparkSession, one: Example) -> None:
    asked = tried(one)
    true = true_outcome(one)
    for found, setting in zip(tuned(spark, one, asked), asked, strict=True):
        check(one, setting, found, reference(replace(one, job=setting.job)), true)


def check(one: Example, setting: Setting, found: Figures, run: Outcome, true: Outcome) -> None:
    verdicts = Counter(row["verdict"] for row in run.verdicts)
    reasons = Counter(reason for row in run.verdicts for reason in row["reasons"])
    moved = [row["system_timestamp"] - row["event_time"] for row in run.verdicts if row["verdict"] == "adjusted"]
    told = found.decisions
    assert (told.counts_by_verdict, told.counts_by_reason) == (verdicts, reasons), (setting, one)
    assert (told.moved_sum_us, told.moved_max_us) == (sum(moved), max(moved, default=0)), (setting, one)
    assert told.events == len(run.verdicts)

    names = [each.name for each in one.job.window_query.aggregates]
    mine, theirs = by_key(one.job, run), by_key(one.job, true)
    keys = {*mine, *theirs}

    def differing(columns: Sequence[str]) -> int:
        return sum(not same(one.job, mine.get(key, []), theirs.get(key, []), columns) for key in keys)

    what = found.differences
    counts = (len(keys), differing(names), len({*theirs} - {*mine}), len({*mine} - {*theirs}))
    assert (what.windows, what.differ, what.missing, what.extra) == counts, (setting, one)
    for name, value in what.values:
        if name in ROUNDED:
            continue
        assert value.windows == differing([name]), (name, setting, one)
        expected = list(amounts(one.job, name, mine, theirs))
        if value.sum is None:
            assert not expected or name == "all_values", (name, setting, one)
        else:
            assert value.max == max(expected), (name, setting, one)
            assert value.sum == math.fsum(expected), (name, setting, one)


@pytest.mark.parametrize("profile", PROFILES)
@in_python
@given(seeds)
def test_in_the_complete_truth_every_event_that_can_count_does_so_at_its_own_time(profile: str, seed: int) -> None:
    one = example(seed, profile, plain=True)
    for row in true_outcome(one).verdicts:
        if not NEVER_COUNTS.intersection(row["reasons"]):
            assert row["verdict"] == "accepted", one
            # an end edge counts at its end
            is_edge = one.job.input(row["input"]).shape == "edge"
            assert row["system_timestamp"] == row["event_time"] or is_edge, (row, one)
