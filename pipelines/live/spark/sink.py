"""The stream's output: each batch's rows in one commit a table, exactly once.

A commit names the stream and the batch (a Delta transaction), so a batch that is repeated after a crash is not written
twice. Provisional rows, what the end of the log would give, share the ``emitted_at`` that the commit's metadata names;
the next commit removes them and adds its own rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from pipelines.core.model import Job
from pipelines.core.time import format_instant, from_datetime
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.live.state.output import Values, count

_MARK = "stream"


def stream_windows_table(job: Job) -> str:
    """``stream_windows/<job>``"""
    return f"stream_windows/{job.name}"


def stream_verdicts_table(job: Job) -> str:
    """``stream_verdicts/<job>``"""
    return f"stream_verdicts/{job.name}"


def stream_outputs_table(job: Job, output: str) -> str:
    """``stream_outputs/<job>/<output>``"""
    return f"stream_outputs/{job.name}/{output}"


@dataclass(frozen=True)
class LiveTable:
    """One table of the stream: ``day`` is the column it is partitioned by, the UTC date of ``time``."""

    lakehouse: Lakehouse
    name: str
    schema: pa.Schema
    time: str
    day: str
    generation: int
    application: str

    def write(self, batch: int, final: Sequence[Values], provisional: Sequence[Values], *, advanced: bool) -> None:
        """The rows of a batch by the column: those of ``schema`` but ``emitted_at`` and ``day``, or none for no rows.

        ``advanced`` False: nothing was decided, and the provisional rows in the table are still right.
        """
        table = self.lakehouse.open(self.name)
        done = None if table is None else table.transaction_version(self.application)
        if done is not None and done >= batch:
            return
        last = None if table is None else _last(table)
        stale = last is None or int(last["generation"]) != self.generation
        if not stale and not advanced:
            return
        emitted = from_datetime(datetime.now(UTC))
        if last is not None and last.get("provisional_at"):
            emitted = max(emitted, int(last["provisional_at"]) + 1)
        old = None if last is None or stale else last.get("provisional_at")
        if not stale and not old and not count(final) and not count(provisional):
            return
        data = pa.concat_tables([self._arrow(final, emitted), self._arrow(provisional, emitted + 1)])
        metadata = {
            "tailrace": _MARK,
            "generation": str(self.generation),
            "batch": str(batch),
            "provisional_at": str(emitted + 1) if count(provisional) else "",
        }
        commit = CommitProperties(custom_metadata=metadata, app_transactions=[Transaction(self.application, batch)])
        if table is None:
            self.lakehouse.create(self.name, data, mode="error", partition_by=[self.day], commit_properties=commit)
        elif stale:
            write_deltalake(table, data, mode="overwrite", schema_mode="overwrite", commit_properties=commit)
        elif not old:
            write_deltalake(table, data, mode="append", partition_by=[self.day], commit_properties=commit)
        else:
            # the rows' own times are in the predicate because what is written must match it
            times = " OR ".join(f"emitted_at = '{format_instant(time)}'" for time in (int(old), emitted, emitted + 1))
            write_deltalake(table, data, mode="overwrite", predicate=times, commit_properties=commit)

    def _arrow(self, columns: Sequence[Values], emitted: int) -> pa.Table:
        length = count(columns)
        given = [*(columns or [()] * (len(self.schema) - 2)), pa.repeat(emitted, length)]
        arrays = [_array(column, field.type) for column, field in zip(given, self.schema, strict=False)]
        days = arrays[self.schema.get_field_index(self.time)].cast(pa.date32())
        return pa.Table.from_arrays([*arrays, days], schema=self.schema)


def _array(values: Values, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    return values.cast(kind) if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, kind)


def table_schema(columns: Sequence[tuple[str, pa.DataType]], day: str) -> pa.Schema:
    """``columns``, then ``emitted_at``, then the day."""
    return pa.schema([*columns, ("emitted_at", TIMESTAMP), (day, pa.date32())])


def _last(table: DeltaTable) -> dict[str, Any] | None:
    """The metadata of the stream's own last commit."""
    for commit in table.history():
        if commit.get("tailrace") == _MARK:
            return commit
    return None
