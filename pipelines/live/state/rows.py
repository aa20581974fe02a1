"""What the live run carries between its steps: a log's rows as they were read, rows that count, verdicts, results."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

Place = tuple[int, int, int, int]
"""Arrival order: arrival time, input partition (-1: all of them), sequence, rank of the input."""


class Event(NamedTuple):
    """One row of an arrival log with what the job's expressions say about it; instants in microseconds.

    ``punctuation`` is null for events. ``match`` are the values of those columns, ``values`` those of
    :attr:`pipelines.live.state.program.Program.texts`.
    """

    input: str
    place: Place
    punctuation: int | None
    time: int | None
    end: int | None
    edge: str | None
    passes: bool
    match: tuple[Any, ...]
    values: tuple[Any, ...]

    @property
    def arrival(self) -> int:
        """When the broker received it."""
        return self.place[0]

    @property
    def partition(self) -> int | None:
        """Its input partition; None: it speaks for all."""
        return None if self.place[1] < 0 else self.place[1]


@dataclass(slots=True)
class Row:
    """One row that counts at ``start``; ``end`` bounds its lifetime (stream_insight; None: it has not ended).

    ``group`` is equal for rows of one group. ``missed`` are starts of windows closed before it came (atlas).
    """

    start: int
    arrived: tuple[Any, ...]
    values: tuple[Any, ...]
    group: Hashable
    end: int | None = None
    missed: tuple[int, ...] = ()


class Decision(NamedTuple):
    """One row of ``stream_verdicts``, without ``emitted_at``."""

    input: str
    partition: int
    sequence: int
    arrival: int
    time: int | None
    verdict: str
    reasons: tuple[str, ...] = ()
    system: int | None = None
    lifetime_end: int | None = None
    watermark: int | None = None
    missed: tuple[int, ...] = ()


VERDICTS = pa.schema(
    [
        ("input", pa.string()),
        ("partition", pa.int32()),
        ("sequence", pa.int64()),
        ("arrival", pa.int64()),
        ("time", pa.int64()),
        ("verdict", pa.string()),
        ("reasons", pa.list_(pa.string())),
        ("system", pa.int64()),
        ("lifetime_end", pa.int64()),
        ("watermark", pa.int64()),
        ("missed", pa.list_(pa.int64())),
    ]
)
"""Decisions by the column; instants in microseconds."""


def verdicts_of(decisions: Sequence[Decision]) -> pa.Table:
    """``decisions`` as a table of :data:`VERDICTS`."""
    columns = list(zip(*decisions, strict=True)) if decisions else [()] * len(VERDICTS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, VERDICTS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=VERDICTS)


def decisions_of(verdicts: pa.Table) -> list[Decision]:
    """The rows of such a table."""
    rows = zip(*(column.to_pylist() for column in verdicts.columns), strict=True)
    found = (Decision(*row) for row in rows)
    return [one._replace(reasons=tuple(one.reasons), missed=tuple(one.missed)) for one in found]


def exceptional(verdicts: pa.Table) -> pa.Table:
    """Without those of events that simply count at their own time."""
    told = pc.greater(pc.list_value_length(verdicts["reasons"]), 0)
    return verdicts.filter(pc.or_(told, pc.not_equal(verdicts["verdict"], "accepted")))


class Result(NamedTuple):
    """One row of ``stream_windows``, without ``emitted_at``: ``values`` are group keys, then aggregates."""

    start: int
    end: int
    window_id: str | None
    values: tuple[Any, ...]


def decide(event: Event, verdict: str, reasons: tuple[str, ...] = (), **more: Any) -> Decision:
    """The event's verdict."""
    arrival, partition, sequence, _ = event.place
    return Decision(event.input, partition, sequence, arrival, event.time, verdict, reasons, **more)


class LogOutOfOrder(Exception):
    """The log turned out to hold rows that come before others already decided: the stream must begin again."""
