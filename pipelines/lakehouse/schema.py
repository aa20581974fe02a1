"""Columns of the tables that are written without Spark, and Spark SQL types as Arrow types."""

from __future__ import annotations

import re

import pyarrow as pa

from pipelines.core.model import Input, Reference
from pipelines.core.time import DAY

TIMESTAMP = pa.timestamp("us", "UTC")

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "decimal": pa.decimal128(10, 0),
    "dec": pa.decimal128(10, 0),
    "numeric": pa.decimal128(10, 0),
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\((\d+)(?:,(\d+))?\)")
_TEXT = re.compile(r"(?:varchar|char|character)\(\d+\)")
_NESTED = re.compile(r"(array|map|struct)<(.*)>", re.DOTALL)

LOG_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    ("arrival_time", TIMESTAMP),
    ("input_partition", pa.int32()),
    ("sequence", pa.int64()),
    ("kind", pa.string()),
    ("punctuation_time", TIMESTAMP),
    ("cause", pa.string()),
    ("batch_id", pa.string()),
)
"""What every arrival log holds before the payload; ``arrival_date``, the partition, comes last."""

SOURCE_TIME = ("source_time", TIMESTAMP)
"""Of an input with ``hold_at_last``: the arrival time of the source, where it was not taken."""

REFERENCE_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    ("effective_from", TIMESTAMP),
    ("batch_id", pa.string()),
    ("position", pa.int64()),
)
"""What reference data has besides its columns: when its snapshot begins to hold (null: it always does), the batch that
brought it, and the row's place in the batch, from 1."""

QUARANTINE = pa.schema(
    [
        ("raw", pa.string()),
        ("reason", pa.string()),
        ("source", pa.string()),
        ("position", pa.int64()),
        ("input_partition", pa.int64()),
        ("sequence", pa.int64()),
        ("batch_id", pa.string()),
    ]
)

SUMMARIES = pa.schema(
    [
        ("setting", pa.string()),
        ("arrival_date", pa.date32()),
        ("files", pa.string()),
        ("input_partition", pa.int32()),
        ("timeline", pa.string()),
        ("rows", pa.int64()),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
        ("end_us", pa.int64()),
        ("punctuation_us", pa.int64()),
        ("last_arrival_us", pa.int64()),
        ("received", pa.int64()),
        ("baseline_us", pa.int64()),
        ("cti_us", pa.int64()),
    ]
)
"""One row a day of arrivals, timeline and UTC day of event time: a ``SummaryRow`` of
:mod:`pipelines.plan.initial_state`. Where ``received`` is set, the row is a ``Clock`` after that day."""

RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("job", pa.string()),
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("status", pa.string()),
        ("error", pa.string()),
        ("job_fingerprint", pa.string()),
        ("output_from", TIMESTAMP),
        ("output_to", TIMESTAMP),
        ("read_from", TIMESTAMP),
        ("read_to", TIMESTAMP),
        ("read_rule", pa.string()),
        ("end_of_log", TIMESTAMP),
        ("settled", pa.bool_()),
        ("versions_read", pa.map_(pa.string(), pa.int64())),
        ("counts_by_verdict", pa.map_(pa.string(), pa.int64())),
        ("counts_by_reason", pa.map_(pa.string(), pa.int64())),
        ("appended", pa.int64()),
        ("quarantined", pa.int64()),
        ("duplicates", pa.int64()),
        ("held_at_last", pa.int64()),
        ("rows_written", pa.map_(pa.string(), pa.int64())),
        ("versions_written", pa.map_(pa.string(), pa.int64())),
        ("files_planned", pa.map_(pa.string(), pa.int64())),
        ("files_read", pa.map_(pa.string(), pa.int64())),
        ("bytes_planned", pa.map_(pa.string(), pa.int64())),
        ("bytes_read", pa.map_(pa.string(), pa.int64())),
        ("scans", pa.map_(pa.string(), pa.int64())),
        ("warnings", pa.list_(pa.field("element", pa.string()))),
        ("output_fingerprint", pa.string()),
        ("fingerprints", pa.map_(pa.string(), pa.string())),
        ("reference_fingerprints", pa.map_(pa.string(), pa.string())),
        ("writer", pa.string()),
        ("cost", pa.map_(pa.string(), pa.int64())),
        ("started_at", TIMESTAMP),
        ("finished_at", TIMESTAMP),
        ("process", pa.string()),
        ("engine", pa.map_(pa.string(), pa.string())),
        ("job_parts", pa.map_(pa.string(), pa.string())),
    ]
)
"""One row a run. ``status``: ``running`` | ``succeeded`` | ``failed`` | ``abandoned`` (its process died).

Maps: ``versions_read`` and ``versions_written`` from table to Delta version, ``rows_written`` from table to rows,
``files_planned`` .. ``scans`` from table to what the plan foretold and Spark opened, ``fingerprints`` from the table of
each output to its own, ``reference_fingerprints`` from the table of reference data to that of the rows read,
``cost`` from a name to what Spark spent, ``engine`` from component to version, ``job_parts`` from ``policy`` and
``query`` to the fingerprint of that part. Nulls in ``output_from`` .. ``read_to`` are open ends.
``process`` is ``host/pid``.
"""


def arrow_type(spark_type: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type in lower case; ValueError if it has none here."""
    text = spark_type.strip()
    if text in _SIMPLE:
        return _SIMPLE[text]
    if match := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(match[1]), int(match[2] or 0))
    if _TEXT.fullmatch(text):
        return pa.string()
    if match := _NESTED.fullmatch(text):
        parts = _split(match[2])
        if match[1] == "array":
            return pa.list_(pa.field("element", arrow_type(parts[0])))
        if match[1] == "map":
            return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
        return pa.struct([_field(part) for part in parts])
    raise ValueError(f"type {spark_type.upper()} cannot be read from a file")


def arrivals_schema(part: Input) -> pa.Schema:
    """Columns of ``arrivals/<input>``: the log's own, the payload, ``arrival_date``."""
    own = [*LOG_COLUMNS, *([SOURCE_TIME] if part.arrival_regression == "hold_at_last" else [])]
    payload = [(column.name, arrow_type(column.type)) for column in part.columns]
    return pa.schema([*own, *payload, ("arrival_date", pa.date32())])


def references_schema(reference: Reference) -> pa.Schema:
    """Columns of ``references/<name>``: its own, then :data:`REFERENCE_COLUMNS`, which they may have named already."""
    own = [(column.name, arrow_type(column.type)) for column in reference.columns]
    names = {name for name, _ in own}
    return pa.schema([*own, *((name, kind) for name, kind in REFERENCE_COLUMNS if name not in names)])


def day_scalar(instant_us: int) -> pa.Scalar:
    """The UTC date of an instant, to compare a day column with."""
    return pa.scalar(instant_us // DAY, pa.int32()).cast(pa.date32())


def alike(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are the same once names inside lists and maps are left aside."""
    if pa.types.is_nested(stored) and pa.types.is_nested(wanted):
        return stored.num_fields == wanted.num_fields and all(
            alike(stored.field(index).type, wanted.field(index).type) for index in range(stored.num_fields)
        )
    return bool(stored.equals(wanted))


def _field(text: str) -> pa.Field:
    name, _, kind = text.strip().replace(":", " ", 1).partition(" ")
    return pa.field(name.strip("`"), arrow_type(kind))


def _split(text: str) -> list[str]:
    """``a, b<c,d>`` split at its outer commas."""
    parts, depth, begin = [], 0, 0
    for index, sign in enumerate(text):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    return [*parts, text[begin:]]
