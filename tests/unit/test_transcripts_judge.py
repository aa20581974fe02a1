"""Judging: what counts as equal, and that every kind of difference is seen."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core.errors import UsageError
from pipelines.core.time import parse_instant
from pipelines.transcripts import Case, Outcome, judge, read_text, run_case
from pipelines.transcripts.judge import equal, matching

NOON_US = parse_instant("2026-01-01T12:00:00Z")


def case(expect: str) -> Case:
    (one,) = read_text(
        """
name: a case
job:
  job: example
  profile: stream_analytics
  inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
  query: {from: cars, group_by: [booth], window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}
arrivals:
  - {arrival: "2026-01-01T12:00:00Z", at: "2026-01-01T12:00:00Z", booth: a}
expect: """
        + expect
    )
    return one


def row(**values: Any) -> dict[str, Any]:
    return {"window_start": NOON_US, "window_end": NOON_US, "window_id": None, "booth": None, "n": 0, **values}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (None, None),
        (1, 1),
        (2, 2.0),
        (math.nan, math.nan),
        ("2026-01-01T13:00:00+01:00", NOON_US),
        ("2026-01-01 12:00", NOON_US),
        ("1.10", Decimal("1.1")),
        (1.1, Decimal("1.10")),
        ("2026-01-01", date(2026, 1, 1)),
        ([1, None], [1, None]),
        ([], ()),
        ({"a": "1970-01-01"}, {"a": 0}),
        ("ä", "ä".encode()),
        (True, True),
    ],
)
def test_what_is_equal(expected: Any, actual: Any) -> None:
    assert equal(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (None, 0),
        (0, None),
        (1, True),
        (True, 1),
        (0.3, 0.1 + 0.2),
        (math.nan, 1.0),
        (math.inf, -math.inf),
        ("2026-01-01T12:00:00.000001Z", NOON_US),
        ("rubbish", NOON_US),
        ("1.11", Decimal("1.1")),
        ("x", Decimal("1.1")),
        ([1], [1, 2]),
        ([1, 2], [2, 1]),
        ("a", "A"),
        ("1", 1.0),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_what_is_not_equal(expected: Any, actual: Any) -> None:
    assert not equal(expected, actual)


def test_the_tolerance_is_relative_above_one_and_absolute_below() -> None:
    assert equal(1000.0, 1000.0009, 1e-6)
    assert not equal(1000.0, 1000.0011, 1e-6)
    assert equal(0.0, 0.0000009, 1e-6)
    assert not equal(0.0, 0.0000011, 1e-6)


def test_a_row_with_few_columns_does_not_take_the_partner_of_a_stricter_one() -> None:
    actual = (row(booth="a", n=1), row(booth="b", n=1))
    one = case("{windows: [{n: 1}, {booth: a}]}")
    for given_rows in permutations(actual):
        assert judge(one, Outcome(windows=given_rows)) == []


def test_equal_rows_are_counted() -> None:
    one = case("{windows: [{n: 1}, {n: 1}]}")
    assert judge(one, Outcome(windows=(row(n=1), row(n=1)))) == []
    assert "is missing" in judge(one, Outcome(windows=(row(n=1),)))[0]
    assert "is not expected" in judge(one, Outcome(windows=(row(n=1), row(n=1), row(n=1))))[0]


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 5)), max_size=6))
def test_a_matching_is_as_large_as_any(fits: list[set[int]]) -> None:
    found = matching([sorted(one) for one in fits])
    assert all(partner in fits[one] for one, partner in found.items())
    assert len(set(found.values())) == len(found)
    # Hall: what a set of rows lacks in partners cannot be matched
    subsets = [[index for index in range(len(fits)) if mask >> index & 1] for mask in range(1 << len(fits))]
    lacking = max(len(subset) - len(set().union(*(fits[index] for index in subset))) for subset in subsets)
    assert len(found) == len(fits) - lacking


def test_an_error_must_contain_the_expected_text() -> None:
    one = case("{error: 'no such thing'}")
    assert judge(one, Outcome(error=UsageError("there is no such thing here"))) == []
    assert "expected one that contains" in judge(one, Outcome(error=UsageError("another")))[0]
    assert judge(one, Outcome()) == ["error: none, expected one that contains 'no such thing'"]


def test_an_error_that_is_not_expected_is_a_difference() -> None:
    assert judge(case("{windows: []}"), Outcome(error=UsageError("broken"))) == ["error: broken"]


UNGUARDED = """
name: a range of the second day
job:
  job: example
  profile: stream_analytics
  inputs: {cars: {columns: "at TIMESTAMP", timestamp_by: at}}
  ordering: {early_arrival: off, late_arrival: 1m}
  query: {from: cars, window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}
arrivals:
  - {arrival: "2026-01-01T12:00:00Z", at: "2026-01-01T12:00:00Z"}
  - {arrival: "2026-01-02T12:00:00Z", at: "2026-01-02T12:00:00Z"}
range: {from: "2026-01-02T06:00:00Z", to: "2026-01-02T18:00:00Z"}
expect: """


def test_an_expected_instant_is_an_end_of_what_the_plan_reads_and_not_of_the_formula() -> None:
    # the log has one day of arrivals whose times can be in the range; the formula alone gives [the beginning, 18:01]
    (right,) = read_text(UNGUARDED + '{plan: {read_from: "2026-01-02", read_to: "2026-01-02T23:59:59.999999Z"}}')
    assert judge(right, Outcome()) == []
    (formula,) = read_text(UNGUARDED + '{plan: {read_to: "2026-01-02T18:01:00Z"}}')
    expected = "plan: read_to is 2026-01-02T23:59:59.999999Z, expected 2026-01-02T18:01:00Z"
    assert judge(formula, Outcome()) == [expected]


def test_an_expected_null_means_that_no_formula_bounds_the_end() -> None:
    (right,) = read_text(UNGUARDED + "{plan: {read_from: null}}")
    assert judge(right, Outcome()) == []
    (wrong,) = read_text(UNGUARDED + "{plan: {read_to: null}}")
    assert judge(wrong, Outcome()) == ["plan: read_to is 2026-01-02T18:01:00Z, expected null"]


def test_a_plan_that_is_expected_is_compared() -> None:
    assert judge(case("{plan: {read_from: null, read_to: null}}"), Outcome()) == []
    assert "plan: read_to is null" in judge(case('{plan: {read_to: "2026-01-01"}}'), Outcome())[0]


def test_a_case_without_expressions_runs_on_the_reference_engine_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr("pipelines.runtime.session.session", refuse)
    assert run_case(case('{windows: [{booth: a, n: 1, window_end: "2026-01-01T12:00:00Z"}]}'), "reference").passed


def test_a_crash_of_an_engine_is_a_failure_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("pipelines.reference.engine.run", crash)
    verdict = run_case(case("{windows: []}"), "reference")
    assert verdict.differences == ("the engine crashed: RuntimeError: out of luck",)
