"""What is not in the language, or cannot be given exactly, is refused: where, and what to do instead."""

from __future__ import annotations

import pytest
from expression_row import SETTINGS, translated

from pipelines.job.expressions import columns_read
from pipelines.job.sql.refusal import Refused

REFUSALS = [
    ("1 +\n  ISNUMERIC(s)", 2, 3, "ISNUMERIC: not offered; write TRY_CAST(x AS float) IS NOT NULL"),
    ("IIF(n = 1, 2, 3)", 1, 1, "IIF: not offered; write CASE"),
    ("CONVERT(n, 1)", 1, 1, "CONVERT: not offered; write CAST(x AS type)"),
    ("FORMAT(t, 'd')", 1, 1, "FORMAT: not offered"),
    ("GETDATE()", 1, 1, "GETDATE: not offered; a clock gives another value at each replay"),
    ("GetType(n)", 1, 1, "GetType: not offered"),
    ("JSON_PARSE(s)", 1, 1, "JSON_PARSE: not offered; the type of its result is not known; declare the column"),
    ("ST_WITHIN(a, a)", 1, 1, "ST_WITHIN: not offered; its results depend on an unpublished projection"),
    ("AnomalyDetection_SpikeAndDip(f, 95, 120, 'x')", 1, 1, "its model is not published"),
    ("LENGTH(s)", 1, 1, "LENGTH: there is no such function; did you mean 'LEN'?"),
    ("LEN(s, 1)", 1, 1, "LEN takes 1 argument, not 2"),
    ("CHARINDEX(s)", 1, 1, "CHARINDEX takes 2 to 3 arguments, not 1"),
    ("CONCAT()", 1, 1, "CONCAT takes 1 or more arguments, not 0"),
    ("GetArrayElements(a)", 1, 1, "write CROSS APPLY after FROM"),
    ("aml.score(n)", 1, 1, "code outside of the script runs in the product alone"),
    ("udf.f(n)", 1, 1, "udf.f is code that is not in the script; give Spark SQL for it under 'functions'"),
    ("LEN(n)", 1, 5, "LEN: bigint stands where text is due; CAST it to nvarchar(max)"),
    ("n LIKE '1%'", 1, 1, "LIKE compares text, not bigint"),
    ("s LIKE 'a[b'", 1, 1, "'a[b' has a [ without its ]; write [[] for the character"),
    ("PATINDEX(s, s)", 1, 10, "PATINDEX: the pattern must be a literal"),
    ("REGEXMATCH(s, s)", 1, 15, "REGEXMATCH: the pattern must be a literal"),
    ("REGEXMATCH(s, '(')", 1, 15, "REGEXMATCH: '(' is no regular expression"),
    ("LEFT(s, -1)", 1, 10, "LEFT: the length is negative"),
    ("TRANSLATE(s, 'ab', 'c')", 1, 20, "TRANSLATE: the characters sought and the ones given differ in number"),
    ("ROUND(f, n)", 1, 10, "ROUND: the number of digits must be a literal"),
    ("DATEDIFF(fortnight, t, t)", 1, 10, "DATEDIFF: fortnight is no part of a date; use one of year, quarter"),
    ("DATEADD('day', 1, t)", 1, 9, "DATEADD: 'day' is no part of a date"),
    ("DATEPART(year, n)", 1, 16, "bigint cannot be converted to datetime; write DATEADD(millisecond, n, '1970-01-01')"),
    ("t + 1", 1, 1, "datetime cannot be converted to bigint; write DATEDIFF(millisecond, '1970-01-01', t)"),
    ("t > 1", 1, 1, "datetime cannot be converted to bigint"),
    ("r = r", 1, 1, "record cannot be compared; compare its parts"),
    ("f & 1", 1, 1, "bits are those of bigint and bit, not of float; CAST it to bigint"),
    ("CAST(n AS int)", 1, 6, "type integer is not in the language; use bigint, float, nvarchar(max), datetime or bit"),
    ("CAST(s AS nvarchar(10))", 1, 6, "type nvarchar(10) is not in the language"),
    ("CAST(yes AS nvarchar(max))", 1, 6, "bit cannot be converted to nvarchar(max); write CASE WHEN .. THEN 'true'"),
    ("CAST(r AS nvarchar(max))", 1, 6, "record cannot be converted to nvarchar(max)"),
    ("CASE WHEN yes THEN 'a' ELSE 1 END", 1, 20, "nvarchar(max) and bigint have no common type; CAST them to one"),
    ("COALESCE(n, t)", 1, 10, "bigint and datetime have no common type"),
    ("n AND yes", 1, 1, "a condition is due here, not bigint; compare it with something"),
    ("n IN (SELECT 1)", 1, 1, "IN (SELECT ..) is not in the language; join the other source"),
    ("9223372036854775808", 1, 1, "9223372036854775808 is no bigint; write it as a float, 9.223372036854776e+18"),
    (
        "GetArrayElement(s, 0)",
        1,
        17,
        "GETARRAYELEMENT: nvarchar(max) stands where an array is due; declare the column as ARRAY",
    ),
    ("GetRecordPropertyValue(s, 'x')", 1, 24, "stands where a record is due; declare the column as STRUCT"),
    ("GetRecordPropertyValue(r, CONCAT(s, ''))", 1, 1, "nvarchar(max), float and record have no common type"),
    ("GetMetadataPropertyValue(readings, '[User].[type]')", 1, 36, "the log does not have 'type'; declare a column"),
    ("missing + 1", 1, 1, "there is no column 'missing'"),
    ("r.missing", 1, 1, "the record has no property 'missing'"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), REFUSALS, ids=[one[0] for one in REFUSALS])
def test_what_cannot_be_given_is_refused_with_its_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(Refused) as refused:
        translated(text)
    assert message in refused.value.what
    assert (refused.value.line, refused.value.column) == (line, column)
    assert str(refused.value.at(SETTINGS.file)).startswith(f"alerts.asaql:{line}:{column}: ")


def test_the_columns_that_a_translated_expression_reads_can_be_found() -> None:
    text = "CASE WHEN s LIKE '[a]%' THEN CAST(digits AS bigint) / n ELSE DATEDIFF(week, t, old) + LEN(r.id) END"
    assert columns_read([translated(text).sql]) == {"s", "digits", "n", "t", "old", "r", "system_timestamp"}


@pytest.mark.parametrize(
    "text",
    [
        "n + n - n * n + n - n",
        "COALESCE(COALESCE(COALESCE(COALESCE(n * n, 1) * n, 2) * n, 3) * n, 4) * n",
        "CASE WHEN CASE WHEN CASE WHEN n + 1 > 3 THEN n * n END + n > 3 THEN n + n END + 1 > 2 THEN n END + 1",
    ],
)
def test_checks_do_not_double_the_text_at_each_level(text: str) -> None:
    assert len(translated(text).sql) < 12_000
