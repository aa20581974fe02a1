"""Results computed once before anything is written: collected on the driver, or persisted in Spark.

For a day of a quiet log Spark's own way costs many times what the data cost: a pass over everything for every number,
and a dozen jobs a commit. The rows, the fingerprint and the commits are the same in both ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch.engine import Result, StepsResult
from pipelines.core.expressions import quoted
from pipelines.core.model import Job
from pipelines.core.steps import SYSTEM_TIMESTAMP
from pipelines.core.verdicts import IS_EXCEPTION_SQL, is_exception
from pipelines.lakehouse.layout import (
    WINDOWS,
    dead_letters_table,
    output_tables,
    result_tables,
    verdicts_table,
    windows_table,
)
from pipelines.plan.definition import Writer
from pipelines.replay.fingerprint import Counted, digest_of, fingerprint
from pipelines.replay.write import with_day

_DIGEST = "__digest"


@dataclass(frozen=True)
class Computed:
    """Results by table. ``decisions``: events by input, verdict, reasons; ``counted``: the outputs' rows, by table;
    ``queries`` were executed for all this."""

    tables: Mapping[str, DataFrame | pa.Table]
    rows: Mapping[str, int]
    decisions: Counter[tuple[str, str, tuple[str, ...]]]
    counted: Mapping[str, Counted]
    queries: tuple[DataFrame, ...]


def frames_of(job: Job, result: Result | StepsResult) -> dict[str, DataFrame]:
    """Results by table, in the order of their commits."""
    frames = {verdicts_table(job): result.verdicts, **output_frames(job, result)}
    if result.dead_letters is not None:
        frames[dead_letters_table(job)] = result.dead_letters
    return {name: frames[name] for name, _ in result_tables(job)}


def output_frames(job: Job, result: Result | StepsResult) -> dict[str, DataFrame]:
    """The rows of each output that was computed, by table."""
    if isinstance(result, Result):
        return {windows_table(job): result.windows}
    frames = {}
    for one in output_tables(job):
        if one.output not in result.outputs:
            continue
        rows = storable(result.outputs[one.output])
        frames[one.table] = rows.drop(SYSTEM_TIMESTAMP) if one.layout is WINDOWS else rows
    return frames


@contextmanager
def computed(job: Job, result: Result | StepsResult, writer: Writer) -> Iterator[Computed]:
    """The results of ``job``, computed; what Spark keeps of them is forgotten when the block is left."""
    frames, steps = frames_of(job, result), () if isinstance(result, Result) else result.shared_steps
    if writer == "driver":
        with persisted(steps):
            yield _collected(job, frames)
        return
    # verdicts are cheap to make again from what is shared
    cheap = verdicts_table(job) if result.shared else None
    with persisted([*result.shared, *steps, *(frame for name, frame in frames.items() if name != cheap)]):
        yield _counted(job, frames, at_once=not result.shared)


@contextmanager
def persisted(frames: Sequence[DataFrame]) -> Iterator[None]:
    """A block in which Spark keeps what it has computed of ``frames``."""
    for frame in frames:
        frame.persist()
    try:
        yield
    finally:
        for frame in frames:
            frame.unpersist()


def _counted(job: Job, frames: Mapping[str, DataFrame], *, at_once: bool) -> Computed:
    verdicts, outputs = verdicts_table(job), [one.table for one in output_tables(job)]
    counts = frames[verdicts].groupBy("input", "verdict", "reasons").count()
    # at once, so that cores compute one while Spark plans the other; not where both wait for the same frame
    with ThreadPoolExecutor(2 if at_once else 1) as pool:
        counting = pool.submit(counts.collect)
        summing = pool.submit(lambda: {name: fingerprint(frames[name]) for name in outputs})
    decisions = Counter(
        {(row["input"], row["verdict"], tuple(row["reasons"])): row["count"] for row in counting.result()}
    )
    summed = summing.result()
    rows = {name: frames[name].count() for name in frames if name not in (verdicts, *outputs)}
    rows |= {name: one.rows for name, one in summed.items()}
    rows[verdicts] = sum(count for (_, *decision), count in decisions.items() if _keeps(job, *decision))
    kept = frames[verdicts] if job.keep_verdicts == "all" else frames[verdicts].filter(IS_EXCEPTION_SQL)
    tables = {name: with_day({**frames, verdicts: kept}[name], layout) for name, layout in result_tables(job)}
    return Computed(tables, rows, decisions, summed, tuple(frames.values()))


def _collected(job: Job, frames: Mapping[str, DataFrame]) -> Computed:
    verdicts, outputs = verdicts_table(job), [one.table for one in output_tables(job)]
    digested = {name: frames[name].withColumn(_DIGEST, digest_of(frames[name].schema)) for name in outputs}
    queries = {name: _loosened(with_day({**frames, **digested}[name], layout)) for name, layout in result_tables(job)}
    tables = {name: query.toArrow() for name, query in queries.items()}
    counted = {name: _summed(tables[name][_DIGEST]) for name in outputs}
    tables |= {name: tables[name].drop_columns([_DIGEST]) for name in outputs}
    tables = {name: _nullable(table) for name, table in tables.items()}
    columns = [tables[verdicts][name].to_pylist() for name in ("input", "verdict", "reasons")]
    each = [(name, verdict, tuple(reasons)) for name, verdict, reasons in zip(*columns, strict=True)]
    kept = pa.array([_keeps(job, *decision) for _, *decision in each], pa.bool_())
    tables[verdicts] = tables[verdicts].filter(kept)
    rows = {name: len(table) for name, table in tables.items()}
    return Computed(tables, rows, Counter(each), counted, tuple(queries.values()))


def _summed(digests: pa.ChunkedArray) -> Counted:
    """Rows with these hashes."""
    numbers = np.frombuffer(bytes.fromhex("".join(digests.to_pylist())), ">u8").astype(np.uint64)
    # unsigned integers wrap round, which is what adding up modulo 2^64 means
    sums = numbers.reshape(-1, 4).sum(axis=0, dtype=np.uint64)
    return Counted(len(digests), tuple(int(part) for part in sums))


def _keeps(job: Job, verdict: str, reasons: tuple[str, ...]) -> bool:
    """Whether table ``verdicts`` keeps such an event."""
    return job.keep_verdicts == "all" or is_exception(verdict, reasons)


def to_arrow(frame: DataFrame) -> pa.Table:
    """The rows of any frame, also with structs that are null, in types that tables take."""
    return _nullable(_loosened(frame).toArrow())


def _loosened(frame: DataFrame) -> DataFrame:
    """``frame`` with structs whose fields may all be null: Arrow refuses a null struct of fields that may not."""
    return _recast(frame, "struct<")


def storable(frame: DataFrame) -> DataFrame:
    """``frame`` without columns of no type, as of a bare NULL, which no table takes: they become text."""
    return _recast(frame, "void")


def _recast(frame: DataFrame, kind: str) -> DataFrame:
    """``frame`` with the columns that have ``kind`` in their type in the loosest form of it."""

    def loose(kind: T.DataType) -> T.DataType:
        match kind:
            case T.ArrayType():
                return T.ArrayType(loose(kind.elementType))
            case T.MapType():
                return T.MapType(kind.keyType, loose(kind.valueType))
            case T.StructType():
                return T.StructType([T.StructField(field.name, loose(field.dataType)) for field in kind])
            case T.NullType():
                return T.StringType()
        return kind

    found = [field for field in frame.schema if kind in field.dataType.simpleString()]
    return frame.withColumns({field.name: F.col(quoted(field.name)).cast(loose(field.dataType)) for field in found})


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
