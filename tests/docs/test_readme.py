"""README and docs/contract.md say what there is: jobs that parse, commands, options, keys, columns, links."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel

from pipelines.cli.common import Context
from pipelines.cli.main import COMMANDS, application
from pipelines.core.model import REASONS, Decision
from pipelines.job import schema
from pipelines.job.load import parse_job
from pipelines.lakehouse.schema import LOG_COLUMNS, QUARANTINE, RUNS, SOURCE_TIME
from pipelines.reference.engine import DeadLetter
from pipelines.transcripts.engines import run_case
from pipelines.transcripts.read import ARRIVAL_KEYS, CASE_KEYS, EXPECT_KEYS, read_text

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
CONTRACT = ROOT / "docs" / "contract.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))

_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"(?<![\w/.-])tailrace ([a-z][a-z_-]*)")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def yaml_blocks(page: Path) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", text_of(page), re.DOTALL)


def section(heading: str) -> str:
    """The contract's text below a heading, up to the next one."""
    _, found, rest = text_of(CONTRACT).partition(f"\n{heading}\n")
    assert found, f"no heading '{heading}'"
    return re.split(r"\n#+ ", rest)[0]


def table_rows(text: str) -> Iterator[list[str]]:
    """The cells of every table row, rulers and headers included."""
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def named_in_column(text: str, column: int) -> list[str]:
    """What stands in backticks in one column of the tables, in order."""
    return [name for row in table_rows(text) if len(row) > column for name in re.findall(r"`([^`]+)`", row[column])]


# -- jobs and transcripts --------------------------------------------------------------------------------------------


def test_the_job_in_the_readme_parses() -> None:
    jobs = [block for block in yaml_blocks(README) if block.startswith("tailrace: 1")]
    assert jobs
    for job in jobs:
        parse_job(job, file="README.md")


def test_the_job_in_the_contract_parses() -> None:
    jobs = [block for block in yaml_blocks(CONTRACT) if block.startswith("tailrace: 1")]
    assert jobs
    for job in jobs:
        parse_job(job, file="docs/contract.md")


def test_the_transcript_in_the_contract_passes() -> None:
    cases = [case for block in yaml_blocks(CONTRACT) if block.startswith("name:") for case in read_text(block)]
    assert cases
    for case in cases:
        assert run_case(case, "reference").differences == ()


# -- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    assert set(_COMMAND.findall(text_of(page))) <= set(COMMANDS)


def test_the_contract_names_every_command() -> None:
    assert set(_COMMAND.findall(section("## Commands"))) == set(COMMANDS)


def options_of(command: str) -> set[str]:
    """The options of a command that are its own."""
    group = typer.main.get_command(application())
    found = group.commands[command]  # type: ignore[attr-defined]
    commands = getattr(found, "commands", {command: found}).values()
    names = {
        option for one in commands for parameter in one.params for option in parameter.opts if not parameter.hidden
    }
    everywhere = {f"--{field.name}" for field in dataclasses.fields(Context)}
    return {name for name in names if name.startswith("--")} - everywhere - {"--help"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_contract_names_every_option_of_a_command_and_no_other(command: str) -> None:
    rows = [row[0] for row in table_rows(section("## Commands")) if row[0].startswith(f"`tailrace {command}")]
    assert len(rows) == 1
    assert set(re.findall(r"--[a-z0-9-]+", rows[0])) == options_of(command)


def test_the_contract_names_the_options_of_every_command() -> None:
    named = {option for row in table_rows(section("## Commands")) for option in re.findall(r"^`(--[a-z]+)", row[0])}
    assert named == {f"--{field.name}" for field in dataclasses.fields(Context)} | {"--help"}


# -- keys and columns ------------------------------------------------------------------------------------------------


def keys_of(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize(
    ("heading", "model"), [("### `inputs.<name>`", schema.InputSection), ("### `query`", schema.QuerySection)]
)
def test_the_contract_names_every_key_of_a_section_and_no_other(heading: str, model: type[BaseModel]) -> None:
    first_table = section(heading).strip().split("\n\n")[0]
    assert set(named_in_column(first_table, 0)) == keys_of(model)


def test_the_contract_names_every_key_of_a_job_and_no_other() -> None:
    named = named_in_column(section("## Job file"), 0)
    assert {name.partition(".")[0] for name in named} == keys_of(schema.JobSection)


def test_the_contract_names_every_key_of_the_orderings_with_its_profile() -> None:
    found: dict[str, set[str]] = {}
    profile = ""
    for row in list(table_rows(section("### `ordering`")))[2:]:
        profile = row[0] or profile
        found.setdefault(profile, set()).update(re.findall(r"`([^`]+)`", row[1]))
    assert found == {
        "stream_analytics": keys_of(schema.StreamAnalyticsSection),
        "atlas": keys_of(schema.AtlasSection),
        "stream_insight": keys_of(schema.StreamInsightSection),
    }


def columns_of(kind: type) -> list[str]:
    """A record's fields as the table's columns: instants lose their unit."""
    return [field.name.removesuffix("_us") for field in dataclasses.fields(kind)]


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("quarantine/<input>", QUARANTINE.names),
        ("runs", RUNS.names),
        ("verdicts/<job>", [*columns_of(Decision), "arrival_date"]),
        ("dead_letters/<job>", [*columns_of(DeadLetter), "arrival_date"]),
        ("arrivals/<input>", [*(name for name, _ in (*LOG_COLUMNS, SOURCE_TIME)), "arrival_date"]),
    ],
)
def test_the_contract_names_every_column_of_a_table_and_no_other(table: str, columns: list[str]) -> None:
    assert sorted(named_in_column(section(f"### `{table}`"), 0)) == sorted(columns)


def test_the_contract_lists_the_reasons_in_their_order() -> None:
    cell = next(row[2] for row in table_rows(section("### `verdicts/<job>`")) if row[0] == "`reasons`")
    assert tuple(re.findall(r"`([^`]+)`", cell)) == REASONS


def test_the_contract_names_every_key_of_a_transcript() -> None:
    named = " ".join(named_in_column(section("## Transcripts"), 0) + named_in_column(section("## Transcripts"), 1))
    for key in (*CASE_KEYS, *ARRIVAL_KEYS, *EXPECT_KEYS):
        assert re.search(rf"\b{key}\b", named), key


# -- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = [target for target in _LINK.findall(text_of(page)) if not (page.parent / target).exists()]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_repository_path_in_the_readme_s_map_exists(page: Path) -> None:
    named = re.findall(r"^\| `((?:pipelines|assets|resources|docs|tests)[^`]*)`", text_of(page), re.MULTILINE)
    assert [path for path in named if not (ROOT / path).exists()] == []
