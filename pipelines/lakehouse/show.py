"""Rows of a table in a total order, as plain data: straight from the Delta log and files, no Spark.

In the plain rows instants are ISO 8601 in UTC, numbers are numbers, null is null, DECIMAL is text (exact), BINARY is
base64, a map is an object. JSON has no NaN and no infinities: they are the texts ``"NaN"``, ``"Infinity"`` and
``"-Infinity"``.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import format_instant, from_datetime
from pipelines.lakehouse.layout import (
    ARRIVALS,
    WINDOWS,
    Layout,
    arrivals_table,
    dead_letters_table,
    output_tables,
    quarantine_table,
    reconciliations_table,
    references_table,
    verdicts_table,
)
from pipelines.lakehouse.root import RUNS, Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP, day_scalar

_QUARANTINE = Layout("", "", ("input", "batch_id", "source", "position"))
_RUNS = Layout("", "", ("started_at", "run_id"))
_REFERENCES = Layout("", "", ("effective_from", "position"))


def tables_of(job: Job) -> dict[str, tuple[tuple[str, ...], Layout]]:
    """The names of tables for ``show``, the tables that are meant, and their layout."""
    logs = list(dict.fromkeys(part.log for part in job.inputs))
    loaded = [*logs, *(one.name for one in job.references)]
    known: dict[str, tuple[tuple[str, ...], Layout]] = {
        "verdicts": ((verdicts_table(job),), ARRIVALS),
        "arrivals": (tuple(arrivals_table(name) for name in logs), ARRIVALS),
        "quarantine": (tuple(quarantine_table(name) for name in loaded), _QUARANTINE),
        "stream_verdicts": ((f"stream_verdicts/{job.name}",), ARRIVALS),
        "dead_letters": ((dead_letters_table(job),), ARRIVALS),
        "runs": ((RUNS,), _RUNS),
    }
    for one in output_tables(job):
        if one.layout is WINDOWS:
            known["windows"] = ((one.table,), WINDOWS)
            known["stream_windows"] = ((one.live,), WINDOWS)
            known["reconciliations"] = ((reconciliations_table(job, one),), WINDOWS)
        else:
            known[f"outputs/{one.output}"] = ((one.table,), one.layout)
            known[f"stream_outputs/{one.output}"] = ((one.live,), one.layout)
            known[f"reconciliations/{one.output}"] = ((reconciliations_table(job, one),), one.layout)
    for part in job.inputs:
        known[f"arrivals/{part.name}"] = ((arrivals_table(part.log),), ARRIVALS)
        known[f"quarantine/{part.name}"] = ((quarantine_table(part.log),), _QUARANTINE)
    for reference in job.references:
        known[f"references/{reference.name}"] = ((references_table(reference.name),), _REFERENCES)
        known[f"quarantine/{reference.name}"] = ((quarantine_table(reference.name),), _QUARANTINE)
    return known


def rows_of(
    job: Job, table: str, lakehouse: str | Path | Lakehouse, output: OutputRange = EVERYTHING
) -> pa.Table | None:
    """The rows of one table of ``job`` in a total order, or None where it was never written.

    ``table`` is one of :func:`tables_of`. A range acts on ``window_end``, on the system timestamp of other outputs, or
    on the arrival time, and on nothing in ``runs``, ``quarantine`` and ``references``. Several inputs' rows are put
    together, with a column ``input`` in front. Raises :class:`UsageError` for an unknown table.
    """
    known = tables_of(job)
    table = table.lower()
    if table not in known:
        raise UsageError(f"job {job.name} has no table '{table}'; {did_you_mean(table, known)}")
    names, layout = known[table]
    lakehouse = Lakehouse.at(lakehouse)
    found = [(name, _read(lakehouse, name, layout, output)) for name in names]
    parts = [(name, rows) for name, rows in found if rows is not None]
    if not parts:
        return None
    if len(names) > 1:
        parts = [(name, _with_input(rows, name.rpartition("/")[2])) for name, rows in parts]
    rows = _together([rows for _, rows in parts])
    if table == "runs":
        rows = rows.filter(pc.field("job") == job.name)
    return in_total_order(rows, layout.order)


def in_total_order(rows: pa.Table, first: Sequence[str]) -> pa.Table:
    """``rows`` sorted by the columns ``first`` and then by every other column, nulls last: equal rows alone tie."""
    if not rows.num_rows:
        return rows
    names = [name for name in first if name in rows.column_names]
    names += [name for name in rows.column_names if name not in names]
    keys = pa.table({str(place): _sortable(rows[name]) for place, name in enumerate(names)})
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return rows.take(order)


def plain_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """JSON-ready rows, as described above."""
    columns = {name: _plain_column(rows[name]) for name in rows.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _read(lakehouse: Lakehouse, name: str, layout: Layout, output: OutputRange) -> pa.Table | None:
    table = lakehouse.open(name)
    if table is None:
        return None
    data = table.to_pyarrow_dataset()
    wanted = None
    if layout.time and layout.time in data.schema.names:
        for part in _bounds(layout, output, data.schema.names):
            wanted = part if wanted is None else wanted & part
    return data.to_table(filter=wanted)


def _bounds(layout: Layout, output: OutputRange, names: Sequence[str]) -> list[pc.Expression]:
    time, day = pc.field(layout.time), pc.field(layout.day)
    parts = []
    if output.from_us is not None:
        parts.append(time >= pa.scalar(output.from_us, TIMESTAMP))
        if layout.day in names:
            parts.append(day >= day_scalar(output.from_us))
    if output.to_us is not None:
        parts.append(time < pa.scalar(output.to_us, TIMESTAMP))
        if layout.day in names:
            parts.append(day <= day_scalar(output.to_us - 1))
    return parts


def _together(tables: list[pa.Table]) -> pa.Table:
    """All rows in one table; a column that two inputs type differently becomes text."""
    kinds: dict[str, set[str]] = {}
    for table in tables:
        for field in table.schema:
            kinds.setdefault(field.name, set()).add(str(field.type))
    mixed = [name for name, seen in kinds.items() if len(seen) > 1]
    as_text = []
    for table in tables:
        for name in mixed:
            if name in table.column_names:
                place = table.column_names.index(name)
                texts = [None if value is None else _text(value) for value in _plain_column(table[name])]
                table = table.set_column(place, name, pa.array(texts, pa.string()))
        as_text.append(table)
    return pa.concat_tables(as_text, promote_options="default")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _with_input(rows: pa.Table, name: str) -> pa.Table:
    return rows.add_column(0, "input", pa.repeat(pa.scalar(name), rows.num_rows))


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Nested columns sort by their JSON text, all others by themselves."""
    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else json.dumps(value) for value in _plain_column(column)], pa.string())
    return column


def _plain_column(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if us is None else format_instant(us) for us in micros]
    simple = pa.types.is_string(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    values = column.to_pylist() if simple else column.to_pylist(maps_as_pydicts="strict")
    return values if simple else [plain(value) for value in values]


def plain(value: Any) -> Any:
    """One value as JSON-ready data."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, datetime):
        return format_instant(from_datetime(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    return value
