"""What the settings of a session keep from happening."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pipelines.batch.spark.expressions import SparkExpressions
from pipelines.core.model import Column
from pipelines.live.steps.expressions import Expressions
from pipelines.runtime.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_text_in_an_expression_reads_no_environment_variable(spark: SparkSession) -> None:
    text = "'${env:PATH} ${spark.app.name}'"
    assert [row[0] for row in spark.range(1).selectExpr(text).collect()] == [text.strip("'")]


def test_the_rules_of_the_live_engine_s_expressions_do_not_reach_the_process_s_session(spark: SparkSession) -> None:
    Expressions(spark, ansi=True)({"n": pa.chunked_array([[1]])}, ["n + 1"])
    assert session() is spark
    assert SparkExpressions()((Column("at", "string"),), [{"at": "soon"}], ["CAST(at AS TIMESTAMP)"]) == [(None,)]
