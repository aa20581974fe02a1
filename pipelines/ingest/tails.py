"""The last record of each input partition of an arrival log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from pipelines.ingest.order import Tail
from pipelines.lakehouse.arrival_log import FOR_ALL, LogFile, log_files

if TYPE_CHECKING:
    import pyarrow.dataset as ds


class Tails:
    """The last record of each input partition, read from as few files as possible, newest first.

    Inside a partition arrival times never fall, so once a record of it is known, no file that ends before that
    record's arrival can have a later one.
    """

    def __init__(self, table: DeltaTable | None) -> None:
        self._table = table
        files = log_files(table) if table is not None else []
        far_us = 1 << 62
        self._files = sorted(files, key=lambda file: -(far_us if file.last_us is None else file.last_us))
        self._read: set[str] = set()
        self._known: dict[int, Tail] = {}
        self._fragments: dict[str, ds.Fragment] | None = None

    def of(self, partition: int) -> Tail | None:
        """The last record of ``partition``, or None where the log has none."""
        for file in self._files:
            known = self._known.get(partition)
            if known is not None and file.last_us is not None and file.last_us < known.arrival_time_us:
                break
            if file.path not in self._read and file.may_contain_partition(partition):
                self._load(file)
        return self._known.get(partition)

    def _load(self, file: LogFile) -> None:
        if self._fragments is None:
            assert self._table is not None
            fragments = self._table.to_pyarrow_dataset().get_fragments()
            self._fragments = {fragment.path: fragment for fragment in fragments}
        rows = self._fragments[file.path].to_table(columns=["input_partition", "sequence", "arrival_time"])
        rows = rows.set_column(2, "arrival_time", rows["arrival_time"].cast(pa.int64()))
        last = rows.group_by("input_partition").aggregate([("sequence", "max"), ("arrival_time", "max")])
        for row in last.to_pylist():
            part = FOR_ALL if row["input_partition"] is None else row["input_partition"]
            sequence, arrival_us = row["sequence_max"], row["arrival_time_max"]
            before = self._known.get(part, Tail(sequence, arrival_us))
            self._known[part] = Tail(max(before.sequence, sequence), max(before.arrival_time_us, arrival_us))
        self._read.add(file.path)
