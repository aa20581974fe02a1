"""Event Hubs Capture files by the documented schema, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro

_VALUE = ["long", "double", "string", "bytes"]
SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "EventData",
        "namespace": "Microsoft.ServiceBus.Messaging",
        "fields": [
            {"name": "SequenceNumber", "type": "long"},
            {"name": "Offset", "type": "string"},
            {"name": "EnqueuedTimeUtc", "type": "string"},
            {"name": "SystemProperties", "type": {"type": "map", "values": _VALUE}},
            {"name": "Properties", "type": {"type": "map", "values": [*_VALUE, "null"]}},
            {"name": "Body", "type": ["null", "bytes"]},
        ],
    }
)


def message(sequence: int, enqueued: str, body: Any, *, exact: bool = True) -> dict[str, Any]:
    """One record; a body that is no bytes and no None is written as JSON. ``exact``: with the milliseconds."""
    at = datetime.fromisoformat(enqueued).astimezone(UTC)
    hour = at.strftime("%I").lstrip("0")
    text = f"{at.month}/{at.day}/{at.year} {hour}:{at:%M:%S} {at:%p}"
    properties: dict[str, Any] = {"x-opt-sequence-number": sequence}
    if exact:
        properties["x-opt-enqueued-time"] = round(at.timestamp() * 1000)
    return {
        "SequenceNumber": sequence,
        "Offset": str(sequence * 64),
        "EnqueuedTimeUtc": text,
        "SystemProperties": properties,
        "Properties": {},
        "Body": body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
    }


def write_capture(root: Path, partition: int, when: str, messages: Sequence[dict[str, Any]]) -> Path:
    """The file of a partition and a time below ``root``, which stands for ``{Namespace}/{EventHub}``."""
    at = datetime.fromisoformat(when)
    path = root / str(partition) / f"{at:%Y/%m/%d/%H/%M/%S}.avro"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, SCHEMA, messages)
    return path
