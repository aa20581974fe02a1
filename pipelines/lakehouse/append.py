"""Append rows to an arrival log: data files one after the other, row group by row group, then one commit.

Delta's own writer takes the rows of a whole commit into memory, and its threads overtake each other. Here memory has
one row group, and each file contains its rows in the order in which they are given. A process killed before the commit
leaves files that no version of the log names.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from pipelines.core.time import MILLISECOND, date_of, format_instant
from pipelines.lakehouse import object_stores
from pipelines.lakehouse.compact import ROWS_A_PAGE, seldom_repeats
from pipelines.lakehouse.root import Lakehouse

FILE_BYTES = 128 * 2**20
"""A file of a day that has reached this size is followed by another one."""
_DAY = "arrival_date"
_INDEXED = 32
"""Delta's own limit: further columns have no statistics."""
_LONGEST = 64
"""Bytes of a text in the statistics, at most."""

Days = Iterable[tuple[int, Iterable[pa.Table]]]
"""For each day since 1970 the tables that make its files, each of which becomes a row group."""


def append(
    lakehouse: Lakehouse, name: str, log: DeltaTable | None, schema: pa.Schema, days: Days, commit: CommitProperties
) -> None:
    """One commit to the table ``name`` on exactly the version that ``log`` was opened at; None: there is no table.

    Raises :class:`CommitFailedError` if another commit came first. Columns that the log lacks are added to it before,
    in a commit of their own.
    """
    files = [file for day, tables in days for file in _files_of(lakehouse, name, schema, day, tables)]
    columns = Schema.from_arrow(schema)
    if log is not None:
        there = {column.name for column in log.schema().fields}
        if new := [column for column in columns.fields if column.name not in there]:
            log.alter.add_columns(new, commit_properties=CommitProperties(max_commit_retries=0))
        log.create_write_transaction([*files], "append", log.schema(), [_DAY], commit_properties=commit)
        return
    uri = lakehouse.uri(name)
    options = object_stores.storage_options(uri)
    try:
        create_table_with_add_actions(
            uri, columns, files, partition_by=[_DAY], storage_options=options, commit_properties=commit
        )
    except DeltaError as error:
        if lakehouse.open(name) is None:
            raise
        raise CommitFailedError(str(error)) from error


def _files_of(
    lakehouse: Lakehouse, name: str, schema: pa.Schema, day: int, tables: Iterable[pa.Table]
) -> Iterator[AddAction]:
    rest = iter(tables)
    for first in rest:
        yield _file(lakehouse, name, schema.remove(schema.get_field_index(_DAY)), day, chain([first], rest))


def _file(lakehouse: Lakehouse, name: str, schema: pa.Schema, day: int, tables: Iterable[pa.Table]) -> AddAction:
    """One data file of a day, until it is large or ``tables`` end."""
    date_text = date_of(day).isoformat()
    path = f"{_DAY}={date_text}/part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    statistics = _Statistics(schema)
    stream = object_stores.open_stream(lakehouse.root, f"{name}/{path}")
    with pq.ParquetWriter(
        stream,
        schema,
        use_dictionary=[column.name for column in schema if not seldom_repeats(column.type)],
        max_rows_per_page=ROWS_A_PAGE,
        write_page_index=True,
    ) as writer:
        for table in tables:
            rows = table.select(schema.names)
            writer.write_table(rows, row_group_size=len(rows))
            statistics.add(rows)
            if stream.tell() >= FILE_BYTES:
                break
    size = stream.tell()
    stream.close()
    now_ms = time.time_ns() // 1_000_000
    return AddAction(path, size, {_DAY: date_text}, now_ms, data_change=True, stats=statistics.as_json())


@dataclass(slots=True)
class _Statistics:
    """What the log has of one data file. A column has no bounds that has a NaN, or a long text at one end."""

    schema: pa.Schema
    rows: int = 0
    nulls: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, tuple[Any, Any] | None] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> None:
        """Some rows of the file."""
        self.rows += len(rows)
        for column in [column for column in self.schema if not pa.types.is_nested(column.type)][:_INDEXED]:
            values = rows[column.name]
            self.nulls[column.name] = self.nulls.get(column.name, 0) + values.null_count
            if values.null_count < len(values) and _has_bounds(column.type):
                self._widen(column.name, _bounds(values))

    def _widen(self, name: str, ends: tuple[Any, Any] | None) -> None:
        known = self.bounds.get(name, ends)
        self.bounds[name] = known and ends and (min(known[0], ends[0]), max(known[1], ends[1]))

    def as_json(self) -> str:
        """As Delta's protocol has it: instants cut down to the millisecond."""
        known = {name: ends for name, ends in self.bounds.items() if ends is not None}
        low, high = ({name: self._plain(name, ends[at]) for name, ends in known.items()} for at in (0, 1))
        return json.dumps({"numRecords": self.rows, "minValues": low, "maxValues": high, "nullCount": self.nulls})

    def _plain(self, name: str, end: Any) -> Any:
        if pa.types.is_timestamp(self.schema.field(name).type):
            return format_instant(end // MILLISECOND * MILLISECOND)
        return end.isoformat() if isinstance(end, date) else end


def _has_bounds(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(is_number or pa.types.is_string(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _bounds(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    if pa.types.is_floating(values.type) and not pc.all(pc.is_finite(values)).as_py():
        return None
    ends = pc.min_max(values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).as_py()
    low, high = ends["min"], ends["max"]
    if isinstance(low, str) and max(len(low.encode()), len(high.encode())) > _LONGEST:
        return None
    return low, high
