"""The columns of the stream's two tables, ``stream_windows/<job>`` and ``stream_verdicts/<job>``."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type

from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.live.aggregate_types import result_type
from pipelines.live.spark.source import type_of, with_sides
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import VERDICTS


def verdict_columns() -> list[tuple[str, pa.DataType]]:
    """Those of ``verdicts``: :data:`VERDICTS`, with its microseconds as TIMESTAMP."""
    as_instants = {pa.int64(): TIMESTAMP, pa.list_(pa.int64()): pa.list_(TIMESTAMP)}
    return [
        (name.removesuffix("_us"), as_instants[kind] if name.endswith("_us") else kind)
        for name, kind in zip(VERDICTS.names, VERDICTS.types, strict=True)
    ]


def window_columns(compiled: CompiledJob, streams: Mapping[str, DataFrame]) -> list[tuple[str, pa.DataType]]:
    """Those of ``windows``; ``streams`` are the arrival logs of the inputs, by name."""
    name = compiled.sources[0]
    frame = with_sides(compiled, compiled.job.input(name), streams[name])
    types = {text: type_of(frame, text) for text in compiled.texts}
    query = compiled.job.window_query
    kinds = [types[column] for column in query.group_by]
    kinds += [result_type(one, None if one.argument is None else types[one.argument]) for one in query.aggregates]
    values = [to_arrow_type(kind, timestamp_utc=True) for kind in kinds]
    own = [("window_start", TIMESTAMP), ("window_end", TIMESTAMP), ("window_id", pa.string())]
    return [*own, *zip(compiled.output_names, values, strict=True)]
