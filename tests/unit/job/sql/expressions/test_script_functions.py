"""Each function of the language gives the value that its page gives, on one row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from expression_row import at, evaluated, ignoring_case, row_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INF = math.inf
SMILE = "\U0001f600"

CHOICES: list[tuple[str, object]] = [
    ("COALESCE(no_n, n)", 7),
    ("COALESCE(no_n, f)", 2.5),
    ("COALESCE(no_n, n, n / zero)", 7),
    ("COALESCE(no_s, 'x')", "x"),
    ("COALESCE(no_n, NULL)", None),
    ("ISNULL(no_n, 3)", 3),
    ("NULLIF(n, 7)", None),
    ("NULLIF(n, 8)", 7),
    ("NULLIF(n, no_n)", 7),
    ("NULLIF(s, 'abc')", "Abc"),
]

TEXTS: list[tuple[str, object]] = [
    ("CONCAT(s, no_s, n, '-', f)", "Abc7-2.5"),
    ("CONCAT(no_s, no_n)", ""),
    ("CONCAT(t, '')", "2024-02-29T23:59:59.9999990Z"),
    ("CONCAT_WS('-', s, no_s, blank, n)", "Abc--7"),
    ("CONCAT_WS('-', no_s)", ""),
    ("LEN(s)", 3),
    ("LEN(' a  ')", 2),
    ("LEN(blank)", 0),
    ("LEN(no_s)", None),
    ("LEN(smile)", 5),
    ("SUBSTRING(s, 2, 5)", "bc"),
    ("SUBSTRING(s, 0, 2)", "A"),
    ("SUBSTRING(s, -1, 2)", ""),
    ("SUBSTRING(s, -5, 3)", ""),
    ("SUBSTRING(s, 4, 3)", ""),
    ("SUBSTRING(s, n, n)", ""),
    ("SUBSTRING(s, 1, big)", "Abc"),
    ("SUBSTRING(s, -big, big)", ""),
    ("SUBSTRING(s, no_n, 2)", None),
    ("SUBSTRING(s, 1, no_n)", None),
    ("SUBSTRING(no_s, 1, 2)", None),
    ("SUBSTRING(smile, 4, 1)", "b"),
    ("SUBSTRING(smile, 2, 2)", SMILE),
    ("SUBSTRING(smile, 1, 2)", f"a{SMILE}"),
    ("SUBSTRING(smile, 3, 2)", "b"),
    ("LEFT(s, 2)", "Ab"),
    ("LEFT(s, 9)", "Abc"),
    ("LEFT(s, 0)", ""),
    ("LEFT(no_s, 2)", None),
    ("LEFT(s, no_n)", None),
    ("LEFT(smile, 3)", f"a{SMILE}"),
    ("RIGHT(s, 2)", "bc"),
    ("RIGHT(s, 9)", "Abc"),
    ("RIGHT(s, 0)", ""),
    ("RIGHT(s, no_n)", None),
    ("RIGHT(smile, 4)", f"{SMILE}bc"),
    ("CHARINDEX('b', s)", 2),
    ("CHARINDEX('B', s)", 0),
    ("CHARINDEX('b', smile)", 4),
    ("CHARINDEX('b', s, 3)", 0),
    ("CHARINDEX('b', s, -3)", 2),
    ("CHARINDEX('b', s, no_n)", 2),
    ("CHARINDEX('b', no_s)", None),
    ("CHARINDEX(no_s, s)", None),
    ("CHARINDEX('x', blank)", 0),
    ("PATINDEX('%[b-c]%', s)", 2),
    ("PATINDEX('b%', s)", 0),
    ("PATINDEX('A%', s)", 1),
    ("PATINDEX('%c', s)", 3),
    ("PATINDEX('%b', s)", 0),
    ("PATINDEX('%b%', smile)", 4),
    ("PATINDEX('%.%', s)", 0),
    ("PATINDEX('%[^A]_%', s)", 2),
    ("PATINDEX('%x%', no_s)", None),
    ("REGEXMATCH(s, 'B.')", 2),
    ("REGEXMATCH(s, '^b')", 0),
    ("REGEXMATCH(smile, 'b')", 4),
    ("REGEXMATCH('x[', '[[]')", 2),
    ("REGEXMATCH('&', '[a&&b]')", 1),
    ("REGEXMATCH('\u0661', '\\d')", 0),
    ("REGEXMATCH(no_s, 'b')", None),
    ("REPLACE(s, 'b', 'xx')", "Axxc"),
    ("REPLACE(s, 'B', 'xx')", "Abc"),
    ("REPLACE(s, '', 'xx')", "Abc"),
    ("REPLACE(s, 'b', no_s)", None),
    ("STUFF('abcdef', 2, 3, 'XY')", "aXYef"),
    ("STUFF('abcdef', 0, 2, 'XY')", "XYcdef"),
    ("STUFF('abcdef', 6, 9, '')", "abcde"),
    ("STUFF('abcdef', 3, 0, '-')", "ab-cdef"),
    ("STUFF('abcdef', 7, 1, 'XY')", ""),
    ("STUFF(smile, 2, 2, '')", "abc"),
    ("STUFF(no_s, 2, 2, '')", None),
    ("STUFF(s, no_n, 2, '')", None),
    ("TRANSLATE(s, 'bc', 'xy')", "Axy"),
    ("TRANSLATE(s, LOWER(s), LOWER(s))", "Abc"),
    ("TRANSLATE(no_s, 'bc', 'xy')", None),
    ("UPPER(s)", "ABC"),
    ("LOWER(s)", "abc"),
    ("REVERSE(smile)", f"cb{SMILE}a"),
    ("TRIM(padded)", "Abc"),
    ("LTRIM(padded)", "Abc \u2003 "),
    ("RTRIM(padded)", "\u00a0\t Abc"),
    ("TRIM(no_s)", None),
    ("REPLICATE(s, 2)", "AbcAbc"),
    ("REPLICATE(s, 0)", ""),
    ("REPLICATE(s, -1)", None),
    ("REPLICATE(s, no_n)", None),
    ("SPACE(2) + 'x'", "  x"),
    ("UNICODE(s)", 65),
    ("UNICODE(SUBSTRING(smile, 2, 2))", 128512),
    ("UNICODE(blank)", None),
    ("NCHAR(65)", "A"),
    ("NCHAR(128512)", SMILE),
    ("NCHAR(0 - n)", None),
    ("NCHAR(no_n)", None),
]

LIKES: list[tuple[str, object]] = [
    ("s LIKE 'A%'", True),
    ("s LIKE 'b%'", False),
    ("s LIKE 'a%'", False),
    ("s LIKE '_b_'", True),
    ("s LIKE 'A'", False),
    ("s LIKE '[A-B]b[^d]'", True),
    ("s LIKE '[^A]%'", False),
    ("s NOT LIKE 'x%'", True),
    ("no_s LIKE 'x%'", None),
    ("no_s NOT LIKE 'x%'", None),
    ("'50%' LIKE '50[%]'", True),
    ("'501' LIKE '50[%]'", False),
    ("'[x' LIKE '[[]x'", True),
    ("'a\\b{0}' LIKE 'a\\b{0}'", True),
    ("'a\\b' LIKE CONCAT('a\\', '_')", True),
    ("s LIKE CONCAT(LEFT(s, 1), '%')", True),
    ("s LIKE no_s", None),
]

NUMBERS: list[tuple[str, object]] = [
    ("ABS(-n)", 7),
    ("ABS(-f)", 2.5),
    ("ABS(no_n)", None),
    ("ABS('-3')", 3.0),
    ("CEILING(f)", 3.0),
    ("CEILING(-f)", -2.0),
    ("CEILING(n)", 7),
    ("CEILING(f * 1e30)", 2.5e30),
    ("CEILING(n / none)", INF),
    ("FLOOR(f)", 2.0),
    ("FLOOR(-f)", -3.0),
    ("FLOOR(no_f)", None),
    ("SIGN(-f)", -1.0),
    ("SIGN(n)", 1),
    ("SIGN(zero)", 0),
    ("ROUND(f, 0)", 3.0),
    ("ROUND(-f, 0)", -3.0),
    ("ROUND(1.005, 2)", 1.01),
    ("ROUND(n / none, 2)", INF),
    ("ROUND(1234.5, -2)", 1200.0),
    ("ROUND(n, 2)", 7),
    ("ROUND(n, -1)", 10),
    ("ROUND(n, -2)", 0),
    ("ROUND(n, -30)", 0),
    ("ROUND(n * 21 + 3, -2)", 200),
    ("ROUND(no_f, 1)", None),
    ("ROUND('2.5', 0)", 3.0),
    ("POWER(n, 2)", 49),
    ("POWER(2, -1)", 0),
    ("POWER(f, 2)", 6.25),
    ("POWER(n, no_n)", None),
    ("SQUARE(n)", 49.0),
    ("SQRT(49)", 7.0),
    ("SQRT(no_f)", None),
    ("EXP(zero)", 1.0),
]

DATES: list[tuple[str, object]] = [
    ("System.Timestamp()", at("2024-05-06T07:08:09.123456")),
    ("DATEDIFF(day, '2024-01-01T23:59:59', '2024-01-02')", 1),
    ("DATEDIFF(day, '2024-01-02', '2024-01-01T23:59:59')", -1),
    ("DATEDIFF(hour, old, '1970-01-01')", 1),
    ("DATEDIFF(mi, old, '1970-01-01')", 30),
    ("DATEDIFF(ss, old, '1970-01-01')", 1785),
    ("DATEDIFF(millisecond, old, '1970-01-01T00:00:00.0009')", 1784750),
    ("DATEDIFF(microsecond, old, '1970-01-01')", 1784750000),
    ("DATEDIFF(mcs, t, t)", 0),
    ("DATEDIFF(week, '2024-03-02', '2024-03-03')", 1),
    ("DATEDIFF(week, '2024-03-03', '2024-03-09')", 0),
    ("DATEDIFF(month, '2024-01-31', '2024-02-01')", 1),
    ("DATEDIFF(month, '2024-02-29', '2023-03-31')", -11),
    ("DATEDIFF(quarter, '2023-12-31', '2024-04-01')", 2),
    ("DATEDIFF(year, '2023-12-31', '2024-01-01')", 1),
    ("DATEDIFF(yy, '2024-01-01', '2023-12-31')", -1),
    ("DATEDIFF(dy, '2024-01-01', '2024-01-03')", 2),
    ("DATEDIFF(day, no_t, t)", None),
    ("DATEADD(second, 1, t)", at("2024-03-01T00:00:00.999999")),
    ("DATEADD(minute, -3, t)", at("2024-02-29T23:56:59.999999")),
    ("DATEADD(millisecond, 1704067200123, '1970-01-01')", at("2024-01-01T00:00:00.123")),
    ("DATEADD(hour, 1.9, '2024-01-01')", at("2024-01-01T01:00:00")),
    ("DATEADD(week, 1, '2024-01-01')", at("2024-01-08T00:00:00")),
    ("DATEADD(dw, 1, '2024-01-01')", at("2024-01-02T00:00:00")),
    ("DATEADD(month, 1, '2024-01-31T01:02:03.4')", at("2024-02-29T01:02:03.4")),
    ("DATEADD(month, -1, t)", at("2024-01-29T23:59:59.999999")),
    ("DATEADD(quarter, 1, '2023-11-30')", at("2024-02-29T00:00:00")),
    ("DATEADD(year, 1, t)", at("2025-02-28T23:59:59.999999")),
    ("DATEADD(mcs, 1, old)", at("1969-12-31T23:30:15.250001")),
    ("DATEADD(day, no_n, t)", None),
    ("DATEADD(day, n, no_t)", None),
    ("DATEPART(year, t)", 2024),
    ("DATEPART(quarter, t)", 1),
    ("DATEPART(mm, t)", 2),
    ("DATEPART(dayofyear, t)", 60),
    ("DATEPART(day, t)", 29),
    ("DATEPART(week, '2024-01-06')", 1),
    ("DATEPART(week, '2024-01-07')", 2),
    ("DATEPART(week, '2023-01-01')", 1),
    ("DATEPART(week, '2022-12-31')", 53),
    ("DATEPART(weekday, '2024-01-07')", 1),
    ("DATEPART(dw, '2024-01-06')", 7),
    ("DATEPART(hour, t)", 23),
    ("DATEPART(n, t)", 59),
    ("DATEPART(second, t)", 59),
    ("DATEPART(ms, t)", 999),
    ("DATEPART(microsecond, t)", 999999),
    ("DATEPART(ms, old)", 250),
    ("DATEPART(hour, no_t)", None),
    ("DATENAME(month, t)", "February"),
    ("DATENAME(weekday, t)", "Thursday"),
    ("DATENAME(year, t)", "2024"),
    ("DATENAME(month, no_t)", None),
    ("DAY(t) + MONTH(t) + YEAR(t)", 2055),
    ("DAY('2024-01-05T23:00:00-02:00')", 6),
    ("DATETIMEFROMPARTS(2024, 2, 29, 1, 2, 3, 456)", at("2024-02-29T01:02:03.456")),
    ("DATETIMEFROMPARTS(2024, 2, 29, 1, 2, no_n, 456)", None),
]

NESTED: list[tuple[str, object]] = [
    ("r.id", "x1"),
    ("r.LIMITS.high", 9),
    ("no_r.limits.high", None),
    ("GetArrayElement(a, 0)", 10),
    ("GetArrayElement(a, 1)", None),
    ("GetArrayElement(a, 3)", None),
    ("GetArrayElement(a, -1)", None),
    ("GetArrayElement(a, big)", None),
    ("GetArrayElement(no_a, 0)", None),
    ("GetArrayElement(rs, 0).limits.low", 1),
    ("GetArrayElement(rs, 1).limits.low", None),
    ("GetArrayLength(a)", 3),
    ("GetArrayLength(no_a)", None),
    ("GetRecordPropertyValue(r, 'value')", 1.5),
    ("GetRecordPropertyValue(r.limits, CONCAT('hi', 'gh'))", 9),
    ("GetRecordPropertyValue(r.limits, s)", None),
    ("GetRecordPropertyValue(m, 'x')", 1.5),
    ("GetRecordPropertyValue(m, CONCAT('Y', ''))", None),
    ("GetRecordPropertyValue(m, no_s)", None),
    ("GetMetadataPropertyValue(readings, '[User].[digits]')", "12"),
]

VALUES = CHOICES + TEXTS + LIKES + NUMBERS + DATES + NESTED


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["false", "true"])
def test_every_function_gives_its_value_in_a_session_with_and_without_ansi(spark: SparkSession, ansi: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    found = evaluated(row_frame(session), [text for text, _ in VALUES])
    wrong = [
        (text, expected, value)
        for (text, expected), value in zip(VALUES, found, strict=True)
        if type(value) is not type(expected) or value != expected
    ]
    assert wrong == []


FATAL = [
    ("SUBSTRING(s, 1, 0 - n)", "alerts.asaql:1:17: SUBSTRING: the length is negative: -7"),
    ("LEFT(s, 0 - n)", "LEFT: the length is negative: -7; row at 2024-05-06T07:08:09.123456Z"),
    ("RIGHT(s, 0 - n)", "RIGHT: the length is negative"),
    ("STUFF(s, 1, 0 - n, '')", "STUFF: the length is negative"),
    (
        "TRANSLATE(s, s, digits)",
        "TRANSLATE: the characters sought and the ones given differ in number: 'Abc', 'Abc', '12'",
    ),
    ("s LIKE s + '['", "LIKE: a pattern that is no literal must have no [: 'Abc['"),
    ("ABS(-big - 1)", "the result of ABS is no bigint: -9223372036854775808"),
    ("POWER(n, 100)", "the result of POWER is no bigint: 7, 100"),
    ("ROUND(big, -1)", "the result of ROUND is no bigint: 9223372036854775807"),
    ("ROUND(s, 1)", "alerts.asaql:1:7: a value of nvarchar(max) cannot be converted to float"),
    (
        "DATEADD(second, 1704067200123, t)",
        "the result of DATEADD lies outside of the years 1 to 9999: 1704067200123, 2024",
    ),
    ("DATEADD(day, big, t)", "lies outside of the years 1 to 9999"),
    ("DATEADD(month, big, t)", "lies outside of the years 1 to 9999"),
    ("DATEDIFF(day, s, t)", "alerts.asaql:1:15: a value of nvarchar(max) cannot be converted to datetime"),
    ("DATETIMEFROMPARTS(2024, 13, 1, 0, 0, 0, 0)", "DATETIMEFROMPARTS: a part is out of its range: 2024, 13"),
    ("DATETIMEFROMPARTS(2024, 1, 1, 0, 0, 60, 0)", "a part is out of its range"),
    ("COALESCE(n / zero, 1)", "divided by zero"),
    ("CONCAT(n / zero)", "divided by zero"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("text", "message"), FATAL)
def test_what_fails_stops_the_run_and_names_its_place(spark: SparkSession, text: str, message: str) -> None:
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION") as raised:
        evaluated(row_frame(spark), [text])
    assert message in str(raised.value)


@pytest.mark.spark
def test_search_ignores_case_where_the_job_says_so_but_replacement_does_not(spark: SparkSession) -> None:
    expected = {
        "s LIKE 'aB%'": True,
        "s LIKE '[a]B[^D]'": True,
        "s LIKE CONCAT('aB', '%')": True,
        "CHARINDEX('B', s)": 2,
        "PATINDEX('%B%', s)": 2,
        "NULLIF(s, 'aBC')": None,
        "REPLACE(s, 'B', 'x')": "Abc",
    }
    assert evaluated(row_frame(spark), list(expected), ignoring_case()) == list(expected.values())
