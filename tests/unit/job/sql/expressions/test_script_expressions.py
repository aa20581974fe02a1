"""Each expression of the language gives the value that its page gives, on one row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from expression_row import MAX, at, evaluated, ignoring_case, row_frame, translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = math.nan
INF = math.inf

OPERATORS: list[tuple[str, object]] = [
    ("n + 1", 8),
    ("n - 9", -2),
    ("n * f", 17.5),
    ("n / 2", 3),
    ("-n / 2", -3),
    ("n / -2", -3),
    ("n / 2.0", 3.5),
    ("n % 4", 3),
    ("-n % 4", -3),
    ("f % 2", 0.5),
    ("n / none", INF),
    ("-n / none", -INF),
    ("none / none", NAN),
    ("n / -none", -INF),
    ("n % none", NAN),
    ("no_n / zero", None),
    ("no_n + big", None),
    ("n + no_n", None),
    ("f * 1e308 * 1e10", INF),
    ("digits + 1", 13.0),
    ("digits * n", 84.0),
    ("s + 'x'", "Abcx"),
    ("s + no_s", None),
    ("yes + yes", 2),
    ("-big", -MAX),
    ("-(-n)", 7),
    ("n & 3", 3),
    ("n | 8", 15),
    ("n ^ 2", 5),
    ("~n", -8),
    ("yes & no", False),
    ("yes ^ no", True),
    ("~yes", False),
    ("n & no_n", None),
    ("n = 7.0", True),
    ("n <> 7", False),
    ("n != 8", True),
    ("n > 'nan'", None),
]

CONDITIONS: list[tuple[str, object]] = [
    ("digits = n + 5", True),
    ("digits > 11.5", True),
    ("yes = 1", True),
    ("no = 1", False),
    ("yes = 'True'", True),
    ("t > '2024-02-29'", True),
    ("no_n = 1", None),
    ("NOT no_n = 1", None),
    ("no_n = 1 OR n = 7", True),
    ("no_n = 1 AND n = 8", False),
    ("no_n IS NULL", True),
    ("n IS NOT NULL", True),
    ("s = 'abc'", False),
    ("s IN ('abc', 'Abc')", True),
    ("n IN (1, 7.0)", True),
    ("n NOT IN (1, no_n)", None),
    ("n BETWEEN 7 AND 7", True),
    ("n NOT BETWEEN 1 AND 6.5", True),
    ("n BETWEEN no_n AND 6", False),
    ("n = 8 AND n / zero = 1", False),
    ("n = 7 OR n / zero = 1", True),
    ("yes", True),
]

CHOICES: list[tuple[str, object]] = [
    ("CASE WHEN no_n = 1 THEN 'a' WHEN n = 7 THEN 'b' ELSE 'c' END", "b"),
    ("CASE n WHEN 1 THEN 'a' WHEN 7.0 THEN 'b' END", "b"),
    ("CASE n WHEN 1 THEN 'a' END", None),
    ("CASE no_n WHEN NULL THEN 'a' ELSE 'b' END", "b"),
    ("CASE WHEN n = 7 THEN n ELSE f END", 7.0),
    ("CASE WHEN n = 7 THEN 1 ELSE n / zero END", 1),
    ("CASE WHEN n / 7 = 1 THEN NULL ELSE 5 END", None),
    ("CASE WHEN n = 8 THEN CAST(s AS bigint) ELSE digits END", 12),
]

CASTS: list[tuple[str, object]] = [
    ("CAST(n AS float)", 7.0),
    ("CAST(digits AS float)", 12.0),
    ("CAST(' -1.5e1 ' AS float)", -15.0),
    ("TRY_CAST('1d' AS float)", None),
    ("TRY_CAST('Infinity' AS float)", None),
    ("TRY_CAST('' AS float)", None),
    ("CAST(no_s AS float)", None),
    ("CAST(NULL AS float)", None),
    ("CAST(f AS bigint)", 2),
    ("CAST(-f AS bigint)", -2),
    ("TRY_CAST(f * 1e30 AS bigint)", None),
    ("TRY_CAST(none / none AS bigint)", None),
    ("CAST(digits AS bigint)", 12),
    ("TRY_CAST('1.5' AS bigint)", None),
    ("TRY_CAST(s AS bigint)", None),
    ("TRY_CAST(s AS float) IS NOT NULL", False),
    ("CAST(yes AS bigint)", 1),
    ("CAST(n AS bit)", True),
    ("CAST(zero AS bit)", False),
    ("CAST(none AS bit)", False),
    ("CAST('TRUE' AS bit)", True),
    ("TRY_CAST('1' AS bit)", None),
    ("CAST(n AS nvarchar(max))", "7"),
    ("CAST(big AS nvarchar(max))", "9223372036854775807"),
    ("CAST(t AS nvarchar(max))", "2024-02-29T23:59:59.9999990Z"),
    ("CAST(f AS nvarchar(max))", "2.5"),
    ("CAST(none AS nvarchar(max))", "0"),
    ("CAST(f * 40 AS nvarchar(max))", "100"),
    ("CAST(f / 25000 AS nvarchar(max))", "0.0001"),
    ("CAST(f / -250000 AS nvarchar(max))", "-1E-05"),
    ("CAST(f * 1e14 AS nvarchar(max))", "250000000000000"),
    ("CAST(f * 4e14 AS nvarchar(max))", "1E+15"),
    ("CAST(f * 1e15 AS nvarchar(max))", "2.5E+15"),
    ("CAST(f * -1e99 AS nvarchar(max))", "-2.5E+99"),
    ("CAST(n / none AS nvarchar(max))", "Infinity"),
    ("CAST(none / none AS nvarchar(max))", "NaN"),
    ("CAST(1234567.125 AS nvarchar(max))", "1234567.125"),
    ("CAST(123456789012.5 AS nvarchar(max))", "123456789012.5"),
    ("CAST('2024-01-02' AS datetime)", at("2024-01-02T00:00:00")),
    ("CAST('2024-01-02T03:04' AS datetime)", at("2024-01-02T03:04:00")),
    ("CAST('2024-01-02 03:04:05.1234567' AS datetime)", at("2024-01-02T03:04:05.123456")),
    ("CAST('2024-01-02T03:04:05Z' AS datetime)", at("2024-01-02T03:04:05")),
    ("CAST('2024-01-02T03:04:05+01:30' AS datetime)", at("2024-01-02T01:34:05")),
    ("TRY_CAST('2024' AS datetime)", None),
    ("TRY_CAST('03:04:05' AS datetime)", None),
    ("TRY_CAST('2024-13-02' AS datetime)", None),
    ("TRY_CAST('2024-01-02T03:04:05 Europe/Berlin' AS datetime)", None),
    ("System.Timestamp", at("2024-05-06T07:08:09.123456")),
    ("N'it''s'", "it's"),
    ("'${env:HOME} \\d'", "${env:HOME} \\d"),
    ("r.LIMITS.high + r.value", 10.5),
]

VALUES = [one for one in OPERATORS if one[0] != "n > 'nan'"] + CONDITIONS + CHOICES + CASTS


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["false", "true"])
def test_every_expression_gives_its_value_in_a_session_with_and_without_ansi(spark: SparkSession, ansi: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    found = evaluated(row_frame(session), [text for text, _ in VALUES])
    wrong = [
        (text, expected, value)
        for (text, expected), value in zip(VALUES, found, strict=True)
        if type(value) is not type(expected) or not (value == expected or (value != value and expected != expected))
    ]
    assert wrong == []


FATAL = [
    ("n + big", "alerts.asaql:1:1: the result of + is no bigint: 7, 9223372036854775807"),
    ("n / zero", "alerts.asaql:1:1: a bigint is divided by zero, or the result is no bigint: 7, 0"),
    ("(-big - 1) / -(n - 6)", "or the result is no bigint: -9223372036854775808, -1"),
    ("n % zero", "the remainder of a division of a bigint by zero: 7, 0"),
    ("-(-big - 1)", "the negative of the least bigint is no bigint: -9223372036854775808"),
    ("1 + CAST(s AS bigint)", "alerts.asaql:1:10: a value of nvarchar(max) cannot be converted to bigint"),
    ("CAST(s AS float)", ": 'Abc'; row at 2024-05-06T07:08:09.123456Z"),
    ("CAST(blank AS float)", ": ''; row at 2024-05-06T07:08:09.123456Z"),
    (
        "CAST(f * 1e30 AS bigint)",
        "a value of float cannot be converted to bigint (TRY_CAST gives null instead): 2.5E30",
    ),
    ("CAST(s AS datetime)", "cannot be converted to datetime"),
    ("CAST(s AS bit)", "cannot be converted to bit"),
    ("s + 1", "a value of nvarchar(max) cannot be converted to float"),
    ("s > n", "a value of nvarchar(max) cannot be converted to float"),
    ("CASE WHEN n = 7 THEN CAST(s AS bigint) ELSE 1 END", "cannot be converted to bigint"),
    ("n / zero IS NULL", "divided by zero"),
    ("n = 7 AND n / zero = 1", "divided by zero"),
    ("n + (n + (n / zero))", "divided by zero"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("text", "message"), FATAL)
def test_what_fails_stops_the_run_and_names_its_place_its_values_and_the_row(
    spark: SparkSession, text: str, message: str
) -> None:
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION") as raised:
        evaluated(row_frame(spark), [text])
    assert message in str(raised.value)


def test_text_is_compared_without_case_where_the_job_says_so(spark: SparkSession) -> None:
    texts = ["s = 'ABC'", "s IN ('x', 'aBC')", "CASE s WHEN 'abc' THEN 1 END", "s > 'B'"]
    assert evaluated(row_frame(spark), texts) == [False, False, None, False]
    assert evaluated(row_frame(spark), texts, ignoring_case()) == [True, True, 1, False]


def test_translation_needs_no_spark() -> None:
    assert translated("n = 7").sql == "(`n` = 7L)"
