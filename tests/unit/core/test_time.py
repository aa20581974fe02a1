"""Instants and durations as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.time import (
    MAX_INSTANT_US,
    MIN_INSTANT_US,
    ORIGIN_0001_US,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)


@pytest.mark.parametrize(
    ("text", "instant_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01", 0),
        ("1970-01-01 00:01", 60_000_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.0000010", 1),
        ("0001-01-01T00:00:00Z", ORIGIN_0001_US),
        ("9999-12-31T23:59:59.999999Z", MAX_INSTANT_US),
    ],
)
def test_an_instant_is_read_as_microseconds_of_utc(text: str, instant_us: int) -> None:
    assert parse_instant(text) == instant_us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "noon",
        "2026-13-01T00:00:00Z",
        "2026-02-30",
        "12:00",
        "2026-01-01T25:00:00Z",
        "2026-01-01T00:00:00.1234567Z",
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"instant|fractional|years"):
        parse_instant(text)


def test_a_seventh_digit_is_cut_off_where_the_input_says_so() -> None:
    assert parse_instant("1970-01-01T00:00:00.1234569Z", truncate=True) == 123_456


@given(st.integers(MIN_INSTANT_US, MAX_INSTANT_US))
def test_formatting_an_instant_and_reading_it_gives_it_back(instant_us: int) -> None:
    assert parse_instant(format_instant(instant_us)) == instant_us


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        ("250ms", 250_000),
        ("90s", 90_000_000),
        ("5m", 300_000_000),
        ("1h30m", 5_400_000_000),
        ("2d", 172_800_000_000),
        ("1us", 1),
        ("-1us", -1),
        ("0s", 0),
        ("0", 0),
        ("PT5M", 300_000_000),
        ("P1DT0.000001S", 86_400_000_001),
        ("-PT1H", -3_600_000_000),
    ],
)
def test_a_duration_is_read_in_both_spellings(text: str, duration_us: int) -> None:
    assert parse_duration(text) == duration_us


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "1.5h", "five", "P", "PT", "P1M", "-", "PT0.1234567S"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.integers(-(10**16), 10**16))
def test_formatting_a_duration_and_reading_it_gives_it_back(duration_us: int) -> None:
    assert parse_duration(format_duration(duration_us)) == duration_us
