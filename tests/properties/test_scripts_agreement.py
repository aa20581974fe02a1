"""Random scripts over random arrivals: they load, engines agree, and a range gives the cut of the whole."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from random_scripts import case_of, script_of

from pipelines.core.errors import TailraceError
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.transcripts import Case, Outcome, run_reference, run_spark
from pipelines.transcripts.judge import Row
from pipelines.transcripts.stream_engine import run_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

CASES = int(os.environ.get("TAILRACE_PROPERTY_CASES", "10"))
FIRST = int(os.environ.get("TAILRACE_PROPERTY_SEED", "0"))
TOGETHER = 25
"""Scripts whose streams run in one query."""
Rows = dict[str, Counter[object]]


CONSTRUCTS = (
    *("TumblingWindow(", "HoppingWindow(", "SlidingWindow(", "SessionWindow(", "Windows(", ", System.Timestamp()\n"),
    *("LAG(", "LAST(", "ISFIRST(", " WHEN ", "UNION", "HAVING", "LEFT", "CROSS APPLY", "OUTER APPLY", " r ON "),
    *("TopOne(", "Collect(", "CollectTop(", "PERCENTILE_CONT", "PARTITION BY PartitionId", "INTO out1"),
    *(" OVER k", "PartitionId\nON", "udf.twice(", "udf.mean(", "uda.range(", "SELECT *", "FROM r\n", "ON 1 = 1"),
    *("GetRecordProperties(", "LAG(*)", "LAST(*)", " CAST(k AS", "Collect()"),
    *("CASE", "TRY_CAST", "DATEDIFF", "DATEADD", "LIKE", "COALESCE", "COUNT(DISTINCT"),
)


def test_every_script_loads_and_each_construct_occurs() -> None:
    seeds = range(max(120, CASES))
    texts = [script_of(seed) for seed in seeds]
    assert [seed for seed in seeds if not loads(seed)] == []
    assert [word for word in CONSTRUCTS if sum(word in text for text in texts) < 3] == []


def loads(seed: int) -> bool:
    try:
        return case_of(seed).job is not None
    except TailraceError:
        return False


@pytest.mark.spark
@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, TOGETHER))
def test_engines_agree_on_random_scripts(first: int, spark: SparkSession) -> None:
    seeds = range(first, min(first + TOGETHER, FIRST + CASES))
    found = [case_of(seed) for seed in seeds]
    live = run_stream([whole(case) for case in found], spark)
    problems: list[str] = []
    empty: list[bool] = []
    for seed, case, streamed in zip(seeds, found, live, strict=True):
        expected = run_reference(whole(case))
        batch = run_spark(case, spark)
        problems += difference(f"script {seed}, live", rows(expected, EVERYTHING), rows(streamed, EVERYTHING))
        problems += difference(f"script {seed}, batch", rows(expected, case.output), rows(batch, EVERYTHING))
        empty += [not given for given in rows(expected, EVERYTHING).values()]
    assert not problems, "\n".join(problems)
    assert sum(empty) < len(empty) / 2


def whole(case: Case) -> Case:
    return replace(case, output=EVERYTHING)


def rows(outcome: Outcome, output: OutputRange) -> Rows:
    """The rows of each output that are in the range, each with the number of its copies."""
    assert outcome.error is None, outcome.error
    return {name: Counter(map(plain, kept(found, output))) for name, found in outcome.outputs.items()}


def kept(found: Iterable[Row], output: OutputRange) -> list[Row]:
    return [row for row in found if row["system_timestamp"] in output]  # type: ignore[operator]


def plain(found: object) -> object:
    """Hashable, with floats to nine digits: deviations are rounded differently by design."""
    if isinstance(found, dict):
        return tuple(sorted((key, plain(item)) for key, item in found.items()))
    if isinstance(found, list | tuple):
        return tuple(map(plain, found))
    # NaN does not equal itself
    return repr(round(found, 9) + 0.0) if isinstance(found, float) else found


def difference(what: str, expected: Rows, found: Rows) -> list[str]:
    lines = []
    for name in expected | found:
        left, right = expected.get(name, Counter()), found.get(name, Counter())
        lines += [f"{what}, {name}: only the reference engine x{n}: {row}" for row, n in (left - right).items()]
        lines += [f"{what}, {name}: only this engine x{n}: {row}" for row, n in (right - left).items()]
    return lines
