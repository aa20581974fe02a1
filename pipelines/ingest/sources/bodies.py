"""Bodies of messages as events: JSON, CSV with a header line, Avro container files."""

from __future__ import annotations

import base64
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pipelines.core.columns import under_their_names
from pipelines.core.model import Input
from pipelines.core.sources import MANY, Body, EventsPerMessage
from pipelines.ingest.clean_lines import clean_lines, demanding
from pipelines.ingest.readers import Chunk, Refused
from pipelines.ingest.sources.reader import Messages
from pipelines.ingest.values import decode_json
from pipelines.lakehouse.schema import TIMESTAMP, arrow_type

Event = dict[str, Any]
_FRAME = 5
_SMALLEST = 250
"""Messages below which they are not divided further to find the clean ones."""


class Decoder:
    """Makes chunks of messages. One event a message, unless ``events`` is ``many``."""

    def __init__(self, part: Input, body: Body, events: EventsPerMessage) -> None:
        types = pa.schema([(column.name, arrow_type(column.type)) for column in part.columns])
        self._types = demanding(types, part)
        self._clean = clean_lines if body in ("json", "json_lines") else None
        self._decode = _FORMATS[body]
        self._text = _base64 if body == "avro" else _utf8
        self._many = events == "many"

    def chunks(self, messages: Messages) -> Iterator[Chunk]:
        """The events of the messages; a message that cannot be read is refused as a whole. Several chunks, so that a
        message that is not clean JSON does not slow down all others."""
        found, half = self._at_once(messages), len(messages.body) // 2
        if found is None and half >= _SMALLEST:
            yield from self.chunks(messages.part(slice(half)))
            yield from self.chunks(messages.part(slice(half, None)))
        else:
            yield found or self._one_by_one(messages)

    def _at_once(self, messages: Messages) -> Chunk | None:
        """The events of messages that are one clean object each; None where one is not."""
        bodies = [body for body in messages.body if body is not None]
        if self._clean is None or not bodies or len(bodies) < len(messages.body):
            return None
        found = self._clean(b"\n".join(bodies), self._types)
        if found is None or len(found[0]) != len(bodies):
            return None
        batch, ignored = found
        sequences = [sequence * (MANY if self._many else 1) for sequence in messages.sequence]
        columns = dict(zip(self._types.names, batch.columns, strict=True))
        return self._chunk(messages, columns, range(len(bodies)), sequences, [], ignored)

    def _one_by_one(self, messages: Messages) -> Chunk:
        events: list[Event] = []
        taken: list[int] = []
        sequences: list[int] = []
        refused: list[Refused] = []
        positions = messages.sequence if messages.position is None else messages.position
        for index, body in enumerate(messages.body):
            first = messages.sequence[index] * (MANY if self._many else 1)
            try:
                found = self._events(body)
            except ValueError as error:
                raw = "" if body is None else self._text(body)
                place = (messages.source, positions[index], messages.input_partition[index], first)
                refused.append(Refused(raw, str(error), *place))
                continue
            events += found
            taken += [index] * len(found)
            sequences += range(first, first + len(found))
        known = set(self._types.names)
        events = [event if event.keys() <= known else under_their_names(event, known) for event in events]
        columns = {name: [event.get(name) for event in events] for name in self._types.names}
        ignored = Counter(name for event in events if not event.keys() <= known for name in event.keys() - known)
        lacking = {
            index: next(name for name in self._types.names if name not in event)
            for index, event in enumerate(events)
            if not known <= event.keys()
        }
        return replace(self._chunk(messages, columns, taken, sequences, refused, ignored), lacking=lacking)

    def _events(self, body: bytes | None) -> list[Event]:
        if body is None:
            raise ValueError("the message has no body")
        found = self._decode(body)
        if not all(isinstance(event, dict) for event in found):
            raise ValueError("not a JSON object")
        if not self._many and len(found) != 1:
            raise ValueError(f"the message holds {len(found)} events; 'events_per_message: many' takes them")
        if len(found) > MANY:
            raise ValueError(f"the message holds {len(found)} events, more than {MANY}")
        return found

    def _chunk(
        self,
        messages: Messages,
        columns: dict[str, Any],
        taken: Sequence[int],
        sequences: Sequence[int],
        refused: list[Refused],
        ignored: Counter[str],
    ) -> Chunk:
        columns["arrival_time"] = pa.array([messages.arrival_us[index] for index in taken], pa.int64()).cast(TIMESTAMP)
        columns["input_partition"] = pa.array([messages.input_partition[index] for index in taken], pa.int64())
        columns["sequence"] = pa.array(sequences, pa.int64())

        def raw(index: int) -> str:
            return self._text(messages.body[taken[index]] or b"")

        positions = messages.sequence if messages.position is None else messages.position
        return Chunk(messages.source, [positions[index] for index in taken], columns, raw, refused, ignored)


def _json(body: bytes) -> list[Event]:
    text = _decoded(body)
    try:
        value = _one(text)
    except ValueError:
        if "\n" not in text.strip():
            raise
        return _json_lines(body)
    return value if isinstance(value, list) else [value]


def _json_lines(body: bytes) -> list[Event]:
    return [_one(line) for line in _decoded(body).split("\n") if line.strip()]


def _one(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError as error:
        raise ValueError(f"malformed JSON: {error}") from None


def _csv(body: bytes) -> list[Event]:
    reader = csv.reader(io.StringIO(_decoded(body), newline=""), strict=True)
    try:
        rows = [row for row in reader if row]
    except csv.Error as error:
        raise ValueError(f"malformed CSV: {error}") from None
    if not rows:
        raise ValueError("the message has no header line")
    names, *records = rows
    for record in records:
        if len(record) != len(names):
            raise ValueError(f"has {len(record)} fields, the header {len(names)}")
    return [dict(zip(names, (value or None for value in record), strict=True)) for record in records]


def _avro(body: bytes) -> list[Event]:
    import fastavro

    if _is_framed(body):
        raise ValueError(f"{_framed(body)}, and not an Avro container file, which has its schema with it")
    try:
        return [dict(record) for record in fastavro.reader(io.BytesIO(body)) if isinstance(record, dict)]
    except Exception as error:  # the library raises whatever a broken body makes it run into
        raise ValueError(f"malformed Avro: {error or type(error).__name__}") from None


_FORMATS: dict[Body, Callable[[bytes], list[Event]]] = {
    "json": _json,
    "json_lines": _json_lines,
    "csv": _csv,
    "avro": _avro,
}


def _decoded(body: bytes) -> str:
    if _is_framed(body):
        raise ValueError(f"{_framed(body)}, and is no text: have the producer or a connector write JSON")
    try:
        return body.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None


def _is_framed(body: bytes) -> bool:
    """Whether a body begins as those of a schema registry: a zero, and the number of the schema in four bytes, of
    which the first is zero too."""
    return len(body) > _FRAME and body.startswith(b"\0\0")


def _framed(body: bytes) -> str:
    number = int.from_bytes(body[1:_FRAME], "big")
    return f"the body begins as a message of a schema registry does (schema {number})"


def _utf8(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _base64(body: bytes) -> str:
    return base64.b64encode(body).decode()
