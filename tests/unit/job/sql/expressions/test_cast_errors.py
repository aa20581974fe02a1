"""``on_cast_error``: what becomes of a row of which a value cannot be converted (Q34)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from expression_row import SETTINGS, evaluated, row_frame, translated
from pyspark.sql import SparkSession

NULL = replace(SETTINGS, on_cast_error="null")
DROP = replace(SETTINGS, on_cast_error="drop_row")

ROWS: dict[str, bool] = {
    "CAST(digits AS bigint)": True,
    "CAST(s AS bigint)": False,
    "CAST(no_s AS bigint)": True,
    "TRY_CAST(s AS bigint)": True,
    "CAST(s AS float) + CAST(digits AS float)": False,
    "CAST(CAST(digits AS float) * 1e30 AS bigint)": False,
    "COALESCE(CAST(s AS bigint), 1)": False,
    "COALESCE(n, CAST(s AS bigint))": True,
    "COALESCE(no_n, CAST(s AS bigint))": False,
    "CASE WHEN n = 7 THEN 1 ELSE CAST(s AS bigint) END": True,
    "CASE WHEN n = 8 THEN 1 ELSE CAST(s AS bigint) END": False,
    "CASE WHEN no_n = 8 THEN CAST(s AS bigint) WHEN n = 7 THEN 1 END": True,
    "CASE WHEN n = 7 THEN CAST(s AS bigint) ELSE 1 END": False,
    "CASE WHEN CAST(s AS bigint) = 1 THEN 1 ELSE 2 END": False,
    "CASE WHEN n = 7 THEN 1 WHEN CAST(s AS bigint) = 1 THEN 2 END": True,
    "n = 8 AND CAST(s AS bigint) = 1": True,
    "n = 7 AND CAST(s AS bigint) = 1": False,
    "no_n = 7 AND CAST(s AS bigint) = 1": False,
    "n = 7 OR s > 1": True,
    "s > 1": False,
    "CONCAT(s, CAST(s AS float))": False,
}


@pytest.mark.spark
def test_a_row_is_dropped_only_for_a_value_that_the_expression_comes_to(spark: SparkSession) -> None:
    conditions = [" AND ".join(translated(text, DROP).kept_if) or "true" for text in ROWS]
    found = row_frame(spark).selectExpr(*(f"{one} AS c{index}" for index, one in enumerate(conditions))).collect()[0]
    assert dict(zip(ROWS, found, strict=True)) == ROWS


@pytest.mark.spark
def test_the_run_stops_for_the_rows_that_would_be_dropped_and_for_no_others(spark: SparkSession) -> None:
    frame = row_frame(spark)
    evaluated(frame, [text for text, kept in ROWS.items() if kept])
    for text in (text for text, kept in ROWS.items() if not kept):
        with pytest.raises(Exception, match="cannot be converted"):
            evaluated(frame, [text])


@pytest.mark.spark
def test_a_value_that_cannot_be_converted_is_null_where_the_job_says_so(spark: SparkSession) -> None:
    texts = ["CAST(s AS bigint)", "COALESCE(CAST(s AS bigint), 1)", "s > 1", "CAST(digits AS bigint)"]
    assert evaluated(row_frame(spark), texts, NULL) == [None, 1, None, 12]


@pytest.mark.spark
def test_overflow_stops_the_run_whatever_the_job_says_of_casts(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="the result of \\+ is no bigint"):
        evaluated(row_frame(spark), ["n + big"], DROP)
