"""The transcript library, and the transcripts that must fail, on every engine that exists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipelines.core.expressions import plain_column
from pipelines.core.model import Column
from pipelines.core.steps import Steps
from pipelines.transcripts import Case, Outcome, Verdict, judge, read_file, run_case, run_reference, run_spark
from pipelines.transcripts.engines import TINY_PROGRAMS, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parents[1] / "transcripts"
LIBRARY = [
    (f"{path.parent.name}/{path.stem}: {case.name}", case)
    for profile in ("stream_analytics", "atlas", "stream_insight")
    for path in sorted((FOLDER / profile).rglob("*.yaml"))
    for case in read_file(path)
]
BY_ID = dict(LIBRARY)
"""The names are the ids of the cases too: pytest would number those of long texts, and ``-k`` would pass over them."""

MUST_FAIL = {
    "extra_output_row": "output 'output': row {system_timestamp: 2026-01-01T12:05:00Z",
    "extra_row": "windows: row {window_start: 2026-01-01T12:10:00Z",
    "extra_verdict": "verdicts: event cars/0/2 is not expected",
    "last_bit": "total is 0.30000000000000004, expected 0.3",
    "missing_output_row": "output 'output': row {system_timestamp: 2026-01-01T12:05:00Z, booth: a",
    "missing_row": "booth: b, n: 1} is missing",
    "missing_verdict": "verdicts: event cars/0/3 is missing",
    "no_error": "error: none, expected one that contains 'late_arrival'",
    "output_column": "output 'output': there is no column 'price'",
    "output_time": "system_timestamp is 2026-01-01T12:05:00Z, expected 2026-01-01T12:05:00.000001Z",
    "repeated_row": "booth: b, n: 1, total: 0.4} is missing",
    "unknown_column": "windows: there is no column 'count'",
    "verdict_time": "system_timestamp is 2026-01-01T12:05:00Z, expected 2026-01-01T12:05:00.000001Z",
    "window_bounds": "window_start is 2026-01-01T12:00:00Z, expected 2026-01-01T12:00:00.000001Z",
    "wrong_count": "n is 2, expected 1",
    "wrong_group": "booth is a, expected b",
    "wrong_plan": "plan: read_from is null, expected 2026-01-01T12:00:00Z",
    "wrong_reason": "reasons is [late, out_of_order], expected [out_of_order]",
    "wrong_verdict": "verdict is adjusted, expected dropped",
}
"""Transcript in ``negative/`` -> part of its first difference."""


def test_the_library_covers_each_profile_and_names_no_case_twice() -> None:
    assert len(BY_ID) == len(LIBRARY)
    counts = {profile: sum(name.startswith(profile) for name in BY_ID) for profile in ("stream_analytics", "atlas")}
    assert counts["stream_analytics"] >= 40
    assert counts["atlas"] >= 20
    assert sum(name.startswith("stream_insight") for name in BY_ID) >= 20


def _asks_spark(case: Case) -> bool:
    """Does the reference engine need the evaluator of expressions, which is Spark's?"""
    if case.job is None:
        return False
    query, inputs = case.job.query, case.job.inputs
    times = [text for part in inputs for text in (part.timestamp_by, part.end_by) if text is not None]
    columns = [column for part in inputs for column in part.columns]
    if any(found is None or found.type != "timestamp" for found in (plain_column(text, columns) for text in times)):
        return True
    if isinstance(query, Steps):
        return True
    columns += [Column(f"{part.name}.{column.name}", column.type) for part in inputs for column in part.columns]
    texts = [query.where, *(aggregate.argument for aggregate in query.aggregates)]
    return any(text is not None and plain_column(text, columns) is None for text in texts)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.spark] if _asks_spark(case) else [], id=name) for name, case in LIBRARY],
)
def test_the_reference_engine_gives_what_the_transcript_expects(name: str) -> None:
    assert run_case(BY_ID[name], "reference").differences == ()


@pytest.fixture(scope="module")
def spark_verdicts(spark: SparkSession, request: pytest.FixtureRequest) -> dict[str, Verdict]:
    """Every selected case on the batch engine. Each eighth compiles its programs, as a replay does."""
    selected = dict.fromkeys(
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_the_batch_engine_gives_the_same"
    )
    verdicts = {}
    for number, name in enumerate(selected):
        compiled = {key: None for key in TINY_PROGRAMS if "codegen" in key} if number % 8 == 0 else {}
        with settings(spark, compiled):
            verdicts[name] = run_case(BY_ID[name], "spark", session=spark)
    return verdicts


@pytest.mark.spark
@pytest.mark.parametrize("name", BY_ID, ids=list(BY_ID))
def test_the_batch_engine_gives_the_same(name: str, spark_verdicts: dict[str, Verdict]) -> None:
    assert spark_verdicts[name].differences == ()


# -- transcripts that must fail ---------------------------------------------------------------------------------------


def test_every_negative_transcript_has_a_named_reason() -> None:
    assert {path.stem for path in (FOLDER / "negative").glob("*.yaml")} == set(MUST_FAIL)


@pytest.mark.parametrize("stem", MUST_FAIL)
def test_a_wrong_expectation_fails_and_its_corrected_twin_passes_on_the_reference_engine(stem: str) -> None:
    wrong, corrected = read_file(FOLDER / "negative" / f"{stem}.yaml")
    outcome = run_reference(wrong)
    assert MUST_FAIL[stem] in judge(wrong, outcome)[0]
    assert judge(corrected, outcome) == []


_OUTCOMES: dict[tuple[str, str], Outcome] = {}


def _outcome_on_spark(spark: SparkSession, case: Case) -> Outcome:
    """What the batch engine gives: the negative transcripts share one job and one log, so it runs once."""
    assert case.job is not None
    key = (case.job.fingerprint, repr(case.arrivals))
    if key not in _OUTCOMES:
        _OUTCOMES[key] = run_spark(case, spark)
    return _OUTCOMES[key]


@pytest.mark.spark
@pytest.mark.parametrize("stem", MUST_FAIL)
def test_a_wrong_expectation_fails_and_its_corrected_twin_passes_on_the_batch_engine(
    stem: str, spark: SparkSession
) -> None:
    wrong, corrected = read_file(FOLDER / "negative" / f"{stem}.yaml")
    outcome = _outcome_on_spark(spark, wrong)
    assert MUST_FAIL[stem] in judge(wrong, outcome)[0]
    assert judge(corrected, outcome) == []
