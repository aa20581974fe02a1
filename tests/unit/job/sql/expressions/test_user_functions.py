"""``functions`` of a job file: Spark SQL for what a script calls ``udf.name(..)``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from expression_row import SETTINGS, evaluated, row_frame, translated
from pyspark.sql import SparkSession

from pipelines.job.schema import FunctionSection
from pipelines.job.sql.expressions import user_function
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.scope import UserFunction

GIVEN = {
    "to_celsius": "(x - 32) * 5 / 9",
    "pick": FunctionSection.model_validate({"args": ["n", "braces"], "as": "coalesce(nullif(braces, '{0} n'), n)"}),
    "answer": "42",
    "doubled": "element_at(transform(array(x), y -> y * 2), 1) + y - y",
    "typed": "CAST(element_at(transform(array(x), one -> one * 2), 1) AS BIGINT)",
}
FUNCTIONS = replace(SETTINGS, functions={name: user_function(given) for name, given in GIVEN.items()})


def test_a_function_without_names_has_the_arguments_x_y_z_up_to_the_last_that_it_reads() -> None:
    assert user_function("z + 1") == UserFunction(("x", "y", "z"), "z + 1")
    assert user_function("42").arguments == ()


@pytest.mark.parametrize(
    "body", ["rand()", "raise_error(x)", "count(x)", "(SELECT 1)", "x +", "missing + 1", "x; DROP"]
)
def test_a_body_is_checked_as_other_expressions_of_the_job_file_are(body: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        user_function(body)


@pytest.mark.spark
def test_arguments_are_whole_values_wherever_the_body_names_them(spark: SparkSession) -> None:
    expected = {
        "udf.to_celsius(n + 205)": 100.0,
        "UDF.To_Celsius(no_n)": None,
        "udf.pick(s + '}', '{0} n')": "Abc}",
        "udf.pick(s, 'it''s') + '!'": "it's!",
        "udf.answer() + n": 49,
        "udf.typed(n - 4)": 6,
        "udf.to_celsius(CAST(digits AS float) - 2 + 202)": 100.0,
    }
    assert evaluated(row_frame(spark), list(expected), FUNCTIONS) == list(expected.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 + udf.answer(n)", "udf.answer has the arguments (none), but 1 stand here"),
        ("1 + udf.pick(n)", "udf.pick has the arguments (n, braces), but 1 stand here"),
        ("1 + udf.doubled(n, 1)", "the type of udf.doubled is not clear; write its body as CAST(.. AS DOUBLE)"),
    ],
)
def test_a_call_that_does_not_fit_the_function_is_refused(text: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        translated(text, FUNCTIONS)
    assert message in refused.value.what
    assert (refused.value.line, refused.value.column) == (1, 5)
