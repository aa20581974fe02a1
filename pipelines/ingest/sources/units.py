"""Sources of rows with columns of their own, read unit after unit: the versions of a table, or files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pipelines.core.errors import DataRefused, did_you_mean
from pipelines.core.model import Input
from pipelines.core.sources import DeltaTable, Files
from pipelines.core.time import MAX_INSTANT_US, MILLISECOND, MIN_INSTANT_US, to_datetime
from pipelines.ingest.clean_lines import demanding
from pipelines.ingest.readers import OPTIONAL, ORDER, Chunk, Refused
from pipelines.ingest.sources.bodies import Decoder
from pipelines.ingest.sources.reader import Bookmark, Messages, Portion
from pipelines.ingest.values import convert, convert_arrow
from pipelines.lakehouse.schema import TIMESTAMP, arrivals_schema

_UNREADABLE, _NO_PARTITION = "unreadable", "none"
"""In a bookmark, in place of an input partition: records that are no rows at all, and rows without one."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A version or a file: its name in bookmarks, its bytes, and its rows under the source's names."""

    name: int | str
    size: int
    chunks: Callable[[], Iterator[Chunk]]


class Mapped:
    """Chunks with the columns of a source as chunks with ours; with ``body``, each message decoded."""

    def __init__(self, part: Input, source: DeltaTable | Files) -> None:
        payload = ["body"] if source.body else [column.name for column in part.columns]
        fields = dict(source.fields)
        self._names = {name: fields.get(name, name) for name in (*ORDER, *payload)}
        self._optional = {name: fields.get(name, name) for name in OPTIONAL if not source.body}
        self._decoder = Decoder(part, source.body, source.events_per_message) if source.body else None
        self._schema = demanding(arrivals_schema(part), part)

    @property
    def required(self) -> list[str]:
        """The columns that the source must have."""
        return list(dict.fromkeys(self._names.values()))

    @property
    def optional(self) -> list[str]:
        """The columns that it may have."""
        return list(self._optional.values())

    @property
    def types(self) -> pa.Schema:
        """The types of all these columns; a body is text."""
        fields: dict[str, pa.Field] = {}
        for ours, theirs in {**self._names, **self._optional}.items():
            field = pa.field("body", pa.string()) if ours == "body" else self._schema.field(ours)
            fields.setdefault(theirs, field.with_name(theirs))
        return pa.schema(fields.values())

    def among(self, there: Sequence[str], where: str) -> dict[str, str]:
        """Where each column that is wanted stands in ``there``, in any case; :class:`DataRefused` if it does not."""
        by_name = {name.lower(): name for name in there}
        for name in self.required:
            if name.lower() not in by_name:
                raise DataRefused(
                    f"the source lacks the column '{name}'; {did_you_mean(name, there)}",
                    file=where,
                    hint="name it in 'source.fields'; nothing was written",
                )
        wanted = [*self.required, *(name for name in self.optional if name.lower() in by_name)]
        return {name: by_name[name.lower()] for name in wanted}

    def renamed(self, found: Chunk) -> Chunk:
        """The chunk under our names; a whole number as arrival time is milliseconds since 1970."""
        names = {**self._names, **self._optional}
        columns = {ours: found.columns[theirs] for ours, theirs in names.items() if theirs in found.columns}
        ours_by_theirs = {theirs: ours for ours, theirs in names.items()}
        return replace(
            found,
            columns={**columns, "arrival_time": _instants(columns["arrival_time"])},
            lacking={index: ours_by_theirs[theirs] for index, theirs in found.lacking.items()},
        )

    def chunks(self, found: Chunk) -> Iterator[Chunk]:
        """A chunk under our names as the chunks to be judged."""
        if self._decoder is None:
            yield found
            return
        keys = {name: typed(found.columns[name], kind) for name, kind in _KINDS.items()}
        unfit = {
            index: f"{name} is missing or does not fit"
            for name, values in keys.items()
            for index, value in enumerate(values)
            if value is None
        }
        refused = [Refused(found.raw(index), why, found.source, found.positions[index]) for index, why in unfit.items()]
        yield Chunk(found.source, [], {}, found.raw, [*found.refused, *refused], found.ignored)
        good = [index for index in range(len(found.positions)) if index not in unfit]
        bodies = found.columns["body"]
        bodies = bodies.to_pylist() if isinstance(bodies, pa.Array) else bodies
        yield from self._decoder.chunks(
            Messages(
                source=found.source,
                input_partition=[keys["input_partition"][index] or 0 for index in good],
                sequence=[keys["sequence"][index] or 0 for index in good],
                arrival_us=[keys["arrival_time"][index] for index in good],
                body=[_body(bodies[index]) for index in good],
                position=[found.positions[index] for index in good],
            )
        )


