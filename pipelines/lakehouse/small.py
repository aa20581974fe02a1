"""Results of little data: taken from Spark once, then counted, fingerprinted and written here.

For a day of a quiet log Spark's own way costs many times what the data cost: a pass over everything for every number,
and a dozen jobs a commit. The rows, the fingerprint and the commits are the same in both ways.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake

from pipelines.core.model import AnyOf, Grid, Job, OutputRange, Session, Window
from pipelines.core.plan import Plan
from pipelines.core.time import DAY
from pipelines.lakehouse.commits import commit
from pipelines.lakehouse.layout import Layout, is_whole_days, result_tables
from pipelines.lakehouse.root import Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS = 200_000
"""Of a result, so many rows at most are held in memory."""
MOST_BYTES = 64 * 2**20
"""Of arrivals, as files; rows may be wide."""
_DIGEST = "__digest"
_ATTEMPTS = 5


def is_small(job: Job, plan: Plan, house: Lakehouse) -> bool:
    """Whether all that the plan gives, and what lies beside it in the same days, certainly fits into memory, and every
    table can be written without Spark."""
    events = [table.rows for table in plan.reads]
    if None in events or sum(table.size_bytes for table in plan.reads) > MOST_BYTES:
        return False
    if any(table.replaced_rows is None or table.replaced_rows > MOST_ROWS for table in plan.writes):
        return False
    each = _windows_of_an_event(job)
    if each is None or sum(rows for rows in events if rows is not None) * max(each, 1) > MOST_ROWS:
        return False
    return all(_is_plain(house.open(name)) for name, _ in result_tables(job))


def _windows_of_an_event(job: Job) -> int | None:
    """How many rows of windows one event can make at most; None where that hangs on others, or on how long it lasts."""
    if job.query.join is not None or any(part.shape != "point" for part in job.inputs):
        return None
    return _windows_of_a_point(job.query.window)


def _windows_of_a_point(window: Window) -> int:
    match window:
        case AnyOf():
            return sum(_windows_of_a_point(member) for _, member in window.members)
        case Grid():
            return math.ceil(window.size_us / window.hop_us)
        case Session():
            return 1
        case _:
            # a result changes when an event comes and when it goes
            return 2


def _is_plain(table: DeltaTable | None) -> bool:
    return table is None or table.protocol().min_writer_version <= 2


@dataclass(frozen=True, slots=True)
class Taken:
    """All rows of a result with their day column, as in a table; ``query`` gave them and was executed."""

    rows: pa.Table
    query: DataFrame


def take(frame: DataFrame, layout: Layout) -> Taken:
    """The rows of a result."""
    from pipelines.lakehouse.write import with_day

    query = _loosened(with_day(frame, layout))
    return Taken(_nullable(query.toArrow()), query)


def take_fingerprinted(frame: DataFrame, layout: Layout) -> tuple[Taken, str]:
    """The rows of a result, and what :func:`pipelines.lakehouse.write.fingerprint` says of them."""
    from pipelines.lakehouse.write import digest_of, fingerprint_of, with_day

    query = _loosened(with_day(frame.withColumn(_DIGEST, digest_of(frame.schema)), layout))
    rows = query.toArrow()
    digests = bytes.fromhex("".join(rows[_DIGEST].to_pylist()))
    # unsigned integers wrap round, which is what adding up modulo 2^64 means
    lanes = np.frombuffer(digests, ">u8").astype(np.uint64).reshape(len(rows), -1).sum(axis=0, dtype=np.uint64)
    counted = fingerprint_of(len(rows), [int(lane) for lane in lanes])
    return Taken(_nullable(rows.drop_columns([_DIGEST])), query), counted.fingerprint


def _loosened(frame: DataFrame) -> DataFrame:
    """``frame`` with structs whose fields may all be null: Arrow refuses a null struct of fields that may not."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    def loose(kind: T.DataType) -> T.DataType:
        match kind:
            case T.ArrayType():
                return T.ArrayType(loose(kind.elementType))
            case T.MapType():
                return T.MapType(kind.keyType, loose(kind.valueType))
            case T.StructType():
                return T.StructType([T.StructField(field.name, loose(field.dataType)) for field in kind])
        return kind

    nested = [field for field in frame.schema if "struct<" in field.dataType.simpleString()]
    return frame.withColumns({field.name: F.col(f"`{field.name}`").cast(loose(field.dataType)) for field in nested})


def replace_rows(
    rows: pa.Table, house: Lakehouse, name: str, layout: Layout, output: OutputRange, told: Mapping[str, str]
) -> None:
    """As :func:`pipelines.lakehouse.write.replace_range`, without Spark.

    The days that the range touches are replaced as wholes; what they hold outside of the range is written again with
    them. Which rows those are is decided by the rows, not by the statistics of files, which are cut to the millisecond.
    """
    assert pc.all(_inside(rows, layout, output)).as_py() is not False, f"{name}: a row lies outside of {output}"
    # another commit meanwhile, whatever it did, may have changed what is kept
    about = CommitProperties(custom_metadata=dict(told), max_commit_retries=0)
    days = layout.days(output)

    def write(table: DeltaTable | None) -> None:
        if table is None:
            place, sorted_rows = house.uri(name), _sorted(rows, layout)
            write_deltalake(place, sorted_rows, mode="error", partition_by=[layout.day], commit_properties=about)
        elif days is None:
            sorted_rows = _sorted(rows, layout)
            write_deltalake(table, sorted_rows, mode="overwrite", schema_mode="overwrite", commit_properties=about)
        else:
            kept = [] if is_whole_days(output) else [_outside(table, layout, output, rows.schema)]
            together = _sorted(pa.concat_tables([rows, *kept]), layout)
            write_deltalake(table, together, mode="overwrite", predicate=days, commit_properties=about)

    commit(house, name, write, _ATTEMPTS)


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


def _nullable(rows: pa.Table) -> pa.Table:
    return rows.cast(pa.schema([pa.field(field.name, _loose(field.type)) for field in rows.schema]))


def _loose(kind: pa.DataType) -> pa.DataType:
    """The type with nothing in it that may not be null."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _loose(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, pa.field("value", _loose(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _loose(field.type)) for field in kind])
    return kind
