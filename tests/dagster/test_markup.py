"""Nothing of a job file or of a table becomes markup where Dagster renders Markdown. No test here starts Spark."""

from __future__ import annotations

import html
import re
from pathlib import Path

import dagster as dg
import pytest
from markdown_it import MarkdownIt
from small_jobs import TOLLS

from assets.definitions import build
from assets.markdown import escaped

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](https://example.org)",
    "![x](https://example.org/x.png)",
    "`code` *bold* _thin_ __bold__ **bold**",
    "# heading",
    "a | b\n--- | ---\n1 | 2",
    "back\\`slash\\*",
]


def rendered(text: str) -> str:
    """What a renderer makes of Markdown in which HTML is allowed."""
    return MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    assert rendered(text) != f"<p>{html.escape(text)}</p>\n", "no example unless it is markup"
    shown = rendered(escaped(text))
    assert not re.findall(r"<(?!/?p>)", shown)
    assert html.unescape(re.sub("</?p>", "", shown)).strip() == text


@pytest.mark.parametrize("text", [one for one in HOSTILE if "\n" not in one and "\\" not in one])
def test_descriptions_of_a_job_show_its_expressions_as_they_are(jobs: Path, text: str) -> None:
    hostile = TOLLS.replace("  group_by", f"  where: \"booth <> '{text}'\"\n  group_by")
    (jobs / "tolls.yaml").write_text(hostile, encoding="utf-8")
    (jobs / "broken.yaml").write_text(f"tailrace: 1\n'{text}': 1\n", encoding="utf-8")
    nodes = build(jobs).get_repository_def().asset_graph
    broken = nodes.get(dg.AssetKey(["broken", "job_file"]))
    assert "there are no assets for it" in str(broken.description)
    for key in nodes.get_all_asset_keys():
        shown = rendered(nodes.get(key).description or "")
        assert not re.findall(r"<(script|img|a|strong|h1)\b", shown), key
