"""Arrow tables as Python values. Arrow's own way imports pandas to make a datetime, which takes longer than a plan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipelines.core.time import MILLISECOND, SECOND, to_datetime

_UNIT_US = {"s": SECOND, "ms": MILLISECOND, "us": 1}


def read_stream(stream: Any) -> pa.Table:
    """All of anything that speaks Arrow's stream interface, as what ``deltalake`` returns does."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows by column name: instants as datetimes in UTC, maps as dicts."""
    columns = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist(maps_as_pydicts="strict"))
    unit_us = _UNIT_US[column.type.unit]
    ticks = [tick for chunk in column.chunks for tick in chunk.view(pa.int64()).to_pylist()]
    return [None if tick is None else to_datetime(tick * unit_us) for tick in ticks]
