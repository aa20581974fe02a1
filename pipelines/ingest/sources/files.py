"""Files of one format, in the order of their names; each is read once."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from pipelines.core import sources
from pipelines.core.errors import DataRefused
from pipelines.core.model import Input
from pipelines.ingest.readers import CHUNK, Chunk, read_file
from pipelines.ingest.sources.places import Found, Places
from pipelines.ingest.sources.reader import Bookmark, Portion, partition_notes
from pipelines.ingest.sources.units import Mapped, Unit, read_units

_ENDS = {
    "jsonl": r"\.(?:jsonl|json|ndjson)(?:\.gz)?",
    "csv": r"\.csv(?:\.gz)?",
    "parquet": r"\.parquet",
    "avro": r"\.avro",
}


class FilesReader:
    """Files that are not changed once they are there. The bookmark names the last one that was read."""

    def __init__(self, part: Input, source: sources.Files) -> None:
        self._part = part
        self._mapped = Mapped(part, source)
        self._format = source.format
        ends = _ENDS[source.format]
        self._places = Places(source.path, None if re.search(f"{ends}$", source.path) else f".*{ends}")
        self._found = self._places.found()
        self._seen: set[int] = set()

    @property
    def identity(self) -> str:
        """The kind: files that moved are the same, since they keep their names."""
        return "files"

    def size(self, bookmark: Bookmark) -> int:
        """Bytes of the files that are new."""
        return sum(file.size for file in self._new(bookmark))

    def portions(self, bookmark: Bookmark, until_us: int | None) -> Iterator[Portion]:
        """The records of the new files, file by file."""
        units = [Unit(file.name, file.size, partial(self._chunks, file)) for file in self._new(bookmark)]
        for portion in read_units(units, self._mapped, bookmark, until_us):
            self._seen |= set(portion.bookmark["partitions"])
            count = sum(file.name <= portion.bookmark["unit"] for file in self._found)
            yield replace(portion, bookmark={**portion.bookmark, "files": count})

    def notes(self, bookmark: Bookmark) -> list[str]:
        """Files that came or went behind the bookmark, and partitions that were not expected."""
        notes = partition_notes(self._part, self._seen, bookmark.get("partitions", ()))
        others = sorted(self._places.passed_over)
        if others and not self._found:
            notes.append(
                f"no file below the path has the name of a {self._format} file; {len(others)} other(s) are there, such"
                f" as {others[0]}: change 'path' or 'format'"
            )
        if bookmark:
            count = sum(file.name <= bookmark["unit"] for file in self._found)
            if count != bookmark["files"]:
                notes.append(
                    f"{bookmark['files']} file(s) up to {bookmark['unit']} were read, and {count} are there: files that"
                    " came later under earlier names are not read; ingest them by name"
                )
        return notes

    def _new(self, bookmark: Bookmark) -> list[Found]:
        last = bookmark.get("unit", "")
        return [file for file in self._found if file.name > last or (file.name == last and "taken" in bookmark)]

    def _chunks(self, file: Found) -> Iterator[Chunk]:
        with self._local(file) as path:
            if self._format == "avro":
                chunks = self._avro(path)
            else:
                chunks = read_file(path, self._mapped.required, self._mapped.optional, self._mapped.types)
            for chunk in chunks:
                chunk.source = file.path
                yield chunk

    @contextmanager
    def _local(self, file: Found) -> Iterator[Path]:
        """The file on this machine, copied if it is not there."""
        if isinstance(self._places.files, pafs.LocalFileSystem):
            yield Path(file.path)
            return
        with tempfile.TemporaryDirectory(prefix="tailrace-source-") as folder:
            path = Path(folder) / file.path.rpartition("/")[2]
            with self._places.files.open_input_stream(file.path) as stream, path.open("wb") as copy:
                shutil.copyfileobj(stream, copy)
            yield path

    def _avro(self, path: Path) -> Iterator[Chunk]:
        import fastavro

        try:
            with path.open("rb") as stream:
                reader: Any = fastavro.reader(stream)
                names = self._mapped.among([field["name"] for field in reader.writer_schema["fields"]], str(path))
                begin = 1
                while records := list(islice(reader, CHUNK)):
                    columns: dict[str, Any] = {
                        ours: [record[theirs] for record in records] for ours, theirs in names.items()
                    }
                    positions = list(range(begin, begin + len(records)))
                    yield Chunk(str(path), positions, columns, partial(_text, records))
                    begin += len(records)
        except (ValueError, EOFError, KeyError, IndexError, TypeError) as error:
            raise DataRefused(
                f"the file is damaged: {error or type(error).__name__}",
                file=str(path),
                hint="nothing was written; fetch it again, or move it away",
            ) from error


def _text(records: list[dict[str, Any]], index: int) -> str:
    return json.dumps(records[index], ensure_ascii=False, default=str)
