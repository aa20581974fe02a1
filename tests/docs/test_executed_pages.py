"""The pages that show commands with what they print: every command is run, in order, and prints what the page shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from executed_page import Shell, commands_of, is_shown, updated
from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "stream-analytics-job.md": "turbines",
    "atlas-processor.md": "freezers",
    "preview.md": "tolls",
    "tune.md": "tolls",
}
"""The pages, each with the folder of its project in docs/examples."""


@pytest.mark.spark
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    shutil.copytree(DOCS / "examples" / PAGES[page], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAILRACE_LAKEHOUSE", raising=False)
    shell = Shell()
    commands = commands_of((DOCS / page).read_text(encoding="utf-8"))
    assert len(commands) > 1
    for command in commands:
        printed = shell.run(command.text)
        assert is_shown(command.shown, printed), f"$ {command.text}\n{printed}"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("a\n", "b\n"), ("a\n", "a\nb\n"), ("a\nb\n", "a\n"), ("took .. s\n", "took 3 h\n"), ("", "a\n"), ("a\n", "")],
)
def test_output_that_is_not_what_the_page_shows_is_found(shown: str, printed: str) -> None:
    assert not is_shown(shown, printed)


def test_only_two_dots_stand_for_any_text() -> None:
    assert is_shown("took .. s\n..\nend\n", "took 3.2 s\na\nb\nend\n")
    assert not is_shown("a.c\n", "abc\n")


def test_a_page_is_updated_with_what_its_commands_print() -> None:
    page = "```console\n$ echo took 3 s; echo new\ntook .. s\nold\n$ exit 3\n$ echo $?\n```\ntext\n"
    assert updated(page, Shell()) == (
        "```console\n$ echo took 3 s; echo new\ntook .. s\nnew\n$ exit 3\n$ echo $?\n3\n```\ntext\n"
    )
