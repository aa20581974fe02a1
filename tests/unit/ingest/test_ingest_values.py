"""What fits a column's type, and what is refused; the fast way and the careful way must agree."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pipelines.ingest import values
from pipelines.ingest.values import JsonNumber, convert, convert_arrow, decode_json
from pipelines.lakehouse.schema import TIMESTAMP, arrow_type

NOON_US = 1_767_268_800_000_000  # 2026-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("int", 5, 5),
        ("int", "5", 5),
        ("int", "+5", 5),
        ("int", JsonNumber("5.0"), 5),
        ("tinyint", -128, -128),
        ("bigint", 9_223_372_036_854_775_807, 9_223_372_036_854_775_807),
        ("bigint", "9223372036854775807", 9_223_372_036_854_775_807),
        ("bigint", JsonNumber("9.007199254740993e15"), 9_007_199_254_740_993),
        ("double", 3, 3.0),
        ("double", JsonNumber("0.1"), 0.1),
        ("double", "1e3", 1000.0),
        ("boolean", "TRUE", True),
        ("string", "NaN", "NaN"),
        ("string", JsonNumber("1.10"), "1.10"),
        ("string", True, "true"),
        ("decimal(10,2)", JsonNumber("1.250"), Decimal("1.25")),
        ("decimal(38,0)", "12345678901234567890123456789012345678", Decimal("12345678901234567890123456789012345678")),
        ("date", "2026-01-31", dt.date(2026, 1, 31)),
        ("binary", "AAE=", b"\x00\x01"),
        ("array<int>", [1, None], [1, None]),
        ("array<string>", '["a"]', ["a"]),
        ("map<string,double>", {"a": JsonNumber("1.5")}, [("a", 1.5)]),
        ("struct<a: int, b: array<string>>", {"a": 1}, {"a": 1, "b": None}),
        ("struct<a_b: int, _1: int>", {"A b": 1, "1": 2}, {"a_b": 1, "_1": 2}),
        ("struct<Aa: int, b: int>", {"aA": 1, "B": 2, "b": 3, "c": 4}, {"Aa": 1, "b": 3}),
    ],
)
def test_a_value_that_fits_is_stored_exactly(kind: str, value: Any, stored: Any) -> None:
    column, refused = convert([value, None], arrow_type(kind))
    assert refused == {}
    assert column.to_pylist() == [stored, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "twelve"),
        ("int", 2_147_483_648),
        ("int", JsonNumber("1.5")),
        ("int", True),
        ("int", "0x1F"),
        ("tinyint", 128),
        ("bigint", 9_223_372_036_854_775_808),
        ("bigint", JsonNumber("1e999999999")),
        ("double", JsonNumber("1e400")),
        ("double", "NaN"),
        ("double", "inf"),
        ("double", "1_000"),
        ("double", True),
        ("float", JsonNumber("1e39")),
        ("boolean", 1),
        ("boolean", "yes"),
        ("string", {"a": 1}),
        ("string", "\ud800"),
        ("decimal(10,2)", JsonNumber("1.255")),
        ("decimal(4,2)", 100),
        ("timestamp", "garbage"),
        ("timestamp", 1_767_268_800),
        ("timestamp", "2026-02-30T00:00:00Z"),
        ("timestamp", "2026-01-01T00:00:00.1234567Z"),
        ("date", "2026-02-30"),
        ("binary", "?"),
        ("array<int>", ["x"]),
        ("array<int>", "zz"),
        ("map<string,int>", {"a": "x"}),
        ("struct<a: int>", {"a": "x"}),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_its_neighbours_are_not(kind: str, value: Any) -> None:
    column, refused = convert([None, value], arrow_type(kind))
    assert list(refused) == [1]
    assert column.to_pylist() == [None, None]


@pytest.mark.parametrize(
    "text",
    ["2026-01-01T12:00:00Z", "2026-01-01 12:00:00", "2026-01-01T14:00:00+02:00", "2026-01-01T12:00:00.000000000Z"],
)
def test_an_instant_may_have_any_offset_and_zeros_beyond_six_digits(text: str) -> None:
    column, refused = convert([text], TIMESTAMP)
    assert refused == {}
    assert column.cast(pa.int64()).to_pylist() == [NOON_US]


def test_truncating_cuts_the_seventh_digit_and_does_not_round() -> None:
    column, refused = convert(["2026-01-01T12:00:00.9999999Z"], TIMESTAMP, truncate=True)
    assert refused == {}
    assert column.cast(pa.int64()).to_pylist() == [NOON_US + 999_999]


_MIXED: dict[str, list[Any]] = {
    "int": [1, "2", JsonNumber("3.0"), "x", True, 2**40, None, -7, "007"],
    "double": [1, "2.5", JsonNumber("3e2"), "x", False, JsonNumber("1e999"), None, ".5", "5.", 2**70],
    "boolean": [True, "false", 0, None],
    "timestamp": [
        "2026-01-01T12:00:00Z",
        "2026-01-01T12:00:00.5Z",
        "2026-01-01",
        "24:00",
        None,
        "2026-13-01T00:00:00Z",
        "0000-06-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
    ],
    "string": ["a", 1, True, None, "\ud800"],
}


@pytest.mark.parametrize("kind", list(_MIXED))
def test_a_column_taken_at_once_equals_the_same_column_value_by_value(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = [convert([value], arrow_type(kind)) for value in _MIXED[kind]]
    monkeypatch.setattr(values, "_as_a_whole", lambda *_: None)
    one_by_one = [convert([value], arrow_type(kind)) for value in _MIXED[kind]]
    assert [(a.to_pylist(), set(b)) for a, b in at_once] == [(a.to_pylist(), set(b)) for a, b in one_by_one]


def test_parquet_nanoseconds_are_refused_unless_they_are_whole_microseconds() -> None:
    column = pa.array([NOON_US * 1000, NOON_US * 1000 + 1, None], pa.timestamp("ns", "UTC"))
    result, refused = convert_arrow(column, TIMESTAMP)
    assert result.cast(pa.int64()).to_pylist() == [NOON_US, None, None]
    assert list(refused) == [1]
    result, refused = convert_arrow(column, TIMESTAMP, truncate=True)
    assert result.cast(pa.int64()).to_pylist() == [NOON_US, NOON_US, None]
    assert refused == {}


def test_parquet_seconds_beyond_the_year_9999_are_refused() -> None:
    result, refused = convert_arrow(pa.array([2**60, NOON_US // 1_000_000], pa.timestamp("s")), TIMESTAMP)
    assert list(refused) == [0]
    assert result.cast(pa.int64()).to_pylist() == [None, NOON_US]


def test_parquet_integers_narrow_only_where_they_fit() -> None:
    result, refused = convert_arrow(pa.array([1, 300], pa.int64()), pa.int8())
    assert result.to_pylist() == [1, None]
    assert list(refused) == [1]


def test_parquet_doubles_keep_nan() -> None:
    result, refused = convert_arrow(pa.array([math.nan]), pa.float64())
    assert refused == {}
    assert math.isnan(result[0].as_py())


def test_a_parquet_double_too_large_for_a_float_is_refused_rather_than_made_infinite() -> None:
    result, refused = convert_arrow(pa.array([1e300, math.inf, 0.5]), pa.float32())
    assert list(refused) == [0]
    assert result.to_pylist() == [None, math.inf, 0.5]


@pytest.mark.parametrize("text", ["{", "NaN", '{"a": Infinity}', '{"a": 1, "a": 2}', "[" * 100_000, '{"a": 1} x'])
def test_text_that_is_not_one_json_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_json(text)
