"""Messages whose bodies are read at once are what they are one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pipelines.core.model import Input
from pipelines.core.query import Column
from pipelines.core.sources import Body
from pipelines.ingest.readers import Chunk
from pipelines.ingest.sources import bodies
from pipelines.ingest.sources.bodies import Decoder
from pipelines.ingest.sources.reader import Messages
from pipelines.ingest.values import convert, convert_arrow
from pipelines.lakehouse.schema import arrow_type

COLUMNS = [Column("n", "bigint"), Column("x", "double"), Column("s", "string"), Column("at", "timestamp")]
CLEAN = [b'{"n":1,"x":0.5,"s":"a","at":"2026-01-01T12:00:00Z"}', b'{"n":2,"more":1}', b'{"at":"noon"}', b'{"s":null}\r']
NOT_CLEAN = [
    b'{"n":"3"}',
    b"{",
    b"\xff",
    None,
    b"",
    b'{"n":1}\n{"n":2}',
    b'[{"n":1}]',
    b'{\n"n":4}',
    b'{"n":5}\n',
    b"[]",
    b'{"N":6,"x":1.5,"s":"b","at":null}',
]
PART = Input("hub", tuple(COLUMNS))
DEMANDING = dataclasses.replace(PART, complete=True)


def messages(found: list[bytes | None]) -> Messages:
    count = len(found)
    return Messages("hub", [0] * count, range(10, 10 + count), [1_000_000] * count, found)


def records(part: Input, chunks: Iterator[Chunk]) -> tuple[list[Any], list[Any], dict[str, int]]:
    rows: list[Any] = []
    refused: list[Any] = []
    ignored: dict[str, int] = {}
    for chunk in chunks:
        columns = []
        for column in COLUMNS:
            values = chunk.columns[column.name]
            turn = convert_arrow if isinstance(values, pa.Array) else convert
            typed, reasons = turn(values, arrow_type(column.type))
            columns.append([(value, reasons.get(at)) for at, value in enumerate(typed.to_pylist())])
        keys = [chunk.columns[name].to_pylist() for name in ("arrival_time", "input_partition", "sequence")]
        lacking = [chunk.lacking.get(index) if part.complete else None for index in range(len(chunk.positions))]
        texts = [chunk.raw(index) for index in range(len(chunk.positions))]
        rows += zip(chunk.positions, texts, lacking, *keys, *columns, strict=True)
        refused += chunk.refused
        for name, count in chunk.ignored.items():
            ignored[name] = ignored.get(name, 0) + count
    return rows, sorted(refused, key=lambda one: one.position), ignored


@pytest.mark.parametrize("body", ["json", "json_lines"])
@pytest.mark.parametrize("events", ["one", "many"])
@pytest.mark.parametrize("part", [PART, DEMANDING])
@pytest.mark.parametrize("among", [[], NOT_CLEAN, *([one] for one in NOT_CLEAN)])
def test_bodies_at_once_are_what_they_are_one_by_one(
    part: Input, body: Any, events: Any, among: list[bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_SMALLEST", 2)
    given = messages([*CLEAN, *among, *CLEAN])
    decoder = Decoder(part, body, events)
    at_once = records(part, decoder.chunks(given))
    monkeypatch.setattr(Decoder, "_at_once", lambda *_: None)
    assert at_once == records(part, decoder.chunks(given))


@pytest.mark.parametrize("body", ["json", "avro"])
def test_a_message_of_a_schema_registry_is_refused_by_name(body: Body) -> None:
    (chunk,) = Decoder(PART, body, "one").chunks(messages([b"\0\0\0\0\7\2\4ab"]))
    (refused,) = chunk.refused
    assert refused.reason.startswith("the body begins as a message of a schema registry does (schema 7), and ")


def test_clean_messages_are_read_without_a_loop() -> None:
    (chunk,) = Decoder(PART, "json", "one").chunks(messages(list(CLEAN) * 500))
    assert isinstance(chunk.columns["n"], pa.Array)


def test_a_message_without_a_column_of_create_table_is_named() -> None:
    whole = b'{"n":1,"x":0.5,"s":null,"at":null}'
    (chunk,) = Decoder(DEMANDING, "json", "one").chunks(messages([whole, b'{"n":1,"S":"a","at":null}', whole]))
    assert chunk.lacking == {1: "x"}