_KINDS = {"input_partition": pa.int64(), "sequence": pa.int64(), "arrival_time": TIMESTAMP}


def read_units(units: Iterable[Unit], mapped: Mapped, bookmark: Bookmark, until_us: int | None) -> Iterator[Portion]:
    """The rows of ``units`` behind ``bookmark``; none of a unit behind the first one that ``until_us`` cuts.

    The bookmark names the last unit and, where that was not read to its end, how many rows of each partition were.
    """
    seen = set(bookmark.get("partitions", ()))
    for unit in units:
        skip = Counter[str](bookmark.get("taken", {}) if bookmark.get("unit") == unit.name else {})
        taken = Counter[str]()
        ended: set[str] = set()
        for found, is_last in _with_last(unit.chunks()):
            chunk = mapped.renamed(found)
            partitions = _partitions(chunk)
            keep = _kept(chunk, partitions, skip, ended, until_us, taken)
            seen |= {int(one) for one in taken if one.lstrip("-").isdigit()}
            at: Bookmark = {"unit": unit.name, "partitions": sorted(seen)}
            if ended or not is_last:
                at["taken"] = dict(taken)
            yield Portion(mapped.chunks(_only(chunk, keep)), at, unit.size if is_last else 0)
        if ended:
            return


def _kept(
    chunk: Chunk,
    partitions: Sequence[str],
    skip: Counter[str],
    ended: set[str],
    until_us: int | None,
    taken: Counter[str],
) -> list[int] | None:
    """Positions of the rows that are new and not behind the cut of their partition, None: all. ``taken`` counts what
    the bookmark covers, ``skip`` what of it an earlier batch took."""
    dropped = min(skip[_UNREADABLE], len(chunk.refused))
    skip[_UNREADABLE] -= dropped
    taken[_UNREADABLE] += len(chunk.refused)
    chunk.refused = chunk.refused[dropped:]
    if until_us is None and not +skip:  # nothing is skipped and nothing is cut
        taken.update(partitions)
        return None
    keep = []
    times = typed(chunk.columns["arrival_time"], TIMESTAMP)
    for index, (partition, arrival_us) in enumerate(zip(partitions, times, strict=True)):
        if partition in ended:
            continue
        if skip[partition] > 0:
            skip[partition] -= 1
        elif until_us is not None and arrival_us is not None and arrival_us >= until_us:
            ended.add(partition)
            continue
        else:
            keep.append(index)
        taken[partition] += 1
    return keep


def _only(chunk: Chunk, keep: Sequence[int] | None) -> Chunk:
    if keep is None:
        return chunk
    columns: dict[str, Any] = {
        name: values.take(pa.array(keep, pa.int64()))
        if isinstance(values, pa.Array)
        else [values[index] for index in keep]
        for name, values in chunk.columns.items()
    }
    return replace(
        chunk,
        columns=columns,
        positions=[chunk.positions[index] for index in keep],
        raw=lambda index: chunk.raw(keep[index]),
        lacking={new: chunk.lacking[old] for new, old in enumerate(keep) if old in chunk.lacking},
    )


def typed(values: Sequence[Any] | pa.Array, kind: pa.DataType) -> list[int | None]:
    """Values of a key column as whole numbers, instants in microseconds; None where one is missing or does not fit."""
    turn = convert_arrow if isinstance(values, pa.Array) else convert
    array, _ = turn(values, kind)
    found: list[int | None] = array.cast(pa.int64()).to_pylist()
    return found


def _partitions(chunk: Chunk) -> list[str]:
    return [
        _NO_PARTITION if one is None else str(one)
        for one in typed(chunk.columns["input_partition"], _KINDS["sequence"])
    ]


def _instants(values: Sequence[Any] | pa.Array) -> Sequence[Any] | pa.Array:
    """Whole numbers as instants: milliseconds since 1970."""
    if isinstance(values, pa.Array):
        return convert_arrow(_milliseconds(values), TIMESTAMP)[0] if pa.types.is_integer(values.type) else values
    if any(type(value) is int for value in values):
        return [to_datetime(value * MILLISECOND) if _is_instant(value) else value for value in values]
    return values


def _milliseconds(values: pa.Array) -> pa.Array:
    return values.cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))


def _is_instant(value: Any) -> bool:
    return type(value) is int and MIN_INSTANT_US <= value * MILLISECOND <= MAX_INSTANT_US


def _body(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode()


def _with_last(chunks: Iterator[Chunk]) -> Iterator[tuple[Chunk, bool]]:
    """Each chunk, and whether it is the last one."""
    current = next(chunks, None)
    while current is not None:
        following = next(chunks, None)
        yield current, following is None
        current = following
