"""The report in a real browser: silent, self-contained, legible in light and dark, and its numbers are the tables'."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_lakehouse import JOB, NASTY, build

from pipelines.core.model import EVERYTHING
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.check_result import CheckResult
from pipelines.report.page import render
from pipelines.report.report_data import gather

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE, DESK = (360, 740), (1280, 900)
CHECKS = [
    CheckResult("arrival_order", True, True, 0, (), "all rows stand in order"),
    CheckResult("arrival_contract", False, True, 1, ({"sequence": 7, "problem": NASTY},), NASTY),
]

# relative luminance and contrast as WCAG 2 defines them
CONTRAST = """([front, back]) => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(Number)
      .map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""


@dataclass
class Opened:
    """A page that was opened, what it said on the console, and what it asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    return build(tmp_path_factory.mktemp("browser") / "lakehouse", live=True, wrong=True)


@pytest.fixture(scope="module")
def file(lakehouse: Lakehouse) -> Path:
    path = lakehouse.folder / "report.html"
    path.write_text(render(gather(JOB, lakehouse, EVERYTHING, CHECKS)))
    return path


@contextmanager
def opened(browser: Browser, file: Path, size: tuple[int, int], scheme: Any = "light") -> Iterator[Opened]:
    """The page in a window of that size, without a network."""
    viewport: Any = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
    page = context.new_page()
    found = Opened(page)
    page.on("console", lambda message: found.said.append(message.text))
    page.on("pageerror", lambda error: found.said.append(str(error)))
    page.on("request", lambda request: found.asked.append(request.url))
    page.goto(file.as_uri())
    yield found
    context.close()


def rows(lakehouse: Lakehouse, table: str) -> list[dict[str, Any]]:
    """A table as it lies there."""
    found = lakehouse.open(table)
    assert found is not None
    data: list[dict[str, Any]] = found.to_pyarrow_table().to_pylist()
    return data


def tiles(page: Page) -> dict[str, str]:
    """Words to number."""
    found = page.locator(".tiles li").all()
    return {one.locator("span").inner_text(): one.locator("strong").inner_text() for one in found}


def table(page: Page, caption: str) -> list[dict[str, str]]:
    """The rows of the table whose caption begins so, by its header."""
    found: list[list[str]] = page.evaluate(
        """caption => {
          const table = [...document.querySelectorAll('table')].find(t => t.caption?.textContent.startsWith(caption));
          return [...table.rows].map(row => [...row.cells].map(cell => cell.textContent));
        }""",
        caption,
    )
    return [dict(zip(found[0], row, strict=True)) for row in found[1:]]


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK])
def test_the_page_is_silent_loads_nothing_and_fits(
    browser: Browser, file: Path, size: tuple[int, int], scheme: str
) -> None:
    with opened(browser, file, size, scheme) as found:
        for summary in found.page.locator("summary").all():
            summary.click()
        assert found.said == []
        assert found.asked == [file.as_uri()]
        assert found.page.evaluate("document.documentElement.scrollWidth") == size[0]


@pytest.mark.parametrize("size", [PHONE, DESK])
def test_each_chart_is_seen_once_and_its_text_is_large_enough(
    browser: Browser, file: Path, size: tuple[int, int]
) -> None:
    with opened(browser, file, size) as found:
        seen = found.page.evaluate(
            """() => [...document.querySelectorAll('figure')].map(figure => {
              const shown = [...figure.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width > 0);
              return shown.map(svg => {
                const box = svg.getBoundingClientRect();
                return {size: 12 * box.width / svg.viewBox.baseVal.width, left: box.left, right: box.right};
              });
            })"""
        )
        assert len(seen) >= 8
        for charts in seen:
            assert len(charts) == 1
            assert charts[0]["size"] >= 11
            assert charts[0]["left"] >= 0
            assert charts[0]["right"] <= size[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_what_is_behind_it(browser: Browser, file: Path, scheme: str) -> None:
    with opened(browser, file, DESK, scheme) as found:
        pairs = found.page.evaluate(
            """() => {
              const behind = node => {
                for (; node; node = node.parentElement) {
                  const colour = getComputedStyle(node).backgroundColor;
                  if (!colour.endsWith(', 0)') && colour !== 'transparent') return colour;
                }
              };
              const tags = 'h1,h2,h3,p,li,dt,dd,th,td,summary,code,caption,strong,span';
              const words = [...document.querySelectorAll(tags)];
              const drawn = [...document.querySelectorAll('svg text')];
              return [
                ...words.filter(n => n.textContent.trim()).map(n => [n.tagName, getComputedStyle(n).color, behind(n)]),
                ...drawn.map(n => ['text', getComputedStyle(n).fill, behind(n)]),
              ];
            }"""
        )
        assert len(pairs) > 100
        for tag, front, back in {tuple(pair) for pair in pairs}:
            assert found.page.evaluate(CONTRAST, [front, back]) >= 4.5, (tag, front, back)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_bars_and_the_darkest_cell_stand_out_from_the_paper(browser: Browser, file: Path, scheme: str) -> None:
    names = ["accepted", "adjusted", "dropped", "partial", "reason", "stream", "mark", "bad", "heat-5", "heat-6"]
    with opened(browser, file, DESK, scheme) as found:
        for name in names:
            front, back = found.page.evaluate(
                """name => {
                  const probe = document.body.appendChild(document.createElement('i'));
                  probe.style.color = `var(--${name})`;
                  return [getComputedStyle(probe).color, getComputedStyle(document.body).backgroundColor];
                }""",
                name,
            )
            assert found.page.evaluate(CONTRAST, [front, back]) >= 3, name


def test_the_numbers_on_the_page_are_those_of_the_tables(browser: Browser, file: Path, lakehouse: Lakehouse) -> None:
    events = [row for row in rows(lakehouse, "arrivals/cars") if row["kind"] == "event"]
    decisions = rows(lakehouse, "verdicts/cars")
    verdicts = Counter(row["verdict"] for row in decisions)
    verdicts["accepted"] = len(events) - sum(count for name, count in verdicts.items() if name != "accepted")
    reasons = Counter(reason for row in decisions for reason in row["reasons"])
    windows = rows(lakehouse, "windows/cars")
    with opened(browser, file, DESK) as found:
        reported = tiles(found.page)
        assert number(reported["events arrived"]) == len(events)
        assert {name: number(reported[name]) for name in verdicts} == dict(verdicts)
        assert number(reported["windows"]) == len(windows)
        assert reported["checks passed"] == "1 of 2"
        over_time = table(found.page, "Events by verdict and reason")
        for name, count in {**verdicts, **reasons}.items():
            assert sum(number(row[name]) for row in over_time) == count
        timed = [row for row in events if row["at"] is not None]
        bands = table(found.page, "Events by how long after")
        assert sum(number(row["events"]) for row in bands) == len(timed)
        within = {row["tolerance"]: row for row in table(found.page, "Share of the events")}
        in_time = sum((row["arrival_time"] - row["at"]).total_seconds() <= 20 * 60 for row in timed)
        assert number(within["20m"]["events within"]) == in_time
        assert within["20m"]["share"] == f"{in_time / len(timed):.4%}"


def test_the_differences_on_the_page_are_those_between_the_tables(
    browser: Browser, file: Path, lakehouse: Lakehouse
) -> None:
    def keyed(name: str) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for row in rows(lakehouse, name):
            end = row["window_end"].strftime("%Y-%m-%dT%H:%M:%SZ")
            found.setdefault((end, row["booth"]), []).append(row["cars"])
        return found

    ours, theirs = keyed("windows/cars"), keyed("stream_windows/cars")
    differing = {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    with opened(browser, file, PHONE) as found:
        shown = table(found.page, "The windows that differ")
        assert {(row["window_end"], row["booth"]) for row in shown} == differing
        assert number(tiles(found.page)["differ from the live run"]) == len(differing) == 4
        first = min(differing)
        assert first[0] in found.page.locator(".story").inner_text()
        assert found.page.locator("#verdict").inner_text().replace("✗", "").strip() == (
            f"4 of {len(ours.keys() | theirs.keys())} windows differ from the live run, the first ending {first[0]}."
        )


def test_the_facts_in_the_page_are_what_it_shows(browser: Browser, file: Path) -> None:
    with opened(browser, file, DESK) as found:
        facts = json.loads(found.page.locator("#facts").text_content() or "")
        reported = tiles(found.page)
        assert facts["events"] == number(reported["events arrived"])
        assert {name: number(reported[name]) for name in facts["verdicts"]} == facts["verdicts"]
        assert facts["verdict"] in found.page.locator("#verdict").inner_text()
        assert facts["first_divergence"] == found.page.locator(".story li").all_inner_texts()
        assert [check["name"] for check in facts["checks"]] == found.page.locator(
            ".checks li > div > strong"
        ).all_inner_texts()


def test_text_of_the_data_is_shown_as_text(browser: Browser, file: Path) -> None:
    with opened(browser, file, DESK) as found:
        assert found.page.locator("b").count() == 0
        assert NASTY in found.page.locator(".checks").inner_text()
