"""The Spark side of the tables: read arrivals at one version, replace exactly one output range, fingerprint rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from delta import exceptions as delta_errors
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.errors import UsageError
from pipelines.core.model import OutputRange
from pipelines.core.time import DAY, format_instant
from pipelines.lakehouse.commits import commit, version_of
from pipelines.lakehouse.layout import Layout, is_whole_days
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.spark_client import require_safe_commits

Guard = Callable[[DeltaTable | None], None]

_ATTEMPTS = 5
_CONFLICTS = tuple(vars(delta_errors)[name] for name in delta_errors.__all__)


def with_day(frame: DataFrame, layout: Layout) -> DataFrame:
    """``frame`` with its partition column, the UTC date of the time column."""
    return frame.withColumn(layout.day, F.to_date(layout.time))


def check_columns(lakehouse: Lakehouse, name: str, frame: DataFrame, output: OutputRange) -> None:
    """:class:`UsageError` if the table has other columns than ``frame`` and only a part of it is to be replaced."""
    table = lakehouse.open(name)
    if table is None or output == OutputRange():
        return
    present = {field.name.lower(): field for field in T.StructType.fromJson(json.loads(table.schema().to_json()))}
    given = {field.name.lower(): field for field in frame.schema}
    for key in sorted(present.keys() | given.keys()):
        before, now = present.get(key), given.get(key)
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
    guard: Guard = lambda _: None,
) -> int:
    """Replace what lies in ``[from, to)`` by ``rows`` (which have their day column) in one commit; its version.

    Nothing is committed if a row lies outside the range. An open range replaces the table, columns included. The rows
    are the same whatever others commit meanwhile, so a write that conflicts is tried again; :class:`EnvironmentUnfit`
    if it conflicts each time. ``guard`` is called before each try with the table as it is, and may raise; it is called
    again after a commit by Spark, which merges commits that do not conflict in its eyes.
    """
    about = {"userMetadata": json.dumps(dict(metadata))}
    if isinstance(rows, pa.Table):
        replace_rows(rows, lakehouse, name, layout, output, about, guard)
    else:
        _replace_by_spark(rows, lakehouse, name, layout, output, about, guard)
    version = version_of(lakehouse, name, about)
    if isinstance(rows, DataFrame):
        guard(lakehouse.open(name, version))
    return version


def _replace_by_spark(
    frame: DataFrame,
    lakehouse: Lakehouse,
    name: str,
    layout: Layout,
    output: OutputRange,
    about: Mapping[str, str],
    guard: Guard,
) -> None:
    require_safe_commits(frame.sparkSession, lakehouse)
    # a day in few files, and a big day in several: balanced by Spark as it runs, without a pass to sample
    laid_out = frame.hint("rebalance", layout.day).sortWithinPartitions(layout.day, layout.time)
    condition = layout.days(output) if is_whole_days(output) else layout.condition(output)
    how = {"overwriteSchema": "true"} if condition is None else {"replaceWhere": condition}
    writer = laid_out.write.format("delta").mode("overwrite").partitionBy(layout.day).options(**about, **how)

    def write(table: DeltaTable | None) -> None:
        guard(table)
        try:
            writer.save(lakehouse.uri(name))
        except _CONFLICTS as conflict:
            raise CommitFailedError(str(conflict)) from conflict

    commit(lakehouse, name, write, _ATTEMPTS, _described(output))


def _described(output: OutputRange) -> str:
    ends = ["" if end_us is None else format_instant(end_us) for end_us in (output.from_us, output.to_us)]
    return f"the range [{', '.join(ends)})"


def _plain(kind: T.DataType) -> str:
    """The type without nullability, which tables and results may differ in."""
    return kind.simpleString().lower()


def replace_rows(
    rows: pa.Table,
    lakehouse: Lakehouse,
    name: str,
    layout: Layout,
    output: OutputRange,
    about: Mapping[str, str],
    guard: Guard = lambda _: None,
) -> None:
    """As :func:`pipelines.replay.write.replace_range`, without Spark.

    The days that the range touches are replaced as wholes; what they have outside of the range is written again with
    them. Which rows those are is decided by the rows, not by the statistics of files, which are cut to the millisecond.
    """
    assert pc.all(_inside(rows, layout, output)).as_py() is not False, f"{name}: a row lies outside of {output}"
    # another commit meanwhile, whatever it did, may have changed what is kept
    properties = CommitProperties(custom_metadata=dict(about), max_commit_retries=0)
    days = layout.days(output)

    def write(table: DeltaTable | None) -> None:
        guard(table)
        if table is None:
            by_day = {"partition_by": [layout.day], "commit_properties": properties}
            lakehouse.create(name, _sorted(rows, layout), mode="error", **by_day)
        elif days is None:
            sorted_rows = _sorted(rows, layout)
            write_deltalake(table, sorted_rows, mode="overwrite", schema_mode="overwrite", commit_properties=properties)
        else:
            kept = [] if is_whole_days(output) else [_outside(table, layout, output, rows.schema)]
            together = _sorted(pa.concat_tables([rows, *kept]), layout)
            write_deltalake(table, together, mode="overwrite", predicate=days, commit_properties=properties)

    commit(lakehouse, name, write, _ATTEMPTS, _described(output))


def _outside(table: DeltaTable, layout: Layout, output: OutputRange, schema: pa.Schema) -> pa.Table:
    """Rows of the days that the range touches which do not lie in it, in the columns of ``schema``."""
    dataset = table.to_pyarrow_dataset()
    columns = {name.lower(): name for name in dataset.schema.names}
    ends = [end_us for end_us in (output.from_us, output.to_us) if end_us is not None and end_us % DAY]
    edges = pc.field(columns[layout.day]).isin(
        pa.array([end_us // DAY for end_us in ends], pa.int32()).cast(pa.date32())
    )
    rows = dataset.to_table(filter=edges).select([columns[name.lower()] for name in schema.names])
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
