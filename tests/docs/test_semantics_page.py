"""The worked tables of docs/semantics.md, run on the reference engine: every cell is what the engine gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from pipelines.core.model import Arrival, Decision, Job
from pipelines.core.time import format_instant, parse_duration, parse_instant
from pipelines.job.load import parse_job
from pipelines.reference.engine import run

PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"
COLUMNS = ("arrival", "event time", "watermark before", "test", "verdict", "counts at", "windows")
COMPARED = ("watermark before", "verdict", "counts at", "windows")
PUNCTUATION = "punctuation "

_BLOCK = re.compile(r"```yaml\n(?P<job>tailrace: 1\n.*?)```\s*\n(?P<table>(?:\|[^\n]*\n)+)", re.DOTALL)
_WINDOW = re.compile(r"(missed )?([\[(])([0-9:]+), ([0-9:]+)([\])])")
_COMPARISON = re.compile(r"([0-9:]+) (<=|>=|<|>) ([0-9:]+)(?: ([+-]) (\w+))?")

Row = Mapping[str, str]


@dataclass(frozen=True)
class Worked:
    """A job and the table that stands below it."""

    job: Job
    rows: tuple[Row, ...]


@cache
def worked_tables() -> tuple[Worked, ...]:
    """Every job on the page with the table below it."""
    found = []
    for block in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in block["table"].splitlines()]
        assert tuple(header) == COLUMNS, header
        found.append(Worked(parse_job(block["job"]), tuple(dict(zip(COLUMNS, row, strict=True)) for row in rows)))
    return tuple(found)


def instant(clock: str) -> int:
    """A time of the tables; they all play on one day."""
    return parse_instant(f"2026-01-01T{clock}Z")


def time_cell(instant_us: int | None) -> str:
    """As the tables write it: ``12:07``, seconds only where there are some."""
    if instant_us is None:
        return "-"
    clock = format_instant(instant_us)[11:-1]
    return clock.removesuffix(":00") if clock.count(":") == 2 else clock


def arrivals(worked: Worked) -> list[Arrival]:
    """The log that the table's first two columns write down; column ``n`` is the position."""
    name = worked.job.inputs[0].name
    log = []
    for position, row in enumerate(worked.rows):
        time = row["event time"]
        if time.startswith(PUNCTUATION):
            payload: dict[str, object] = {"n": None, "at": None}
            punctuation_us = instant(time.removeprefix(PUNCTUATION))
        else:
            payload, punctuation_us = {"n": position, "at": instant(time)}, None
        log.append(Arrival(name, 0, position, instant(row["arrival"]), payload, punctuation_us))
    return log


@cache
def engine_cells(worked_index: int) -> tuple[Row, ...]:
    """The compared cells of each row as the reference engine gives them, empty for a punctuation."""
    worked = worked_tables()[worked_index]
    outcome = run(worked.job, arrivals(worked))
    decisions = {decision.sequence: decision for decision in outcome.decisions}
    opening, closing = ("(", "]") if worked.job.profile == "stream_analytics" else ("[", ")")

    def window(start_us: int, end_us: int) -> str:
        return f"{opening}{time_cell(start_us)}, {time_cell(end_us)}{closing}"

    def windows(decision: Decision) -> str:
        size_us = worked.job.window_query.window.size_us  # type: ignore[union-attr]
        counted = [
            window(row.window_start_us, row.window_end_us)
            for row in outcome.windows
            if decision.sequence in row.values["members"]  # type: ignore[operator]
        ]
        missed = [f"missed {window(start_us, start_us + size_us)}" for start_us in decision.missed_windows_us]
        return ", ".join(counted + missed) or "-"

    def cells(position: int) -> Row:
        if position not in decisions:
            return dict.fromkeys(COMPARED, "")
        decision = decisions[position]
        reasons = f": {', '.join(decision.reasons)}" if decision.reasons else ""
        return {
            "watermark before": time_cell(decision.watermark_us),
            "verdict": f"{decision.verdict}{reasons}",
            "counts at": time_cell(decision.system_timestamp_us),
            "windows": windows(decision),
        }

    return tuple(cells(position) for position in range(len(worked.rows)))


