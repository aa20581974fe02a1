"""The transcript library, and the transcripts that must fail, on the live engine: all in one streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from test_transcripts import BY_ID, FOLDER, MUST_FAIL

from pipelines.core.errors import UsageError
from pipelines.live.expressions import refuse
from pipelines.transcripts import Case, judge, read_file
from pipelines.transcripts.stream_engine import run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.transcripts import Outcome

NEGATIVE = {stem: read_file(FOLDER / "negative" / f"{stem}.yaml") for stem in MUST_FAIL}


def _is_refused(case: Case) -> bool:
    """Does the live engine have no machinery for the case's steps?"""
    if case.job is None or case.job.steps is None:
        return False
    try:
        refuse(case.job)
    except UsageError:
        return True
    return False


GIVEN = [name for name, case in BY_ID.items() if not _is_refused(case)]


def test_few_transcripts_are_refused() -> None:
    refused = {BY_ID[name].job.profile for name in BY_ID.keys() - set(GIVEN)}  # type: ignore[union-attr]
    assert refused == {"atlas", "stream_insight"}
    assert len(GIVEN) > 0.95 * len(BY_ID)


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """What the stream gives for every selected case."""
    wanted = {item.callspec.params["name"] for item in request.session.items if "outcomes" in _fixtures(item)}
    cases = {name: BY_ID[name] if name in BY_ID else NEGATIVE[name][0] for name in sorted(wanted)}
    return dict(zip(cases, run_stream(list(cases.values()), spark), strict=True))


def _fixtures(item: pytest.Item) -> list[str]:
    return (
        item.fixturenames
        if isinstance(item, pytest.Function) and item.path.name == "test_stream_transcripts.py"
        else []
    )


@pytest.mark.spark
@pytest.mark.parametrize("name", GIVEN, ids=GIVEN)
def test_the_live_engine_gives_what_the_transcript_expects(name: str, outcomes: dict[str, Outcome]) -> None:
    assert judge(BY_ID[name], outcomes[name]) == []


@pytest.mark.spark
@pytest.mark.parametrize("name", MUST_FAIL)
def test_a_wrong_expectation_fails_and_its_corrected_twin_passes_on_the_live_engine(
    name: str, outcomes: dict[str, Outcome]
) -> None:
    wrong, corrected = NEGATIVE[name]
    assert MUST_FAIL[name] in judge(wrong, outcomes[name])[0]
    assert judge(corrected, outcomes[name]) == []
