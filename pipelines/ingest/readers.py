"""Files as chunks of records: JSON lines, CSV with a header, Parquet; each record knows its line or row.

A record that cannot be read at all (not JSON, wrong number of fields) becomes a :class:`Refused`; everything after it
is read as if it were not there. A file that lacks a column as a whole, or breaks off, raises :class:`DataRefused`.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core.columns import under_their_names
from pipelines.core.errors import DataRefused, UsageError, did_you_mean
from pipelines.ingest.clean_lines import divided
from pipelines.ingest.values import decode_json

CHUNK = 50_000
"""Records in memory at once."""
BLOCK = 1 << 22
"""Bytes of JSON lines that are read at once."""
_THREADS = 2
MAX_CSV_FIELD = 1 << 20
"""Characters in one CSV field; more is taken for a quote that was never closed."""

OPTIONAL = ("kind", "punctuation_time", "cause")
ORDER = ("arrival_time", "input_partition", "sequence")
"""The columns of an arrival log that files may have, and those that they must have, besides the payload."""

_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class Refused:
    """One record that is not taken: its text, why, and where it stood: line or row, counted from 1, or the message's
    sequence at its source. ``input_partition`` and ``sequence`` are None where they could not be read."""

    raw: str
    reason: str
    source: str
    position: int
    input_partition: int | None = None
    sequence: int | None = None


@dataclass
class Chunk:
    """Up to :data:`CHUNK` records: values by column, and for each record its position and its text on demand.

    ``lacking``: a required column that is no key of a record at all, by the index of the record.
    """

    source: str
    positions: Sequence[int]
    columns: dict[str, Sequence[Any] | pa.Array]
    raw: Callable[[int], str]
    refused: list[Refused] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    lacking: dict[int, str] = field(default_factory=dict)


def read_file(
    path: Path, required: Sequence[str], optional: Sequence[str] = (), types: pa.Schema | None = None
) -> Iterator[Chunk]:
    """The records of one file; the end of its name is the format: .jsonl .json .ndjson .csv (also .gz), .parquet.

    A CSV or Parquet file has every ``required`` column; columns that are neither required nor optional are ignored.
    JSON and CSV may write the name of a required column in another case (Q26), and as it is before it is stored.
    ``types`` has the type of each, so that JSON lines can be read at once; values that do not fit are in the chunk all
    the same.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    kind = suffixes[-2] if zipped and len(suffixes) > 1 else (suffixes[-1] if suffixes else "")
    try:
        if kind in (".jsonl", ".json", ".ndjson"):
            with _open(path, zipped) as file:
                yield from _json_lines(file, str(path), required, optional, types)
        elif kind == ".csv":
            with _open(path, zipped) as file:
                yield from _csv(file, str(path), required, optional)
        elif kind == ".parquet" and not zipped:
            yield from _parquet(path, required, optional)
        else:
            raise UsageError(
                "the file's format is not known",
                file=str(path),
                hint="name it .jsonl, .json, .ndjson or .csv (each also .gz), or .parquet",
            )
    except (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowException, UnicodeDecodeError, OSError) as error:
        # the errors of the operating system have a number, those of a reader have none
        if isinstance(error, OSError) and error.errno is not None:
            raise UsageError(f"the file cannot be read: {error.strerror}", file=str(path)) from error
        raise DataRefused(
            f"the file is damaged: {(str(error).splitlines() or [type(error).__name__])[0]}",
            file=str(path),
            hint="fetch it again; nothing was written",
        ) from error


def _open(path: Path, zipped: bool) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if zipped else path.open("rb")


def _decoded(line: bytes) -> tuple[str, bool]:
    """Text of a line, and whether it was UTF-8."""
    try:
        return line.decode("utf-8"), True
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace"), False


# -- JSON lines ---------------------------------------------------------------------------------------------------


