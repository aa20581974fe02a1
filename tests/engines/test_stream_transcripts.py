"""The transcript library, and the transcripts that must fail, on the live engine: all in one streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from test_transcripts import BY_ID, FOLDER, MUST_FAIL

from pipelines.transcripts import judge, read_file
from pipelines.transcripts.stream import run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.transcripts import Outcome

# the live engine runs queries of one step with one window
ONE_STEP = [name for name, case in BY_ID.items() if case.job is None or case.job.steps is None]
NEGATIVE = {
    stem: cases
    for stem in MUST_FAIL
    if (cases := read_file(FOLDER / "negative" / f"{stem}.yaml"))[1].job is None or cases[1].job.steps is None
}


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
@pytest.mark.parametrize("name", ONE_STEP)
def test_the_live_engine_gives_what_the_transcript_expects(name: str, outcomes: dict[str, Outcome]) -> None:
    assert judge(BY_ID[name], outcomes[name]) == []


@pytest.mark.spark
@pytest.mark.parametrize("name", list(NEGATIVE))
def test_a_wrong_expectation_fails_and_its_corrected_twin_passes_on_the_live_engine(
    name: str, outcomes: dict[str, Outcome]
) -> None:
    wrong, corrected = NEGATIVE[name]
    assert MUST_FAIL[name] in judge(wrong, outcomes[name])[0]
    assert judge(corrected, outcomes[name]) == []
