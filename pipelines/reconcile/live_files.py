"""The live run's results where they are files: a folder of Parquet, or of JSON by line or in arrays that stay open.

Folders of days and hours are searched as a whole; of ``key=value`` folders the keys are columns. Extended JSON
(``{"$date": ..}``) is read as the value it stands for, and ``_stream_meta.window`` as the window.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.errors import UsageError
from pipelines.ingest.sources.places import result_files

_CORRUPT = "_corrupt_record"
_WRAPPED = {
    "$date": T.TimestampType(),
    "$numberLong": T.LongType(),
    "$numberInt": T.LongType(),
    "$numberDouble": T.DoubleType(),
}


def live_files(spark: SparkSession, folder: str) -> DataFrame | None:
    """The rows of all files below ``folder``; None if there are none.

    Raises :class:`UsageError` if they are of two formats, or a line is not JSON.
    """
    files = result_files(folder)
    if not files:
        return None
    kinds = {file.match["end"] == "parquet" for file in files}
    if len(kinds) > 1:
        raise UsageError(f"the folder {folder} has files of two formats", hint="name a folder of one")
    scheme = f"{folder.partition('://')[0]}://" if "://" in folder else ""
    paths = [scheme + file.path for file in files]
    reader = spark.read.option("basePath", folder)
    if kinds == {True}:
        return _plain(reader.option("mergeSchema", "true").parquet(*paths))
    return _plain(_json(spark, reader.text(paths), folder))


def _json(spark: SparkSession, lines: DataFrame, folder: str) -> DataFrame:
    """One row an object: what an array has around its objects is cut off, also where the array is not closed yet."""
    text = F.regexp_replace(F.regexp_replace("value", r"^[\s\[,]*\{", "{"), r"\}[\s,\]]*$", "}")
    lines = lines.withColumn("value", text).filter(~F.col("value").rlike(r"^[\s\[\],]*$"))
    strings = getattr(lines.select("value")._jdf, "as")(spark._jvm.org.apache.spark.sql.Encoders.STRING())  # type: ignore[union-attr]
    schema = DataFrame(spark._jsparkSession.read().json(strings), spark).schema
    if _CORRUPT in schema.names:
        raise UsageError(f"the folder {folder} has lines that are not JSON", hint="move the damaged file away")
    others = [name for name in lines.columns if name != "value"]
    return lines.select(F.from_json("value", schema).alias("value"), *others).select("value.*", *others)


def _plain(rows: DataFrame) -> DataFrame:
    """``rows`` with the window's ends where a product keeps them, and extended JSON as values."""
    there = {name.lower() for name in rows.columns}
    meta = next((field.dataType for field in rows.schema if field.name == "_stream_meta"), None)
    window: Any = meta["window"].dataType if isinstance(meta, T.StructType) and "window" in meta.names else None
    for end in ("start", "end"):
        if isinstance(window, T.StructType) and end in window.names and f"window_{end}" not in there:
            rows = rows.withColumn(f"window_{end}", F.col(f"_stream_meta.window.{end}"))
    return rows.select(*(_value(F.col(f"`{field.name}`"), field.dataType).alias(field.name) for field in rows.schema))


def _value(column: Column, kind: T.DataType) -> Column:
    if not isinstance(kind, T.StructType) or len(kind.names) != 1 or kind.names[0] not in _WRAPPED:
        return column
    (name,) = kind.names
    inner, wanted = kind[0].dataType, _WRAPPED[name]
    value = column.getField(name)
    if name == "$date" and isinstance(inner, T.StructType):
        return F.timestamp_millis(_value(value, inner))
    return value.try_cast(wanted)
