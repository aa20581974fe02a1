"""What every source is read as: portions of messages, each with the bookmark behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from pipelines.core.model import Input
from pipelines.ingest.readers import Chunk

Bookmark = dict[str, Any]
"""JSON-ready: how far a source was read, a value for each input partition. Empty: nothing was."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Some messages in the order of the source, in chunks that can be read once, and the bookmark behind them.

    ``size`` is how much of :meth:`Reader.size` they are.
    """

    chunks: Iterable[Chunk]
    bookmark: Bookmark
    size: int


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one file or topic: for each its input partition, its sequence there, its arrival time and its body.

    An arrival time is microseconds, None where the source has none; a body is None where the message has none.
    """

    source: str
    input_partition: Sequence[int]
    sequence: Sequence[int]
    arrival_us: Sequence[int | None]
    body: Sequence[bytes | None]
    position: Sequence[int] | None = None
    """Where each stands in its file; None: at its sequence."""

    def part(self, some: slice) -> Messages:
        """Some of the messages."""
        return Messages(
            self.source,
            self.input_partition[some],
            self.sequence[some],
            self.arrival_us[some],
            self.body[some],
            None if self.position is None else self.position[some],
        )


class Reader(Protocol):
    """A source, opened. A reader that is asked twice for the same bookmark gives the same messages, and perhaps more.

    Within a partition the messages come in the order of the source, and where a portion ends changes nothing: a
    message's decision depends on the messages before it alone.
    """

    @property
    def identity(self) -> str:
        """What a bookmark belongs to: a bookmark of another source is refused."""
        ...

    def size(self, bookmark: Bookmark) -> int:
        """How much there is behind the bookmark, in bytes or offsets."""
        ...

    def portions(self, bookmark: Bookmark, until_us: int | None) -> Iterator[Portion]:
        """What lies behind the bookmark, of each partition up to the first message that arrived at ``until_us``."""
        ...

    def notes(self, bookmark: Bookmark) -> list[str]:
        """What bounds exactness, in sentences: a cut beginning, a partition more than declared, coarse times."""
        ...


def count_before(until_us: int | None, arrival_us: Sequence[int | None]) -> int:
    """How many messages of one partition come before the first one that arrived at ``until_us`` or later."""
    if until_us is None:
        return len(arrival_us)
    return sum(1 for _ in takewhile(lambda us: us is None or us < until_us, arrival_us))


def partition_notes(part: Input, there: Iterable[int], before: Iterable[int | str]) -> list[str]:
    """Sentences about the partitions of a source that the job file, or the batches ``before``, do not know."""
    known = set(map(int, before))
    partitions = sorted(there)
    notes = [
        f"input partition {one} is new since the last batch: results that are settled did not wait for it"
        for one in partitions
        if known and one not in known
    ]
    if part.partitions is None:
        return notes
    beyond = [one for one in partitions if one >= part.partitions]
    if beyond:
        notes.append(
            f"the source has input partition {beyond[-1]}, but the job file says 'partitions: {part.partitions}':"
            f" {len(beyond)} partition(s) are quarantined as a whole; say how many there are"
        )
    return notes