def _json_lines(
    file: BinaryIO, source: str, required: Sequence[str], optional: Sequence[str], types: pa.Schema | None
) -> Iterator[Chunk]:
    """Clean lines at once, the others one by one; both give the same."""
    names = (*required, *optional)
    kinds = None if types is None else pa.schema([types.field(name) for name in names])
    begin = 1
    for pieces in _ahead(lambda block: list(divided(block, kinds)), _blocks(file)):
        for lines, clean in pieces:
            if clean is None:
                yield from _one_by_one(lines, source, begin, required, optional)
                begin += lines.count(b"\n")
            else:
                batch, ignored = clean
                columns = dict(zip(names, batch.columns, strict=True))
                positions = range(begin, begin + len(batch))
                yield Chunk(source, positions, columns, _line_text(lines), [], ignored)
                begin += len(batch)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines, about :data:`BLOCK` bytes at once."""
    while block := file.read(BLOCK):
        yield block + file.readline()


def _ahead(work: Callable[[bytes], _Done], blocks: Iterator[bytes]) -> Iterator[_Done]:
    """``work`` on each block, in order; on the blocks after the one that is asked for, too, in threads."""
    waiting: deque[Future[_Done]] = deque()
    with ThreadPoolExecutor(_THREADS) as threads:
        for block in blocks:
            waiting.append(threads.submit(work, block))
            if len(waiting) > _THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _line_text(lines: bytes) -> Callable[[int], str]:
    split: list[bytes] = []

    def text(index: int) -> str:
        if not split:
            split.extend(lines.split(b"\n"))
        return split[index].decode().rstrip("\r")

    return text


def _one_by_one(
    block: bytes, source: str, begin: int, required: Sequence[str], optional: Sequence[str]
) -> Iterator[Chunk]:
    names = (*required, *optional)
    known, demanded = set(names), set(required)
    records: list[dict[str, Any]] = []
    lines: list[str] = []
    positions: list[int] = []
    refused: list[Refused] = []
    ignored: Counter[str] = Counter()

    def chunk() -> Chunk:
        columns: dict[str, Any] = {name: [record.get(name) for record in records] for name in names}
        lacking = {
            index: next(name for name in required if name not in record)
            for index, record in enumerate(records)
            if not demanded <= record.keys()
        }
        return Chunk(source, positions, columns, lines.__getitem__, refused, ignored, lacking)

    for position, raw_line in enumerate(block.split(b"\n"), start=begin):
        text, is_text = _decoded(raw_line)
        text = (text.removeprefix("\ufeff") if position == 1 else text).rstrip("\r\n")
        if not text.strip():
            continue
        try:
            if not is_text:
                raise ValueError("not UTF-8 text")
            record = _record(text)
        except ValueError as error:
            refused.append(Refused(text, str(error), source, position))
        else:
            if not record.keys() <= known:
                record = under_their_names(record, required)
                ignored.update(record.keys() - known)
            records.append(record)
            lines.append(text)
            positions.append(position)
        if len(records) + len(refused) >= CHUNK:
            yield chunk()
            records, lines, positions, refused, ignored = [], [], [], [], Counter()
    yield chunk()


def _record(text: str) -> dict[str, Any]:
    try:
        record = decode_json(text)
    except ValueError as error:
        raise ValueError(f"malformed JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


# -- CSV ----------------------------------------------------------------------------------------------------------


@dataclass
class _CsvRecord:
    position: int
    raw: str
    fields: list[str]
    reason: str | None = None


def _csv(file: BinaryIO, source: str, required: Sequence[str], optional: Sequence[str]) -> Iterator[Chunk]:
    records = _csv_records(file)
    header = next(records, None)
    if header is None or header.reason is not None:
        raise DataRefused("the file has no header line", file=source, hint="its first line must name the columns")
    named = under_their_names(dict.fromkeys(header.fields), required)
    names = list(named) if len(named) == len(header.fields) else header.fields
    ignored = _check_columns(names, required, optional, source)
    wanted = [name for name in (*required, *optional) if name in names]
    places = [names.index(name) for name in wanted]
    good: list[_CsvRecord] = []
    refused: list[Refused] = []

    def chunk() -> Chunk:
        columns: dict[str, Any] = {
            name: [record.fields[place] or None for record in good] for name, place in zip(wanted, places, strict=True)
        }
        kept = good
        counted = Counter({name: len(kept) for name in ignored})
        return Chunk(
            source, [record.position for record in kept], columns, lambda index: kept[index].raw, refused, counted
        )

    for record in records:
        reason = record.reason
        if reason is None and len(record.fields) != len(names):
            reason = f"has {len(record.fields)} fields, the header {len(names)}"
        if reason is None:
            good.append(record)
        else:
            refused.append(Refused(record.raw, reason, source, record.position))
        if len(good) + len(refused) >= CHUNK:
            yield chunk()
            good, refused = [], []
    yield chunk()


def _csv_records(file: BinaryIO) -> Iterator[_CsvRecord]:
    """Records of a CSV file, quoted line breaks included; a broken record costs its first line only."""
    csv.field_size_limit(MAX_CSV_FIELD)
    lines = _numbered_lines(file)
    waiting: list[tuple[int, str, bool]] = []  # lines that a broken record had swallowed, to be read again
    taken: list[tuple[int, str, bool]] = []

    def feed() -> Iterator[str]:
        while True:
            line = waiting.pop(0) if waiting else next(lines, None)
            if line is None:
                return
            taken.append(line)
            yield line[1]

    while True:
        taken.clear()
        reader = csv.reader(feed(), strict=True)
        try:
            for fields in reader:
                record = _CsvRecord(taken[0][0], "".join(text for _, text, _ in taken).rstrip("\r\n"), fields)
                if not all(is_text for _, _, is_text in taken):
                    record.reason = "not UTF-8 text"
                taken.clear()
                if fields:
                    yield record
            return
        except csv.Error as error:
            position, text, _ = taken[0]
            waiting[:0] = taken[1:]
            yield _CsvRecord(position, text.rstrip("\r\n"), [], f"malformed CSV: {error}")


def _numbered_lines(file: BinaryIO) -> Iterator[tuple[int, str, bool]]:
    for position, line in enumerate(file, start=1):
        text, is_text = _decoded(line)
        yield position, text.removeprefix("\ufeff") if position == 1 else text, is_text


# -- Parquet ------------------------------------------------------------------------------------------------------


def _parquet(path: Path, required: Sequence[str], optional: Sequence[str]) -> Iterator[Chunk]:
    source = str(path)
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        ignored = _check_columns(names, required, optional, source)
        wanted = [name for name in (*required, *optional) if name in names]
        begin = 1
        for batch in file.iter_batches(batch_size=CHUNK, columns=wanted):
            columns: dict[str, Any] = {name: batch.column(name) for name in wanted}
            positions = list(range(begin, begin + batch.num_rows))
            counted = Counter(dict.fromkeys(ignored, batch.num_rows))
            yield Chunk(source, positions, columns, row_text(batch), [], counted)
            begin += batch.num_rows


def row_text(batch: pa.RecordBatch) -> Callable[[int], str]:
    """The text of a row of ``batch``, for a person."""

    def text(index: int) -> str:
        row = {name: _cell(batch.column(name)[index]) for name in batch.schema.names}
        return json.dumps(row, ensure_ascii=False, default=str)

    return text


def _cell(scalar: pa.Scalar) -> Any:
    try:
        return str(scalar) if pa.types.is_timestamp(scalar.type) and scalar.is_valid else scalar.as_py()
    except UnicodeDecodeError:
        return scalar.cast(pa.binary()).as_py().decode("utf-8", "replace")
    except (OverflowError, ValueError):
        # an instant or a date that Python does not have
        return f"{getattr(scalar, 'value', 'a value')} ({scalar.type})"


def _check_columns(names: Sequence[str], required: Sequence[str], optional: Sequence[str], source: str) -> list[str]:
    """The columns that have no place in the table; :class:`DataRefused` if one that has is missing or there twice."""
    for name in required:
        if name not in names:
            raise DataRefused(
                f"the file lacks the column '{name}'; {did_you_mean(name, names)}",
                file=source,
                hint="nothing was written",
            )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataRefused(f"the column '{twice[0]}' occurs twice", file=source, hint="nothing was written")
    known = {*required, *optional}
    return [name for name in names if name not in known]
