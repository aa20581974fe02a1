"""The architecture page names files that exist, and draws imports that the code has."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PROFILES = ("stream_analytics", "atlas", "stream_insight")
ENGINES = ("reference", "batch", "live")


def edges() -> set[tuple[str, str]]:
    """The arrows of the diagram, (importing folder, imported folder)."""
    found = set()
    diagram = re.sub(r'\[".*?"\]', "", PAGE.split("```mermaid")[1].split("```")[0])
    for line in diagram.splitlines():
        sides = [[name.strip() for name in side.split("&")] for side in line.split("-->")]
        for left, right in itertools.pairwise(sides):
            found |= {(one, other) for one in left for other in right}
    return found


def imports_of(*folders: str) -> set[str]:
    """The folders of pipelines that the modules of these folders import."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {name for path in files for name in re.findall(r"(?:from|import) pipelines\.(\w+)", path.read_text())}


@pytest.mark.parametrize(("importing", "imported"), sorted(edges()))
def test_an_arrow_of_the_diagram_is_an_import(importing: str, imported: str) -> None:
    folders = ["assets", "resources"] if importing == "dagster" else [f"pipelines/{importing}"]
    wanted = set(ENGINES) if imported == "engines" else {imported}
    assert wanted <= imports_of(*folders)


def test_every_folder_is_in_the_diagram() -> None:
    folders = {path.parent.name for path in (ROOT / "pipelines").glob("*/__init__.py")}
    drawn = {name for edge in edges() for name in edge} - {"dagster", "engines"}
    assert drawn == folders - {"runtime"}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w<>/.]+\.(?:py|md))`", PAGE))))
def test_a_file_that_the_page_names_exists(name: str) -> None:
    names = [name.replace("<profile>", profile) for profile in PROFILES]
    paths = [*ROOT.glob("pipelines/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/*.md")]
    assert any(path.as_posix().endswith(f"/{one}") for path in paths for one in names)
