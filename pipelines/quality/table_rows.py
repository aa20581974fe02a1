"""The rows of a Delta table as a Spark frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.lakehouse.root import Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_rows(
    spark: SparkSession, lakehouse: Lakehouse, name: str, condition: str | None = None, version: int | None = None
) -> DataFrame:
    """The rows of table ``name``, now or at ``version``, where the SQL ``condition`` is true (None: all)."""
    reader = spark.read.format("delta")
    rows = (reader if version is None else reader.option("versionAsOf", version)).load(lakehouse.uri(name))
    return rows if condition is None else rows.filter(condition)
