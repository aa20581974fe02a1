"""Random steps on random logs, live: whatever the commits, outputs are those of the reference engine, each row once.

No Spark: expressions are columns and fields alone, and the engine goes through its saved form between two batches.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from random_steps import Example, example

from pipelines.core.model import StreamAnalyticsOrdering
from pipelines.core.time import SECOND
from pipelines.core.values import grouping_key
from pipelines.lakehouse.arrival_rows import row_values
from pipelines.live.local_log import announcement, messages
from pipelines.live.spark.operator import run_batch
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import Slice
from pipelines.live.steps.expressions import plain
from pipelines.live.steps.outputs import outputs, shown
from pipelines.live.steps.references import listed
from pipelines.live.steps.relation import Columns
from pipelines.reference.engine import run
from pipelines.transcripts.engines import reference_outcome

CASES = int(os.environ.get("TAILRACE_PROPERTY_CASES", "200"))
Rows = dict[str, Counter[Any]]


def moved(seed: int, chance: Random) -> Example:
    """An example whose watermark advances from row to row, and moves some of them."""
    one = example(seed)
    late_us, back_us = (chance.choice([0, 0, 1, 3]) * SECOND for _ in range(2))
    ordering = StreamAnalyticsOrdering(late_arrival_us=late_us, out_of_order_us=back_us)
    orderings = tuple((name, ordering) for name, _ in one.job.orderings)
    job = replace(one.job, orderings=orderings, end_of_log=chance.choice(["flush", "hold"]))
    # with one partition an input's time advances with each row
    return replace(one, job=job, log=tuple(replace(row, input_partition=0) for row in one.log))


def evaluate(given: Columns, texts: Iterable[str]) -> dict[str, pa.ChunkedArray]:
    found = {text: plain(given, text) for text in texts}
    assert None not in found.values()
    return {text: column for text, column in found.items() if column is not None}


def live(one: Example, cuts: list[int]) -> Rows:
    """The rows of each output after all commits, each in a batch with its announcement."""
    assert one.job.steps is not None
    *commits, _ = messages(CompiledJob(one.job), one.log, None, cuts)  # type: ignore[arg-type]
    partitions = {part.name: [0] for part in one.job.inputs if any(row.input == part.name for row in one.log)}
    saved: list[bytes] = []
    found: Rows = {output.name: Counter() for output in one.job.steps.outputs}
    rest: Slice | None = None
    for number, commit in enumerate(commits):
        announced = announcement(number, commit, partitions, end_of_log=number == len(commits) - 1)
        output = run_batch(saved[-1] if saved else None, one.job, [*commit, announced], saved.append)
        if output.error is not None:
            raise output.error
        add(found, one, output.slice)
        rest = output.provisional_slice if output.advanced else rest
    add(found, one, rest)
    return found


def add(found: Rows, one: Example, given: Slice | None) -> None:
    if given is not None:
        for name, rows in outputs(one.job, given, listed(one.job, one.references), evaluate).items():
            found[name].update(map(canonical, row_values(shown(rows))))


def canonical(row: Mapping[str, Any]) -> Any:
    return grouping_key(list(row.values()))


@pytest.mark.parametrize("seed", range(CASES))
def test_outputs_are_those_of_the_reference_engine(seed: int) -> None:
    chance = Random(seed)
    one = moved(seed, chance)
    cuts = sorted(chance.sample(range(1, len(one.log)), chance.choice([0, 1, len(one.log) - 1])))
    expected = reference_outcome(one.job, run(one.job, one.log, references=one.references)).outputs
    assert live(one, cuts) == {name: Counter(map(canonical, rows)) for name, rows in expected.items()}
