"""Which run owns which part of a range: the newest that succeeded over it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import parse_instant
from pipelines.lakehouse.owned_ranges import owned_ranges


def run(run_id: str, first: int | None, last: int | None, status: str = "succeeded") -> dict[str, Any]:
    """A row of the ledger over the days ``[first, last)`` of March."""
    return {
        "run_id": run_id,
        "status": status,
        "output_from": None if first is None else datetime(2026, 3, first, tzinfo=UTC),
        "output_to": None if last is None else datetime(2026, 3, last, tzinfo=UTC),
        "counts_by_verdict": [("accepted", 1)],
        "versions_read": [("arrivals/cars", 0)],
        "versions_written": [("verdicts/tolls", 0)],
        "rows_written": [("verdicts/tolls", 0)],
    }


def days(first: int | None, last: int | None) -> OutputRange:
    ends = [None if day is None else parse_instant(f"2026-03-{day:02d}") for day in (first, last)]
    return OutputRange(*ends)


def test_a_run_owns_what_no_later_run_wrote() -> None:
    found, gaps = owned_ranges([run("old", 1, 10), run("new", 4, 6)], days(1, 10))
    assert [(one.run_id, one.parts, one.whole) for one in found] == [
        ("new", (days(4, 6),), True),
        ("old", (days(1, 4), days(6, 10)), False),
    ]
    assert gaps == []


def test_a_run_that_was_written_over_as_a_whole_owns_nothing() -> None:
    found, _ = owned_ranges([run("old", 4, 6), run("new", 1, 10)], EVERYTHING)
    assert [one.run_id for one in found] == ["new"]


def test_a_range_inside_a_run_leaves_the_run_whole() -> None:
    [one], gaps = owned_ranges([run("one", 1, 10)], days(4, 5))
    assert (one.parts, one.written, one.whole) == ((days(4, 5),), days(1, 10), True)
    assert gaps == []


def test_what_a_later_run_wrote_outside_the_range_still_counts_against_a_run() -> None:
    found, _ = owned_ranges([run("old", 1, 10), run("new", 8, 9)], days(4, 5))
    assert [(one.run_id, one.whole) for one in found] == [("old", False)]


def test_a_failed_run_owns_nothing_and_leaves_a_gap() -> None:
    found, gaps = owned_ranges([run("one", 1, 5), run("two", 5, 9, status="failed")], days(1, 9))
    assert [one.run_id for one in found] == ["one"]
    assert gaps == [days(5, 9)]


def test_a_run_over_the_whole_log_owns_every_range() -> None:
    [one], gaps = owned_ranges([run("all", None, None)], days(4, 5))
    assert (one.parts, one.whole, gaps) == ((days(4, 5),), True, [])


def test_open_ends_meet_closed_ones_without_a_gap_or_an_overlap() -> None:
    found, gaps = owned_ranges([run("before", None, 5), run("after", 5, None)], EVERYTHING)
    assert [one.parts for one in found] == [(days(5, None),), (days(None, 5),)]
    assert gaps == []
