"""The page on queries: its example is a transcript, and its functions are those that scripts may call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.job.load import parse_job
from pipelines.job.sql.expressions.functions import FUNCTIONS, NOT_IN_THE_LANGUAGE
from pipelines.transcripts.read import read_text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "tests" / "transcripts" / "stream_analytics" / "steps" / "example_of_the_page.yaml"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_is_the_transcript_s_job(tmp_path: Path) -> None:
    (tmp_path / "alerts.asaql").write_text(block("sql"))
    (case,) = read_text(EXAMPLE.read_text())
    job = parse_job(block("yaml"), file=str(tmp_path / "alerts.yaml"))
    assert (job.references, job.query) == (case.job.references, case.job.query)
    assert (job.inputs, job.orderings) == (case.job.inputs, case.job.orderings)


def functions_in(heading: str) -> set[str]:
    """The names in backticks in the first column of the table under a header, in upper case."""
    table = PAGE.split(f"\n| {heading} |")[1].split("\n\n")[0]
    cells = [re.split(r"(?<!\\)\|", row)[1] for row in table.splitlines()[2:]]
    return {
        name.upper() for cell in cells for code in re.findall("`([^`]+)`", cell) for name in re.findall(r"\w+", code)
    }


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_the_page_names_every_function_of_the_language(function: str) -> None:
    assert function in functions_in("supported")


def test_the_page_names_no_function_as_both_supported_and_refused() -> None:
    assert functions_in("supported") & NOT_IN_THE_LANGUAGE.keys() == {"GETARRAYELEMENTS", "GETRECORDPROPERTIES"}
    assert functions_in("refused") & FUNCTIONS.keys() - {"LEFT", "RIGHT"} == set()
