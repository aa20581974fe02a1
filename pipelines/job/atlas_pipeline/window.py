"""The window stages, and the stages that stand inside them alone: ``$group``, ``$sort``, ``$limit``, ``$count``.

The documents of a window are grouped as they come (Q106, Q108). Every later ``$group``, ``$limit`` or ``$count`` groups
the rows of one window: those of one window end, and of a session those of its start and partition, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.core.expressions import quoted
from pipelines.core.query import Grid, Session, Snapshot, Window
from pipelines.core.steps import SYSTEM_TIMESTAMP, Applied, Computed, Windowed
from pipelines.core.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND, format_duration
from pipelines.job.atlas_pipeline.accumulators import (
    END,
    EVERY,
    OF_WINDOW,
    START,
    Accumulating,
    accumulated,
    sort_keys,
)
from pipelines.job.atlas_pipeline.documents import Documents, internal_name
from pipelines.job.atlas_pipeline.scope import Scope
from pipelines.job.atlas_pipeline.text import Doc, Refused
from pipelines.job.atlas_pipeline.values import Value, fields_of, kind_of, record
from pipelines.job.sql.types import DATETIME, NULL, Record

WINDOWS = ("$tumblingWindow", "$hoppingWindow", "$sessionWindow")

_UNITS_US = {"ms": MILLISECOND, "second": SECOND, "minute": MINUTE, "hour": HOUR, "day": DAY}
_START = "__window_start"


@dataclass(slots=True)
class WindowStage:
    """A window that documents come into. ``closed``: a row for each window has been made of them."""

    window: Window
    ordering: dict[str, str]
    partition: Value | None = None
    closed: bool = False
    keys: list[str] = field(default_factory=list)
    """Hidden columns that, with the window end, name the window."""


def read_window(scope: Scope, name: str, body: Any) -> WindowStage:
    """The window of a stage, and the ordering settings that it brings."""
    optional = ["allowedLateness", "idleTimeout", "boundary"]
    match name:
        case "$tumblingWindow":
            named = scope.named(name, body, ("interval", "pipeline"), ("offset", *optional))
            size = length_us(scope, named, "interval")
            window: Window = Grid(size, size, _offset(scope, named), 0)
        case "$hoppingWindow":
            named = scope.named(name, body, ("interval", "hopSize", "pipeline"), ("offset", *optional))
            window = Grid(
                length_us(scope, named, "interval"), length_us(scope, named, "hopSize"), _offset(scope, named), 0
            )
        case _:
            named = scope.named(name, body, ("gap", "pipeline"), ("partitionBy", *optional))
            window = Session(length_us(scope, named, "gap"), None, (), 0)
    partition = scope.value(named["partitionBy"]) if "partitionBy" in named else None
    return WindowStage(window, _ordering(scope, named), partition)


def length_us(scope: Scope, named: Doc, key: str, size_key: str = "size", least: int = 1) -> int:
    """The length of time that a setting gives as ``{size, unit}``."""
    interval = scope.named(f"'{key}'", named[key], (size_key, "unit"))
    size, unit = scope.constant(key, interval[size_key], int), scope.constant(key, interval["unit"], str)
    unit_us = _UNITS_US.get(unit.removesuffix("s") if unit != "ms" else unit)
    if unit_us is None:
        raise scope.refused(f"'{key}' has no unit '{unit}'; it has {', '.join(_UNITS_US)}")
    if not least <= size * unit_us <= 10_000 * DAY:
        raise scope.refused(f"'{key}' of {size} {unit} is not a positive length of time")
    return int(size * unit_us)


def _offset(scope: Scope, named: Doc) -> int:
    return length_us(scope, named, "offset", "offsetFromUtc", 0) if "offset" in named else 0


def _ordering(scope: Scope, named: Doc) -> dict[str, str]:
    """The settings of the job file's ``ordering`` that the stage gives."""
    settings = {}
    boundary = named.get("boundary", "eventTime")
    if boundary not in ("eventTime", "processingTime"):
        raise scope.refused(f"'boundary' is eventTime or processingTime, not {boundary!r}")
    if boundary == "processingTime":
        settings["boundary"] = "processing_time"
    if "allowedLateness" in named:
        zero = named["allowedLateness"] == 0
        settings["allowed_lateness"] = (
            "0s" if zero else format_duration(length_us(scope, named, "allowedLateness", least=0))
        )
    if "idleTimeout" in named:
        settings["idle_timeout"] = format_duration(length_us(scope, named, "idleTimeout"))
    return settings


def add_partition(documents: Documents, stage: WindowStage, line: int) -> None:
    """Give the documents a hidden column of what sessions are partitioned by."""
    if stage.partition is None or not isinstance(stage.window, Session):
        return
    name = documents.shared.fresh()
    documents.hidden[name] = stage.partition.sql
    documents.project(documents.fields.items(), line)
    stage.window = Session(stage.window.timeout_us, None, (name,), 0)


# groups


def group(documents: Documents, stage: WindowStage, body: Any, line: int) -> None:
    """``$group``: a document for each window and value of ``_id``."""
    scope = documents.scope(line)
    if not isinstance(body, Doc) or "_id" not in body:
        raise scope.refused("$group needs '_id'; write null for one group")
    key = _key(scope, body["_id"])
    making = Accumulating(documents, scope)
    fields = {name: accumulated(making, name, node) for name, node in body.items() if name != "_id"}
    columns = _flat(key, "__k")
    _close(documents, stage, columns, making, line)
    named = {name: Value(quoted(name), value.type, True) for name, value in columns}
    known = {"_id": _rebuilt(key, "__k", named), **fields}
    documents.project([(name, _of_window(stage, value)) for name, value in known.items()], line)


