"""The rules of the semantics page and of the page on queries, and the code that names them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINES = ("reference", "batch", "live")
RULES = re.compile(r"\b([GSAIQ])(\d{1,3})(?: to \1(\d{1,3}))?\b")
RULE_ROW = re.compile(r"^\| ([GSAIQ]\d{1,3}) \|", re.MULTILINE)

NOT_OF_ENGINES = {
    "G3": "no function: every engine looks at earlier arrivals only; a property of transcripts and replays",
    "G4": "no function of live: a window without rows is never formed",
    "I18": "the helpers are other names of settings: the job file's loader resolves them",
}


def rows_of(page: str) -> list[str]:
    """Every rule of a table on the page, as often as it is there."""
    return RULE_ROW.findall((ROOT / "docs" / page).read_text())


def on_the_page() -> set[str]:
    """The rules of the semantics page."""
    return set(rows_of("semantics.md"))


def rules_of_queries(text: str) -> set[str]:
    return {rule for rule in named_in(text) if rule.startswith("Q")}


def named_in(text: str) -> set[str]:
    """The rules that a text names; ``S3 to S5`` names three."""
    return {
        f"{letter}{number}"
        for letter, first, last in RULES.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


def docstrings(folder: Path) -> str:
    """All docstrings and comments of a folder's modules."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        found += [line for line in text.splitlines() if line.lstrip().startswith("#")]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                found.append(ast.get_docstring(node) or "")
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                found.append(node.value.value)
    return "\n".join(found)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_rule_of_the_page_is_named_where_the_engine_implements_it(engine: str) -> None:
    named = named_in(docstrings(ROOT / "pipelines" / engine))
    assert sorted(on_the_page() - named - NOT_OF_ENGINES.keys()) == []


def test_a_rule_that_code_names_is_on_the_page() -> None:
    named = named_in(docstrings(ROOT / "pipelines"))
    assert sorted(named - rules_of_queries(" ".join(named)) - on_the_page()) == []


def test_a_rule_of_queries_that_code_or_a_page_names_is_on_the_page_of_queries() -> None:
    files = [*(ROOT / "pipelines").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    named = rules_of_queries("\n".join(path.read_text() for path in files))
    assert {"Q1", "Q16", "Q85", "Q112"} <= named
    assert sorted(named - set(rows_of("queries.md"))) == []


def test_the_page_of_queries_lists_each_rule_once_and_in_order() -> None:
    numbers = [int(rule.removeprefix("Q")) for rule in rows_of("queries.md")]
    assert numbers == sorted(set(numbers))


def test_the_semantics_page_leads_to_each_rule_of_queries() -> None:
    page = (ROOT / "docs" / "semantics.md").read_text()
    links = re.findall(r"^\| \[(Q\d{1,3})\]\(queries\.md#([a-z-]+)\) \|", page, re.MULTILINE)
    sections = re.split(r"^## (.*)\n", (ROOT / "docs" / "queries.md").read_text(), flags=re.MULTILINE)[1:]
    stated = [
        (rule, title.lower().replace(" ", "-"))
        for title, text in zip(sections[::2], sections[1::2], strict=True)
        for rule in RULE_ROW.findall(text)
    ]
    assert links == stated


def test_what_no_engine_implements_is_a_rule_of_the_page() -> None:
    assert NOT_OF_ENGINES.keys() <= on_the_page()
