"""Event Hubs Capture: Avro files of the documented schema, one input partition a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from pipelines.core.errors import DataRefused
from pipelines.core.model import Input
from pipelines.core.sources import EventHubsCapture
from pipelines.core.time import MILLISECOND, from_datetime, parse_instant
from pipelines.ingest.readers import CHUNK
from pipelines.ingest.sources.bodies import Decoder
from pipelines.ingest.sources.places import Found, Places
from pipelines.ingest.sources.reader import Bookmark, Messages, Portion, count_before, partition_notes

_TIME = ("Year", "Month", "Day", "Hour", "Minute", "Second")
_TOKENS = {"PartitionId": r"\d+", "Year": r"\d{4}", **dict.fromkeys(_TIME[1:], r"\d{1,2}")}
_FIELDS = ("SequenceNumber", "EnqueuedTimeUtc", "SystemProperties", "Body")
_ENQUEUED = "x-opt-enqueued-time"


class CaptureReader:
    """The files of a capture. Of each partition the bookmark names the last file, and how many of its messages were
    taken where it was not read to its end; else until when the partition is complete: up to the time in its path, also
    where the file is empty."""

    def __init__(self, part: Input, source: EventHubsCapture) -> None:
        self._part = part
        self._places = Places(source.path, _regex(source.pattern))
        self._decoder = Decoder(part, source.body, source.events_per_message)
        self._found = sorted(self._places.found(), key=lambda file: (_when(file), _partition(file), file.name))
        self._strange = sorted(name for name in self._places.passed_over if name.endswith(".avro"))
        self._pattern = source.pattern
        self._coarse = 0

    @property
    def identity(self) -> str:
        """The kind: a capture that moved is the same, since its files keep their names."""
        return "eventhubs_capture"

    def size(self, bookmark: Bookmark) -> int:
        """Bytes of the files that are not read to their end."""
        return sum(file.size for file in self._new(bookmark))

    def portions(self, bookmark: Bookmark, until_us: int | None) -> Iterator[Portion]:
        """The new files of all partitions, by the time in their paths; of a partition none after one cut short."""
        at, ended = dict(bookmark), set[int]()
        for file in self._new(bookmark):
            partition = _partition(file)
            if partition in ended:
                continue
            key = _key(file)
            begun = at.get(str(partition), {})
            taken = begun.get("taken", 0) if begun.get("file") == key else 0
            for messages, is_last in self._messages(file, taken):
                count = count_before(until_us, messages.arrival_us)
                taken += count
                cut = count < len(messages.body)
                end = {"taken": taken} if cut or not is_last else _complete(file)
                at = {**at, str(partition): {"file": key, **end}}
                if cut:
                    ended.add(partition)
                    messages = messages.part(slice(count))
                yield Portion(self._decoder.chunks(messages), at, file.size if is_last or cut else 0)
                if cut:
                    break

    def notes(self, bookmark: Bookmark) -> list[str]:
        """Partitions that were not expected, files that are gone, and, once read, coarse times."""
        notes = partition_notes(self._part, {_partition(file) for file in self._found}, bookmark)
        there = {_key(file) for file in self._found}
        notes += [
            f"the last file that was read of input partition {partition} is gone: whether others were removed before"
            " they were read is not known"
            for partition, at in sorted(bookmark.items())
            if at["file"] not in there
        ]
        if self._strange:
            notes.append(
                f"{len(self._strange)} .avro file(s) below the path do not match the pattern {self._pattern} and are"
                f" not read, such as {self._strange[0]}: change 'path' or 'pattern'"
            )
        if self._coarse:
            notes.append(
                f"{self._coarse} message(s) have no {_ENQUEUED}: their arrival times are whole seconds, which can move"
                " late, early and out-of-order decisions near a tolerance"
            )
        return notes

    def _new(self, bookmark: Bookmark) -> list[Found]:
        return [file for file in self._found if _is_new(file, bookmark.get(str(_partition(file))))]

    def _messages(self, file: Found, skip: int) -> Iterator[tuple[Messages, bool]]:
        """The messages behind the first ``skip``, some at a time, and whether they are the file's last."""
        import fastavro

        try:
            with self._places.files.open_input_stream(file.path, buffer_size=1 << 20) as stream:
                reader: Any = fastavro.reader(stream)
                lacking = [name for name in _FIELDS if name not in _names(reader.writer_schema)]
                if lacking:
                    raise DataRefused(f"the file lacks the field {lacking[0]}: no file of a capture", file=file.path)
                records = islice(reader, skip, None)
                messages = self._next(file, records)
                while True:
                    following = self._next(file, records)
                    yield messages, not following.body
                    if not following.body:
                        return
                    messages = following
        except (ValueError, EOFError, KeyError, IndexError, TypeError, OSError, pa.ArrowException) as error:
            raise DataRefused(
                f"the file is damaged: {error or type(error).__name__}",
                file=file.path,
                hint="nothing was written; fetch it again, or move it away",
            ) from error

    def _next(self, file: Found, records: Iterator[dict[str, Any]]) -> Messages:
        """The next messages, at most :data:`CHUNK`. No record stays in memory, which the garbage collector would visit
        again and again."""
        sequence: list[int] = []
        arrival_us: list[int | None] = []
        body: list[bytes | None] = []
        for record in islice(records, CHUNK):
            sequence.append(record["SequenceNumber"])
            arrival_us.append(self._arrival_us(record))
            body.append(record["Body"])
        return Messages(file.path, [_partition(file)] * len(body), sequence, arrival_us, body)

    def _arrival_us(self, record: dict[str, Any]) -> int | None:
        exact = (record["SystemProperties"] or {}).get(_ENQUEUED)
        if isinstance(exact, int):
            return exact * MILLISECOND
        self._coarse += 1
        return _instant_us(record["EnqueuedTimeUtc"])


