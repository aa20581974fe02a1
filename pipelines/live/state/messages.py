"""What comes in: packed rows of the logs' files, and announcements of which files belong to one commit.

A commit of an arrival log may be stored in several files, and a trigger may cut between them, in any order. So a file's
rows wait until an announcement has named it and everything announced with it or before it (of the same input) has come.
The size of a trigger then makes no difference.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

ROWS, ANNOUNCEMENT = "rows", "announcement"
"""Kinds of message."""


class Message(NamedTuple):
    """One row of the stream: rows of ``file`` of ``input`` as an Arrow stream, or an announcement as JSON."""

    kind: str
    input: str
    file: str
    row_count: int
    body: bytes


class Commit(NamedTuple):
    """All rows that one commit brought to an input's log.

    Columns: ``partition`` (null: all of them), ``sequence``, ``arrival`` and ``punctuation`` (BIGINT microseconds, null
    for events), and those of :func:`~pipelines.live.expressions.readings`.
    """

    input: str
    rows: pa.Table


class AnnouncedCommit(NamedTuple):
    """What is known of a commit before its rows have come: its files with their numbers of rows, and the earliest
    arrival (microseconds) of its punctuations for all partitions, None if it has none."""

    files: dict[str, int]
    punctuation_us: int | None


@dataclass(slots=True)
class PendingCommits:
    """Commits of which something is missing: a file, or the announcement.

    ``announced`` lists the commits of each input in order. ``partitions`` are those that the latest announcement names.
    ``until_end`` is set while the latest announcement asks for what the end of the log gives.
    """

    announced: dict[str, deque[AnnouncedCommit]] = field(default_factory=dict)
    files: dict[tuple[str, str], list[Message]] = field(default_factory=dict)
    partitions: dict[str, frozenset[int]] = field(default_factory=dict)
    until_end: bool = False

    def receive(self, messages: Sequence[Message]) -> None:
        """Store what has come, in any order."""
        announcements = []
        for message in messages:
            if message.kind == ANNOUNCEMENT:
                announcements.append(json.loads(message.body))
            else:
                self.files.setdefault((message.input, message.file), []).append(message)
        for one in sorted(announcements, key=lambda one: int(one["number"])):
            for commit in one["commits"]:
                announced = AnnouncedCommit(commit["files"], commit["punctuation_us"])
                self.announced.setdefault(commit["input"], deque()).append(announced)
            self.partitions = {name: frozenset(numbers) for name, numbers in one["partitions"].items()}
            self.until_end = one["end_of_log"]

    def completed(self) -> Iterator[Commit]:
        """Remove and give the commits of which everything has come, those of an input in order."""
        for name, commits in self.announced.items():
            while commits and all(self._received(name, file) == rows for file, rows in commits[0].files.items()):
                messages = [one for file in commits.popleft().files for one in self.files.pop((name, file), [])]
                yield Commit(name, pa.concat_tables([unpack(message.body) for message in messages]))

    @property
    def punctuations_us(self) -> list[int]:
        """For each announced commit with punctuations for all partitions: the earliest arrival of one."""
        commits = (commit for commits in self.announced.values() for commit in commits)
        return [commit.punctuation_us for commit in commits if commit.punctuation_us is not None]

    @property
    def caught_up(self) -> bool:
        """Has everything come that was announced?"""
        return not any(self.announced.values())

    def _received(self, name: str, file: str) -> int:
        return sum(message.row_count for message in self.files.get((name, file), []))


def pack(table: pa.Table) -> bytes:
    """Rows of one file and input as the body of a message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def unpack(body: bytes) -> pa.Table:
    """The rows that :func:`pack` packed."""
    return pa.ipc.open_stream(body).read_all()


def first_punctuation_us(rows: pa.Table, arrival: str, partition: str) -> int | None:
    """The earliest arrival of a punctuation for all partitions, which has none; the columns are named so."""
    arrivals = rows.filter(pc.is_null(rows[partition]))[arrival].cast(pa.int64())
    earliest: int | None = pc.min(arrivals).as_py()
    return earliest