def _of_window(stage: WindowStage, value: Value) -> Value:
    """The value over the window's row, which knows the window's start and end."""
    if value.parts is not None:
        return record([(name, _of_window(stage, one)) for name, one in value.parts])
    start, end = _bounds(stage, "window_start")
    return replace(value, sql={START: start.sql, END: end.sql}.get(value.sql, value.sql))


def _key(scope: Scope, node: Any) -> Value:
    value = scope.value(node)
    if kind_of(value.type) in ("array", "map"):
        raise scope.refused("$group by an array or a map cannot be replayed; name one of its fields")
    return value


def _flat(value: Value, name: str) -> list[tuple[str, Value]]:
    """A key as simple columns; none of a constant."""
    if isinstance(value.type, Record) or value.parts is not None:
        return [one for index, (_, part) in enumerate(fields_of(value)) for one in _flat(part, f"{name}{index}_")]
    if value.type == NULL or value.sql in OF_WINDOW or "`" not in value.sql:
        return []
    return [(name, value)]


def _rebuilt(value: Value, name: str, columns: dict[str, Value]) -> Value:
    """The key made of its columns again."""
    if isinstance(value.type, Record) or value.parts is not None:
        return record(
            [(part, _rebuilt(one, f"{name}{index}_", columns)) for index, (part, one) in enumerate(fields_of(value))]
        )
    return columns.get(name, value)


def _close(
    documents: Documents, stage: WindowStage, keys: list[tuple[str, Value]], making: Accumulating, line: int
) -> None:
    """Make rows of windows, or of the groups of earlier such rows, with these keys and aggregates."""
    documents.drop_failed()
    computed = [Computed(name, value.sql) for name, value in keys]
    read = [*(one.expression for one in computed), *(one.argument or "" for one in making.aggregates)]
    if any(name in sql for name in OF_WINDOW for sql in read):
        raise Refused("a window's start and end are known after $group only; compute with them in a later stage", line)
    session = isinstance(stage.window, Session)
    if isinstance(stage.window, Session) and not stage.closed:
        stage.keys = list(stage.window.partition_by)
    computed += [Computed(name, quoted(name)) for name in stage.keys]
    window = Snapshot() if stage.closed else stage.window
    documents.rows = Windowed(documents.rows, window, tuple(computed), tuple(making.aggregates))
    documents.order = ()
    documents.hidden = {name: quoted(name) for name in stage.keys}
    if session and not stage.closed:
        documents.hidden[_START] = "window_start"
        stage.keys.append(_START)
    documents.meta = window_meta(*_bounds(stage, quoted(_START)))
    stage.closed = True


def _bounds(stage: WindowStage, session_start: str) -> tuple[Value, Value]:
    """Start and end of a row's window."""
    start = session_start
    if isinstance(stage.window, Grid):
        start = f"timestamp_micros(unix_micros({quoted(SYSTEM_TIMESTAMP)}) - {stage.window.size_us}L)"
    return Value(start, DATETIME), Value(quoted(SYSTEM_TIMESTAMP), DATETIME)


def window_meta(start: Value, end: Value) -> dict[str, Value]:
    """The names under which a window's start and end are known."""
    both = record([("start", start), ("end", end)])
    names = {"window.start": start, "window.end": end, "window": both}
    meta = {f"$meta stream.{name}": value for name, value in names.items()}
    meta |= {f"$_stream_meta.{name}": value for name, value in names.items()}
    meta["$meta stream"] = meta["$_stream_meta"] = record([("window", both)])
    meta["$_stream_meta.windowStartTimestamp"] = start
    meta["$_stream_meta.windowEndTimestamp"] = end
    return meta


# the documents of a window as they are


def keep_documents(documents: Documents, stage: WindowStage, line: int, limit: int = EVERY) -> None:
    """The first documents of each window in their order, each a row at the window's end."""
    making = Accumulating(documents, documents.scope(line))
    fields = {internal_name(name): value for name, value in documents.fields.items()}
    if not fields and documents.shared.opened is None:
        raise making.scope.refused("the documents have no fields left")
    inner = ", ".join(
        f"'{name}', " + (value.sql if value.type != NULL else "CAST(NULL AS STRING)") for name, value in fields.items()
    )
    every = making.collected(f"named_struct({inner})", documents.order, limit)
    names = dict(documents.fields)
    _close(documents, stage, [], making, line)
    documents.rows = Applied(documents.rows, every, "__doc")
    documents.project(
        [
            (name, Value(f"`__doc`.`ArrayValue`.{quoted(internal_name(name))}", value.type, True))
            for name, value in names.items()
        ],
        line,
    )


def sort(documents: Documents, body: Any, line: int) -> None:
    """``$sort``: equal documents stay in their order (Q107)."""
    scope = documents.scope(line)
    keys = sort_keys(scope, body)
    documents.drop_failed()
    documents.order = (*keys, *documents.order)


def limit(documents: Documents, stage: WindowStage, body: Any, line: int) -> None:
    """``$limit``: the first documents of each window."""
    scope = documents.scope(line)
    count = scope.constant("$limit", body, int)
    if not 1 <= count <= EVERY:
        raise scope.refused(f"$limit needs a positive number, not {count}")
    keep_documents(documents, stage, line, count)


def count(documents: Documents, stage: WindowStage, body: Any, line: int) -> None:
    """``$count``: one document for each window, with how many it has."""
    scope = documents.scope(line)
    name = scope.constant("$count", body, str)
    making = Accumulating(documents, scope)
    counted = accumulated(making, name, Doc({"$sum": 1}))
    _close(documents, stage, [], making, line)
    documents.project([(name, counted)], line)
