"""Arrivals as the reference engine takes them, read without Spark: a few at a time, by arrival time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.core.model import Arrival, Input
from pipelines.core.time import from_datetime
from pipelines.lakehouse.schema import LOG_COLUMNS, TIMESTAMP, day_scalar
from pipelines.plan.read_range import ReadRange


def arrival_rows(table: DeltaTable, part: Input, read: ReadRange, wanted: pc.Expression | None = None) -> list[Arrival]:
    """The arrivals of input ``part`` in ``read``, both ends included, in arrival order, from its opened log; of those
    the ones that a condition on the log's columns lets through, if ``wanted`` is given.

    Instants are ``int`` microseconds, also inside arrays, maps and structs.
    """
    return arrivals_where(table, part, _condition(read, wanted))


def arrivals_where(table: DeltaTable, part: Input, wanted: pc.Expression | None) -> list[Arrival]:
    """The arrivals of input ``part`` that a condition on its log's columns lets through, in arrival order."""
    names = [name for name, _ in LOG_COLUMNS] + [column.name for column in part.columns]
    rows = table.to_pyarrow_dataset().to_table(columns=names, filter=wanted)
    rows = rows.sort_by([(name, "ascending") for name in ("arrival_time", "input_partition", "sequence")])
    payloads = [column.name for column in part.columns]
    return [
        Arrival(
            input=part.name,
            input_partition=row["input_partition"],
            sequence=row["sequence"],
            arrival_time_us=row["arrival_time"],
            payload={name: row[name] for name in payloads},
            punctuation_us=row["punctuation_time"],
            cause=row["cause"],
        )
        for row in row_values(rows)
    ]


def row_values(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows by column name, with values as the engines' rows hold them: instants as ``int`` microseconds, maps as
    dicts."""
    columns = [_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    if not pa.types.is_nested(column.type):
        return list(column.to_pylist())
    return [_plain(value) for value in column.to_pylist(maps_as_pydicts="strict")]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return from_datetime(value)
    if isinstance(value, date):
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value


def _condition(read: ReadRange, wanted: pc.Expression | None) -> pc.Expression | None:
    time, day = pc.field("arrival_time"), pc.field("arrival_date")
    parts: list[pc.Expression] = [] if wanted is None else [wanted]
    if read.from_us is not None:
        parts += [time >= pa.scalar(read.from_us, TIMESTAMP), day >= day_scalar(read.from_us)]
    if read.to_us is not None:
        parts += [time <= pa.scalar(read.to_us, TIMESTAMP), day <= day_scalar(read.to_us)]
    return _all(parts)


def _all(parts: Sequence[pc.Expression]) -> pc.Expression | None:
    wanted = None
    for part in parts:
        wanted = part if wanted is None else wanted & part
    return wanted
