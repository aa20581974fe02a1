"""What the settings of a session keep from happening."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_text_in_an_expression_reads_no_environment_variable(spark: SparkSession) -> None:
    text = "'${env:PATH} ${spark.app.name}'"
    assert [row[0] for row in spark.range(1).selectExpr(text).collect()] == [text.strip("'")]
