"""The page: one file, nothing of the data becomes markup, every chart has a description and its numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_lakehouse import JOB, JOB_TEXT, NASTY, build

from pipelines.cli.main import run
from pipelines.core.errors import EnvironmentUnfit
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import parse_instant
from pipelines.lakehouse.documents import range_name, write_file
from pipelines.lakehouse.previews import Preview
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.check_result import CheckResult
from pipelines.report.page import MAX_BYTES, render
from pipelines.report.report_data import gather

FAILED = CheckResult("arrival_contract", False, True, 1, ({"sequence": 7, "problem": NASTY},), NASTY)


class Tags(HTMLParser):
    """The tags of a page, and the text of its facts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.facts = ""
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") == "facts"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.facts += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


@pytest.fixture(scope="module")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    return build(tmp_path_factory.mktemp("page") / "lakehouse", live=True, wrong=True)


@pytest.fixture(scope="module")
def page(lakehouse: Lakehouse) -> str:
    return render(gather(JOB, lakehouse, EVERYTHING, [FAILED]))


def test_nothing_of_the_data_becomes_markup(page: str) -> None:
    assert "<b onclick" not in page
    assert "onclick" not in {name for _, attributes in Tags(page).tags for name in attributes}
    assert page.count("<script") == page.count("</script") == 1
    facts = json.loads(Tags(page).facts)
    assert facts["checks"][0]["description"] == NASTY


def test_the_page_names_no_place_to_load_anything_from(page: str) -> None:
    for tag, attributes in Tags(page).tags:
        assert tag not in ("img", "iframe", "object", "embed", "source", "video")
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert (attributes.get(name) or "data:,") == "data:,"
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "url(" not in page
    assert len(page.encode()) < MAX_BYTES


def test_every_chart_is_drawn_for_two_widths_and_said_in_words(page: str) -> None:
    figures = page.split("<figure>")[1:]
    assert len(figures) >= 8
    for figure in figures:
        assert figure.count("<svg ") == 2
        assert re.search(r'role="img" aria-label="[^"]{20,}"', figure)


def test_colours_are_the_pages_own_so_that_they_follow_its_theme(page: str) -> None:
    for svg in re.findall(r"<svg .*?</svg>", page, re.DOTALL):
        colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg))
        assert all(colour == "none" or colour.startswith("var(--") for colour in colours), colours
    variables = set(re.findall(r"var\(--([a-z0-9-]+)\)", page))
    assert variables - set(re.findall(r"--([a-z0-9-]+):", page)) == set()


def test_an_empty_lakehouse_and_a_log_alone_have_pages_too(tmp_path: Path) -> None:
    assert "No replay has written windows yet." in render(gather(JOB, Lakehouse.at(tmp_path / "none"), EVERYTHING))
    alone = render(gather(JOB, build(tmp_path / "log", replay=False), EVERYTHING))
    assert "No replay has decided any event of this range." in alone
    assert "288 events that arrived there have no verdict yet." in alone


def test_a_range_without_anything_in_it_has_a_page(lakehouse: Lakehouse) -> None:
    later = OutputRange(parse_instant("2027-01-01T00:00:00Z"), parse_instant("2027-01-02T00:00:00Z"))
    assert "No event arrived in this range." in render(gather(JOB, lakehouse, later))


def test_previews_that_nobody_has_promoted_are_listed(tmp_path: Path) -> None:
    data = gather(JOB, build(tmp_path, replay=False), EVERYTHING)
    assert "nobody has promoted" not in render(data)
    made = datetime(2026, 1, 4, 5, tzinfo=UTC)
    run = {"versions_written": {"previews/cars/night/windows/cars": 0}, "finished_at": made, "reason": NASTY}
    row = {**run, "output_from": datetime(2026, 1, 1, tzinfo=UTC), "output_to": None}
    text = render(replace(data, previews=(Preview(row),)))
    assert "Previews that nobody has promoted" in text
    cells = (
        "night",
        "from 2026-01-01T00:00:00Z up to the end of the log",
        "2026-01-04T05:00:00Z",
        "2026-01-11T05:00:00Z",
    )
    for cell in cells:
        assert f">{cell}</t" in text
    assert NASTY not in text


def test_the_command_writes_the_page_into_the_lakehouse_and_exits_with_1_where_windows_differ(
    lakehouse: Lakehouse, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cars.yaml").write_text(JOB_TEXT)
    monkeypatch.setenv("TAILRACE_JOBS", str(tmp_path))
    code = run(["report", "cars", "--lakehouse", lakehouse.root, "--no-checks", "--json", "--from", "2026-01-01"])
    reported = json.loads(capsys.readouterr().out)
    assert (code, reported["state"]) == (1, "bad")
    assert reported["report"] == f"{lakehouse.root}/reports/cars/2026-01-01_end.html"
    assert reported["verdict"] in Path(reported["report"]).read_text()


def test_the_command_writes_to_out_and_exits_with_0_where_all_agrees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lakehouse = build(tmp_path / "lakehouse", live=True, hours=8)
    (tmp_path / "cars.yaml").write_text(JOB_TEXT)
    out = tmp_path / "deep" / "report.html"
    job = str(tmp_path / "cars.yaml")
    assert run(["report", job, "--lakehouse", lakehouse.root, "--no-checks", "--out", str(out)]) == 0
    assert "are what the live run gave." in capsys.readouterr().out
    assert out.read_text().startswith("<!DOCTYPE html>")


def test_a_range_is_a_files_name() -> None:
    half_past = OutputRange(parse_instant("2013-01-01T00:00:00Z"), parse_instant("2013-02-01T06:30:00Z"))
    assert range_name(half_past) == "2013-01-01_2013-02-01T063000"
    assert range_name(EVERYTHING) == "begin_end"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_file(tmp_path / "a" / "page.html", "first")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.lakehouse.documents.Path.replace", refuse)
    with pytest.raises(EnvironmentUnfit, match="cannot be written: No space left on device"):
        write_file(file, "second")
    assert file.read_text() == "first"
    assert [path.name for path in file.parent.iterdir()] == ["page.html"]
