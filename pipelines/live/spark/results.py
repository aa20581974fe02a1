"""What a batch gives for the tables of results: windows, or the outputs of steps computed over its slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipelines.core.model import Job
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.live.spark.sink import stream_outputs_table, stream_windows_table
from pipelines.live.spark.tables import window_columns
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import Output, Rows, Slice, WindowResult
from pipelines.live.state.rows import NEVER
from pipelines.live.steps.expressions import Expressions
from pipelines.live.steps.outputs import outputs, shown
from pipelines.live.steps.references import stored

Fields = Sequence[tuple[str, pa.DataType]]


class Results(Protocol):
    """What becomes of a batch's output: rows of one or several tables."""

    time: str
    """The column whose UTC date tables are partitioned by."""

    @property
    def tables(self) -> Mapping[str, Fields]:
        """The columns of each table."""

    def rows(self, output: Output) -> Mapping[str, Rows]:
        """The rows of each table."""


@dataclass
class WindowResults(Results):
    """The windows of a query of one step."""

    compiled: CompiledJob
    streams: Mapping[str, DataFrame]
    time = "window_end"

    @property
    def tables(self) -> Mapping[str, Fields]:
        return {stream_windows_table(self.compiled.job): window_columns(self.compiled, self.streams)}

    def rows(self, output: Output) -> Mapping[str, Rows]:
        final, provisional = _columns(output.windows), _columns(output.provisional_windows)
        return {stream_windows_table(self.compiled.job): Rows(final, provisional)}


def _columns(results: Sequence[WindowResult]) -> list[Sequence[object]]:
    return list(zip(*((*one[:3], *one.values) for one in results), strict=True))


class StepResults(Results):
    """The outputs of steps."""

    time = "system_timestamp"

    def __init__(self, job: Job, lakehouse: Lakehouse, spark: SparkSession) -> None:
        assert job.steps is not None
        self._job, self._lakehouse = job, lakehouse
        self._evaluate = Expressions(spark, ansi=job.steps.ansi)
        # without rows the outputs show their types, and what Spark refuses is refused before the stream begins
        self._empty = self._computed(Slice(NEVER, NEVER, {}))

    @property
    def tables(self) -> Mapping[str, Fields]:
        return {
            self._table(name): [(one.name, stored_type(one.type)) for one in table.schema]
            for name, table in self._empty.items()
        }

    def rows(self, output: Output) -> Mapping[str, Rows]:
        final, provisional = (
            {} if one is None else self._computed(one) for one in (output.slice, output.provisional_slice)
        )
        return {
            self._table(name): Rows(final.get(name, none).columns, provisional.get(name, none).columns)
            for name, none in self._empty.items()
        }

    def _table(self, output: str) -> str:
        return stream_outputs_table(self._job, output)

    def _computed(self, given: Slice) -> dict[str, pa.Table]:
        found = outputs(self._job, given, stored(self._job, self._lakehouse), self._evaluate)
        return {name: shown(rows) for name, rows in found.items()}


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The type that a table has for values of that type: a column of nulls alone is STRING."""
    if pa.types.is_null(kind):
        return pa.string()
    return TIMESTAMP if pa.types.is_timestamp(kind) else kind
