"""A Delta table that grows: the rows that each version added, in the order of their sequences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from pipelines.core import sources
from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import Input
from pipelines.ingest.readers import CHUNK, Chunk, row_text
from pipelines.ingest.sources.reader import Bookmark, Portion, partition_notes
from pipelines.ingest.sources.units import Mapped, Unit, read_units, typed
from pipelines.lakehouse.object_stores import storage_options
from pipelines.lakehouse.root import Lakehouse


class DeltaReader:
    """The versions of a table. Where the log or the files of a version are gone, the newest version as a whole stands
    for all that are new: what was taken already is dropped as a duplicate."""

    def __init__(self, part: Input, source: sources.DeltaTable) -> None:
        self._part = part
        self._mapped = Mapped(part, source)
        self._path = source.path
        table = Lakehouse.at(source.path).open(Lakehouse.at(source.path).root)
        if table is None:
            raise UsageError(f"there is no Delta table {source.path}", key="source.path")
        self._table = table
        self._files = pafs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
        self._notes: list[str] = []
        self._seen: set[int] = set()

    @property
    def identity(self) -> str:
        """The table's own id, which it keeps wherever it is moved."""
        return f"delta {self._table.metadata().id}"

    def size(self, bookmark: Bookmark) -> int:
        """Bytes of the data files that are new."""
        return sum(unit.size for unit in self._units(bookmark))

    def portions(self, bookmark: Bookmark, until_us: int | None) -> Iterator[Portion]:
        """The rows of the new versions, version by version."""
        for portion in read_units(self._units(bookmark), self._mapped, bookmark, until_us):
            self._seen |= set(portion.bookmark["partitions"])
            yield portion

    def notes(self, bookmark: Bookmark) -> list[str]:
        """Versions that are gone or changed rows, and partitions that were not expected."""
        return [*self._notes, *partition_notes(self._part, self._seen, bookmark.get("partitions", ()))]

    def _units(self, bookmark: Bookmark) -> list[Unit]:
        first = bookmark.get("unit", -1) + (0 if "taken" in bookmark else 1)
        self._notes, units = [], []
        for version in range(first, self._table.version() + 1):
            added = self._added(version)
            if added is None:
                self._notes.append(
                    f"version {version} of the table can no longer be read: its newest version stands for all that are"
                    " new, and rows that were removed since are not known"
                )
                newest = self._table.version()
                sizes = self._table.get_add_actions(flatten=True)
                size = pc.sum(pa.table(sizes)["size_bytes"]).as_py() or 0
                return [Unit(newest, size, partial(self._chunks, newest, None))]
            if added:
                paths = frozenset(file["path"] for file in added)
                units.append(Unit(version, sum(file["size"] for file in added), partial(self._chunks, version, paths)))
        return units

    def _added(self, version: int) -> list[dict[str, Any]] | None:
        """The data files with which a version added rows; None if it, or one of them, is gone."""
        try:
            with self._files.open_input_stream(f"_delta_log/{version:020d}.json") as stream:
                actions = [json.loads(line) for line in stream.read().decode().splitlines() if line]
        except FileNotFoundError:
            return None
        added = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]
        if any("remove" in action and action["remove"].get("dataChange", True) for action in actions):
            self._notes.append(f"version {version} of the table removed or rewrote rows; arrivals that were taken stay")
        paths = [file["path"] for file in added]
        there = self._files.get_file_info(paths) if paths else []
        return added if all(info.type == pafs.FileType.File for info in there) else None

    def _chunks(self, version: int, paths: frozenset[str] | None) -> Iterator[Chunk]:
        """The rows that a version added, sorted; ``paths`` None: all that it has."""
        rows = self._rows(version, paths)
        found = self._mapped.among(rows.column_names, self._path)
        rows = rows.select(list(dict.fromkeys(found.values()))).combine_chunks()
        names = self._mapped.required
        keys = [pa.array(typed(_array(rows[found[name]]), pa.int64()), pa.int64()) for name in names[1:3]]
        rows = rows.take(pc.sort_indices(pa.table(keys, ["p", "s"]), [("p", "ascending"), ("s", "ascending")]))
        for begin in range(0, len(rows), CHUNK):
            part = rows.slice(begin, CHUNK).combine_chunks()
            columns: dict[str, Sequence[Any] | pa.Array] = {
                ours: _array(part[theirs]) for ours, theirs in found.items()
            }
            (batch,) = part.to_batches()
            positions = list(range(begin + 1, begin + 1 + len(part)))
            yield Chunk(f"{self._path} version {version}", positions, columns, row_text(batch))

    def _rows(self, version: int, paths: frozenset[str] | None) -> pa.Table:
        import pyarrow.dataset as ds

        try:
            uri = self._table.table_uri
            table = DeltaTable(uri, version=version, storage_options=storage_options(uri))
            dataset = cast(ds.FileSystemDataset, table.to_pyarrow_dataset())
            if paths is None:
                return dataset.to_table()
            wanted = [one for one in dataset.get_fragments() if one.path in paths]
            return ds.FileSystemDataset(wanted, dataset.schema, dataset.format, dataset.filesystem).to_table()
        except (DeltaError, OSError, pa.ArrowException) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise EnvironmentUnfit(f"the table {self._path} cannot be read at version {version}: {first}") from error


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