def _instant_us(text: str) -> int | None:
    """``11/5/2021 1:25:22 PM``, or ISO 8601; None if it is neither."""
    try:
        return from_datetime(datetime.strptime(text, "%m/%d/%Y %I:%M:%S %p"))  # it is UTC
    except ValueError:
        pass
    try:
        return parse_instant(text)
    except ValueError:
        return None


def _regex(pattern: str) -> str:
    """A regular expression for the paths of a pattern; the end ``.avro`` may be left out."""
    parts = re.split(r"\{(\w+)\}", pattern.removesuffix(".avro").strip("/"))
    regex = re.escape(parts[0])
    seen: set[str] = set()
    for token, text in zip(parts[1::2], parts[2::2], strict=True):
        regex += f"(?P={token})" if token in seen else f"(?P<{token}>{_TOKENS.get(token, '[^/]+')})"
        regex += re.escape(text)
        seen.add(token)
    return regex + r"\.avro"


def _partition(file: Found) -> int:
    return int(file.match["PartitionId"])


def _when(file: Found) -> str:
    """The time in a file's path, so written that texts sort as times do."""
    return "".join(file.match[token].zfill(2) for token in _TIME if token in file.match.re.groupindex)


def _complete(file: Found) -> dict[str, int]:
    """Every message that was enqueued before the time in the path of a file is in that file, or in one before it."""
    if not set(_TIME) <= file.match.re.groupindex.keys():
        return {}
    try:
        at = datetime.strptime(_when(file), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:  # the digits are no date
        return {}
    return {"complete_us": from_datetime(at)}


def _key(file: Found) -> str:
    return f"{_when(file)} {file.name}"


def _is_new(file: Found, at: dict[str, Any] | None) -> bool:
    if at is None or _key(file) > at["file"]:
        return True
    return _key(file) == at["file"] and "taken" in at


def _names(schema: Any) -> list[str]:
    return [field["name"] for field in schema.get("fields", [])]
