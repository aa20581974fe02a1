"""The Spark side of the tables: read arrivals at one version, replace exactly one output range, fingerprint rows."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.errors import UsageError
from pipelines.core.model import OutputRange
from pipelines.core.time import DAY
from pipelines.lakehouse.commits import commit
from pipelines.lakehouse.layout import Layout, is_whole_days
from pipelines.lakehouse.root import Lakehouse

_ATTEMPTS = 5


def with_day(frame: DataFrame, layout: Layout) -> DataFrame:
    """``frame`` with its partition column, the UTC date of the time column."""
    return frame.withColumn(layout.day, F.to_date(layout.time))


def check_columns(lakehouse: Lakehouse, name: str, frame: DataFrame, output: OutputRange) -> None:
    """:class:`UsageError` if the table holds other columns than ``frame`` and only a part of it is to be replaced."""
    table = lakehouse.open(name)
    if table is None or output == OutputRange():
        return
    held = {field.name.lower(): field for field in T.StructType.fromJson(json.loads(table.schema().to_json()))}
    given = {field.name.lower(): field for field in frame.schema}
    for key in sorted(held.keys() | given.keys()):
        before, now = held.get(key), given.get(key)
        if before is not None and now is not None and _plain(before.dataType) == _plain(now.dataType):
            continue
        was = f"{before.name} {before.dataType.simpleString().upper()}" if before else f"no column '{key}'"
        becomes = f"{now.name} {now.dataType.simpleString().upper()}" if now else f"no column '{key}'"
        raise UsageError(
            f"the table {name} has {was}, but the job now gives {becomes}: a part of it cannot be replaced",
            hint="replay without --from and --to, which replaces the whole table, or give the job another name",
        )


def replace_range(
    rows: DataFrame | pa.Table,
    lakehouse: Lakehouse,
    name: str,
    layout: Layout,
    output: OutputRange,
    metadata: Mapping[str, str],
) -> int:
    """Replace what lies in ``[from, to)`` by ``rows`` (which have their day column) in one commit; its version.

    Nothing is committed if a row lies outside the range. An open range replaces the table, columns included.
    """
    told = {"userMetadata": json.dumps(dict(metadata))}
    if isinstance(rows, pa.Table):
        replace_rows(rows, lakehouse, name, layout, output, told)
    else:
        _replace_by_spark(rows, lakehouse, name, layout, output, told)
    return _version_of(lakehouse, name, told)


def _replace_by_spark(
    frame: DataFrame, lakehouse: Lakehouse, name: str, layout: Layout, output: OutputRange, told: Mapping[str, str]
) -> None:
    # a day in few files, and a big day in several: balanced by Spark as it runs, without a pass to sample
    laid_out = frame.hint("rebalance", layout.day).sortWithinPartitions(layout.day, layout.time)
    writer = laid_out.write.format("delta").mode("overwrite").partitionBy(layout.day)
    writer = writer.options(**told)
    condition = layout.days(output) if is_whole_days(output) else layout.condition(output)
    if condition is None:
        writer = writer.option("overwriteSchema", "true")
    elif lakehouse.open(name) is not None:
        writer = writer.option("replaceWhere", condition)
    writer.save(lakehouse.uri(name))


def _version_of(lakehouse: Lakehouse, name: str, told: Mapping[str, str]) -> int:
    """The version of the commit that was told this."""
    table = lakehouse.open(name)
    assert table is not None, name
    for entry in table.history(50):
        if told.items() <= entry.items():
            return int(entry["version"])
    raise AssertionError(f"{name}: the commit just made is not in the log")


def _plain(kind: T.DataType) -> str:
    """The type without nullability, which tables and results may differ in."""
    return kind.simpleString().lower()


def replace_rows(
    rows: pa.Table, lakehouse: Lakehouse, name: str, layout: Layout, output: OutputRange, told: Mapping[str, str]
) -> None:
    """As :func:`pipelines.replay.write.replace_range`, without Spark.

    The days that the range touches are replaced as wholes; what they hold outside of the range is written again with
    them. Which rows those are is decided by the rows, not by the statistics of files, which are cut to the millisecond.
    """
    assert pc.all(_inside(rows, layout, output)).as_py() is not False, f"{name}: a row lies outside of {output}"
    # another commit meanwhile, whatever it did, may have changed what is kept
    about = CommitProperties(custom_metadata=dict(told), max_commit_retries=0)
    days = layout.days(output)

    def write(table: DeltaTable | None) -> None:
        if table is None:
            place, sorted_rows = lakehouse.uri(name), _sorted(rows, layout)
            write_deltalake(place, sorted_rows, mode="error", partition_by=[layout.day], commit_properties=about)
        elif days is None:
            sorted_rows = _sorted(rows, layout)
            write_deltalake(table, sorted_rows, mode="overwrite", schema_mode="overwrite", commit_properties=about)
        else:
            kept = [] if is_whole_days(output) else [_outside(table, layout, output, rows.schema)]
            together = _sorted(pa.concat_tables([rows, *kept]), layout)
            write_deltalake(table, together, mode="overwrite", predicate=days, commit_properties=about)

    commit(lakehouse, name, write, _ATTEMPTS)


def _outside(table: DeltaTable, layout: Layout, output: OutputRange, schema: pa.Schema) -> pa.Table:
    """Rows of the days that the range touches which do not lie in it, in the columns of ``schema``."""
    dataset = table.to_pyarrow_dataset()
    held = {name.lower(): name for name in dataset.schema.names}
    ends = [end_us for end_us in (output.from_us, output.to_us) if end_us is not None and end_us % DAY]
    edges = pc.field(held[layout.day]).isin(pa.array([end_us // DAY for end_us in ends], pa.int32()).cast(pa.date32()))
    rows = dataset.to_table(filter=edges).select([held[name.lower()] for name in schema.names])
    rows = rows.rename_columns(schema.names).cast(schema)
    return rows.filter(pc.invert(_inside(rows, layout, output)))


def _inside(rows: pa.Table, layout: Layout, output: OutputRange) -> pa.Array:
    times = np.asarray(rows[layout.time].cast(pa.int64()))
    inside = np.ones(len(rows), bool)
    if output.from_us is not None:
        inside &= times >= output.from_us
    if output.to_us is not None:
        inside &= times < output.to_us
    return pa.array(inside)


def _sorted(rows: pa.Table, layout: Layout) -> pa.Table:
    return rows.sort_by([(column, "ascending") for column in (layout.day, layout.time)])
