"""Random steps on random rows: the engines agree."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_steps import Example, example, without

from pipelines.batch.spark.expressions import SparkExpressions
from pipelines.batch.spark.local_rows import local_frame, local_rows
from pipelines.batch.steps.outputs import evaluate
from pipelines.core.model import Arrival
from pipelines.plan.extent import Extent
from pipelines.plan.paths import extents
from pipelines.reference.engine import run
from pipelines.transcripts.engines import reference_frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = int(os.environ.get("TAILRACE_PROPERTY_CASES", "24"))
quick = settings(
    deadline=None,
    derandomize=CASES <= 50,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    database=None,
)
seeds = st.integers(0, 2**40)
Rows = dict[str, list[tuple[Any, ...]]]


def reference(one: Example) -> Rows:
    """The rows of each output in the order of their relation, as the reference engine gives them."""
    outcome = run(one.job, one.log, one.output, evaluate=SparkExpressions(), references=one.references)
    return {
        name: [(row.at_us, *(row.values[column] for column in ("k", "v", "ok"))) for row in relation.rows]
        for name, relation in outcome.outputs.items()
    }


def batch(spark: SparkSession, one: Example) -> Rows:
    """The rows of each output as the batch engine gives them, in any order."""
    inputs = {part.name: counted(spark, one, part.name) for part in one.job.inputs}
    data = reference_frames(spark, one.job, one.references)
    frames = evaluate(one.job, inputs, data, output=one.output).outputs
    return {
        name: [tuple(row[column] for column in ("system_timestamp", "k", "v", "ok")) for row in local_rows(frame)]
        for name, frame in frames.items()
    }


def counted(spark: SparkSession, one: Example, name: str) -> DataFrame:
    """The events of an input, which all count at their own time."""
    columns = [(column.name, column.type) for column in one.job.input(name).columns]
    columns += [("arrival_time", "timestamp"), ("input_partition", "int"), ("sequence", "bigint")]
    rows = [
        (*row.payload.values(), row.arrival_time_us, row.input_partition, row.sequence, row.payload["at"])
        for row in one.log
        if row.input == name
    ]
    return local_frame(spark, [*columns, ("system_timestamp", "timestamp")], rows)


def difference(one: Rows, other: Rows) -> str:
    """The rows that only one of the two has; empty where they agree."""
    lines = []
    for name in one:
        left, right = Counter(one[name]), Counter(other[name])
        lines += [f"{name} only left  x{count}: {row}" for row, count in (left - right).items()]
        lines += [f"{name} only right x{count}: {row}" for row, count in (right - left).items()]
    return "\n".join(lines)


def smallest(spark: SparkSession, one: Example, tries: int = 40) -> Example:
    """The example without as many rows as ``tries`` runs find to make no difference to the difference."""
    for place in reversed(range(min(len(one.log), tries))):
        shorter = without(one, range(place, place + 1))
        if difference(reference(shorter), batch(spark, shorter)):
            one = shorter
    return one


@settings(quick, max_examples=max(200, CASES))
@given(seeds)
def test_the_order_in_which_rows_are_given_changes_nothing(seed: int) -> None:
    one = example(seed)
    shuffled = list(one.log)
    Random(seed).shuffle(shuffled)
    assert reference(one) == reference(replace(one, log=tuple(shuffled))), one


@settings(quick, max_examples=max(200, CASES))
@given(seeds)
def test_no_two_rows_of_an_output_have_the_same_place(seed: int) -> None:
    one = example(seed)
    found = run(one.job, one.log, references=one.references).outputs
    for relation in found.values():
        places = [(row.at_us, row.order) for row in relation.rows]
        assert len(set(places)) == len(places), one


@settings(quick, max_examples=max(400, CASES))
@given(seeds)
def test_a_range_from_what_its_steps_look_back_and_ahead_alone_is_the_cut_of_the_whole(seed: int) -> None:
    one = example(seed)
    from_us, to_us = one.output.from_us, one.output.to_us
    if from_us is None or to_us is None:
        return
    reach = extents(one.job)
    read = tuple(row for row in one.log if row.input in reach and _in_reach(reach[row.input], row, from_us, to_us))
    assert reference(one) == reference(replace(one, log=read)), one


def _in_reach(extent: Extent, row: Arrival, from_us: int, to_us: int) -> bool:
    assert extent.back_us is not None
    at_us = row.payload["at"]
    assert isinstance(at_us, int)
    return from_us - extent.back_us <= at_us < to_us + extent.ahead_us


@pytest.mark.spark
@pytest.mark.parametrize("with_sql", [False, True])
def test_the_batch_engine_agrees_with_the_reference_engine(spark: SparkSession, with_sql: bool) -> None:
    @settings(quick, max_examples=max(1, CASES // 4))
    @given(seeds)
    def agrees(seed: int) -> None:
        one = example(seed, with_sql=with_sql)
        if difference(reference(one), batch(spark, one)):
            small = smallest(spark, one)
            found = difference(reference(small), batch(spark, small))
            pytest.fail(f"reference (left) and batch (right) differ:\n{found}\n{small!r}", pytrace=False)

    agrees()
