"""What comes in: packed rows of the logs' files, and announcements of which files belong together.

A commit of an arrival log may lie in several files, and a trigger may cut between them, in any order. So a file's rows
wait until an announcement has named it and everything announced with it or before it (of the same input) has come.
Triggers, whatever their size, then make no difference.
"""

from __future__ import annotations

import json
import pickle
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.live.state.batches import Batch
from pipelines.live.state.program import Program
from pipelines.live.state.rows import Event

ROWS, PLAIN_ROWS, ANNOUNCEMENT = "rows", "plain_rows", "announcement"
"""Kinds of message: rows as an Arrow stream, rows as pickled columns, an announcement as JSON."""


class Message(NamedTuple):
    """One row of the stream: packed rows of ``file`` of ``input``, or an announcement as JSON."""

    kind: str
    input: str
    file: str
    row_count: int
    body: bytes


@dataclass(slots=True)
class Portion:
    """Files of one input that belong together, with their numbers of rows."""

    files: dict[str, int]


@dataclass(slots=True)
class Intake:
    """What waits. ``tell`` is set when an announcement asks for what the end of the log gives."""

    portions: dict[str, deque[Portion]] = field(default_factory=dict)
    waiting: dict[tuple[str, str], list[Message]] = field(default_factory=dict)
    partitions: dict[str, frozenset[int]] = field(default_factory=dict)
    tell: bool = False

    def take(self, messages: Sequence[Message]) -> None:
        """Put what has come where it waits."""
        announcements = []
        for message in messages:
            if message.kind != ANNOUNCEMENT:
                self.waiting.setdefault((message.input, message.file), []).append(message)
            else:
                announcements.append(json.loads(message.body))
        for one in sorted(announcements, key=lambda one: int(one["number"])):
            for portion in one["portions"]:
                self.portions.setdefault(portion["input"], deque()).append(Portion(portion["files"]))
            self.partitions = {name: frozenset(numbers) for name, numbers in one["partitions"].items()}
            self.tell = one["end_of_log"]

    def complete(self) -> Iterator[tuple[str, list[Message]]]:
        """Portions of which everything has come, in the order of their commits; they are forgotten here."""
        for name, queue in self.portions.items():
            while queue and all(self._come(name, file) == rows for file, rows in queue[0].files.items()):
                files = queue.popleft().files
                yield name, [message for file in files for message in self.waiting.pop((name, file), [])]

    @property
    def caught_up(self) -> bool:
        """Has everything come that was announced?"""
        return not any(self.portions.values())

    def _come(self, name: str, file: str) -> int:
        return sum(message.row_count for message in self.waiting.get((name, file), []))


def pack(table: pa.Table) -> bytes:
    """Rows of one file and input as the body of a message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def batch(program: Program, name: str, messages: Sequence[Message]) -> Batch:
    """The rows of a portion by the column, in arrival order."""
    if all(message.kind == ROWS for message in messages):
        table = pa.concat_tables([pa.ipc.open_stream(message.body).read_all() for message in messages])
        return Batch.of(program, name, dict(zip(table.column_names, table.columns, strict=True)))
    parts = [_columns(message) for message in messages]
    return Batch.of(program, name, {key: [value for one in parts for value in one[key]] for key in parts[0]})


def events(program: Program, name: str, messages: Sequence[Message]) -> list[Event]:
    """The rows of a portion one by one, in arrival order."""
    found: list[Event] = []
    for message in messages:
        found += _decoded(program, name, _columns(message))
    found.sort(key=lambda event: event.place)
    return found


def _columns(message: Message) -> dict[str, list[Any]]:
    if message.kind == PLAIN_ROWS:
        columns: dict[str, list[Any]] = pickle.loads(message.body)  # noqa: S301  # packed by this program
        return columns
    return dict(pa.ipc.open_stream(message.body).read_all().to_pydict())


def _decoded(program: Program, name: str, columns: Mapping[str, list[Any]]) -> Iterator[Event]:
    part, rank = program.job.input(name), program.ranks[name]
    arrivals = columns["arrival"]
    count = len(arrivals)

    def optional(column: str, default: Any) -> list[Any]:
        return columns[column] if column in columns else [default] * count

    def gathered(letter: str, wanted: int) -> Sequence[tuple[Any, ...]]:
        return list(zip(*(columns[f"{letter}{index}"] for index in range(wanted)), strict=True)) or [()] * count

    return map(
        Event,
        [name] * count,
        [
            (arrival, -1 if partition is None else partition, sequence, rank)
            for arrival, partition, sequence in zip(arrivals, columns["partition"], columns["sequence"], strict=True)
        ],
        columns["punctuation"],
        arrivals if part.timestamp_by is None else columns["time"],
        optional("end", None),
        optional("edge", None),
        optional("passes", True),
        gathered("m", len(part.match_on)),
        gathered("v", len(program.value_texts(part))),
    )
