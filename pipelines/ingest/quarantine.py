"""The records of a batch that are refused, on their way to ``quarantine/<input>``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from pipelines.ingest.readers import Refused
from pipelines.lakehouse.commits import commit
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import QUARANTINE

_SHOWN = 10
_ATTEMPTS = 5


class Quarantine:
    """The refused records of one batch, in a file; ``first`` are a few of them, for a person to see."""

    def __init__(self, folder: Path, batch_id: str) -> None:
        self.count = 0
        self.first: tuple[Refused, ...] = ()
        self._batch_id = batch_id
        self._path = folder / "refused.arrow"
        self._rows = pa.ipc.new_stream(str(self._path), QUARANTINE)

    def add(self, refused: Sequence[Refused]) -> None:
        """Keep records."""
        # a reason quotes the value, which may be half of a surrogate pair
        refused = [replace(one, reason=one.reason.encode("utf-8", "backslashreplace").decode()) for one in refused]
        rows = [{**asdict(one), "batch_id": self._batch_id} for one in refused]
        self._rows.write_table(pa.Table.from_pylist(rows, schema=QUARANTINE))
        self.count += len(refused)
        self.first = (*self.first, *refused[: _SHOWN - len(self.first)])

    def close(self) -> None:
        """Add no more."""
        self._rows.close()

    def write(self, lakehouse: Lakehouse, name: str) -> None:
        """Replace what an earlier attempt at the batch wrote, in one commit."""
        self.close()
        mine = f"batch_id = '{self._batch_id}'"

        def write(table: DeltaTable | None) -> None:
            if self.count:
                with pa.memory_map(str(self._path)) as file, pa.ipc.open_stream(file) as rows:
                    if table is None:
                        lakehouse.create(name, rows, mode="error", partition_by=["batch_id"])
                    else:
                        write_deltalake(table, rows, mode="overwrite", schema_mode="merge", predicate=mine)
            elif table is not None and any(part.get("batch_id") == self._batch_id for part in table.partitions()):
                table.delete(mine)

        commit(lakehouse, name, write, _ATTEMPTS)
