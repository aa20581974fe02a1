"""Records whose sequence was taken before: duplicates where the payload is the same, refused where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.ingest.readers import Refused
from pipelines.ingest.records import JudgedRows

_KEY = ("input_partition", "sequence")
_WHAT = ("kind", "punctuation_time")
_Key = tuple[int | None, int]


class Repeats:
    """The repeated records of a batch. ``payload`` are the columns that tell a duplicate from another record."""

    def __init__(self, payload: Sequence[str]) -> None:
        self._columns = [*_KEY, *_WHAT, *payload]
        self._found: dict[_Key, list[tuple[str, Refused]]] = {}

    def add(self, judged: JudgedRows) -> None:
        """Keep a chunk's repeated records."""
        if not judged.repeats:
            return
        for (key, what), refused in zip(self._rows(judged.repeated), judged.repeats, strict=True):
            self._found.setdefault(key, []).append((what, refused))

    def settle(self, log: DeltaTable | None, taken: Iterable[pa.Table]) -> tuple[int, list[Refused]]:
        """How many are duplicates of what the log, or the batch itself, has taken; and the others, refused."""
        if not self._found:
            return 0, []
        known = dict(self._known(log, taken))
        duplicates, refused = 0, []
        for key, records in self._found.items():
            for what, record in records:
                if known.get(key) == what:
                    duplicates += 1
                else:
                    refused.append(record)
        return duplicates, refused

    def _known(self, log: DeltaTable | None, taken: Iterable[pa.Table]) -> Iterator[tuple[_Key, str]]:
        sequences = pa.array(sorted({sequence for _, sequence in self._found}), pa.int64())
        if log is not None:
            there = log.to_pyarrow_dataset()
            columns = [name for name in self._columns if name in there.schema.names]
            rows = there.to_table(columns=columns, filter=pc.field("sequence").isin(sequences))
            for name in self._columns:
                if name not in columns:  # a column that the input has since
                    rows = rows.append_column(name, pa.nulls(len(rows)))
            yield from (row for row in self._rows(rows) if row[0] in self._found)
        for rows in taken:
            rows = rows.filter(pc.is_in(rows["sequence"], value_set=sequences))
            yield from (row for row in self._rows(rows) if row[0] in self._found)

    def _rows(self, rows: pa.Table) -> Iterator[tuple[_Key, str]]:
        """The key of each row, and the text of what it contains: NaN is NaN there."""
        columns = [rows[name].to_pylist() for name in self._columns]
        for partition, sequence, *what in zip(*columns, strict=True):
            yield (partition, sequence), repr(what)