def differences(rows: tuple[Row, ...], given: tuple[Row, ...]) -> list[str]:
    """Where the page's ``rows`` differ from what the engine gave."""
    return [
        f"row {number}, {column}: '{row[column]}' on the page, '{cells[column]}' by the engine"
        for number, (row, cells) in enumerate(zip(rows, given, strict=True), 1)
        for column in COMPARED
        if whole_minutes(row[column]) != cells[column]
    ]


def whole_minutes(cell: str) -> str:
    """``12:00:00`` is ``12:00``: a table may write seconds throughout."""
    return re.sub(r"\b(\d\d:\d\d):00\b", r"\1", cell)


def false_comparisons(text: str) -> list[str]:
    """The comparisons in a cell of column ``test`` that are not true, and text that is no comparison."""
    wrong = []
    for part in filter(None, text.split(", ")):
        match = _COMPARISON.fullmatch(part)
        if match is None:
            wrong.append(f"'{part}' is no comparison")
            continue
        left, sign, right_us = instant(match[1]), match[2], instant(match[3])
        if match[4]:
            right_us += parse_duration(match[5]) * (1 if match[4] == "+" else -1)
        true = {"<": left < right_us, "<=": left <= right_us, ">": left > right_us, ">=": left >= right_us}[sign]
        if not true:
            wrong.append(f"'{part}' is not true")
    return wrong


def test_every_profile_has_a_worked_table() -> None:
    assert {worked.job.profile for worked in worked_tables()} == {"stream_analytics", "atlas", "stream_insight"}
    assert all(len(worked.rows) > 4 for worked in worked_tables())


def test_no_job_on_the_page_lacks_its_table() -> None:
    assert PAGE.read_text(encoding="utf-8").count("```yaml") == len(worked_tables())


@pytest.mark.parametrize("index", range(len(worked_tables())), ids=lambda index: worked_tables()[index].job.name)
def test_the_table_says_what_the_reference_engine_gives(index: int) -> None:
    assert differences(worked_tables()[index].rows, engine_cells(index)) == []


@pytest.mark.parametrize("index", range(len(worked_tables())), ids=lambda index: worked_tables()[index].job.name)
def test_every_comparison_under_test_is_true(index: int) -> None:
    wrong = [found for row in worked_tables()[index].rows for found in false_comparisons(row["test"])]
    assert wrong == []


def test_a_false_comparison_is_found() -> None:
    assert false_comparisons("12:17 > 12:11 + 5m") == []
    assert false_comparisons("12:16 > 12:11 + 5m") == ["'12:16 > 12:11 + 5m' is not true"]
    assert false_comparisons("12:16 is late") == ["'12:16 is late' is no comparison"]


def altered(column: str, cell: str) -> list[str]:
    """Other things that could stand in a cell."""
    if column == "verdict":
        return ["adjusted: late", ""] if cell == "accepted" else ["accepted", f"{cell}, late"]
    if column != "windows":
        return ["12:34:56", "-" if cell != "-" else "12:00"]
    match = _WINDOW.fullmatch(cell)
    if match is None:
        return ["(12:00, 12:05]"]
    other = {"[": "(", "(": "[", ")": "]", "]": ")"}
    swapped = f"{match[1] or ''}{other[match[2]]}{match[3]}, {match[4]}{other[match[5]]}"
    return ["-", swapped, cell.removeprefix("missed ") if match[1] else f"missed {cell}"]


@pytest.mark.parametrize("index", range(len(worked_tables())), ids=lambda index: worked_tables()[index].job.name)
def test_a_cell_that_is_changed_fails(index: int) -> None:
    rows, given = worked_tables()[index].rows, engine_cells(index)
    for number, row in enumerate(rows):
        for column in COMPARED:
            for cell in altered(column, row[column]):
                changed = (*rows[:number], {**row, column: cell}, *rows[number + 1 :])
                assert len(differences(changed, given)) == 1, f"row {number + 1}: {column} may be '{cell}'"
