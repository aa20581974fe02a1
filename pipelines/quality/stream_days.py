"""What the live run wrote, day by day, from the table's log alone where it is laid out by day."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.core.errors import UsageError
from pipelines.core.model import Job
from pipelines.core.time import DAY, to_datetime
from pipelines.lakehouse.layout import WINDOWS, OutputTable
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP

_DAY = f"partition.{WINDOWS.day}"


@dataclass(frozen=True, slots=True)
class StreamDay:
    """One UTC day of the live run's results. ``identity`` changes when its files do; None rows: not counted."""

    day: date
    rows: int | None
    identity: str


def stream_days(lakehouse: Lakehouse, job: Job, one: OutputTable) -> list[StreamDay]:
    """The days of the live table of an output, oldest first; nothing where it was never written.

    A table that is not partitioned by ``output_date`` is read, the time column only, and all of its days change
    together.
    """
    table = lakehouse.open(one.live)
    if table is None:
        return []
    files = pa.table(table.get_add_actions(flatten=True))
    if _DAY in files.column_names:
        return _by_partition(files)
    theirs = {ours: name for name, ours in job.stream_columns}
    return _by_rows(table, theirs.get(one.layout.time, one.layout.time))


def is_streamed(lakehouse: Lakehouse, one: OutputTable) -> bool:
    """Whether there is a live run's table to look at; of a name in a catalog that is taken on trust."""
    try:
        return lakehouse.open(one.live) is not None
    except UsageError:
        return True


def _by_partition(files: pa.Table) -> list[StreamDay]:
    days: dict[date, list[tuple[str, int | None]]] = defaultdict(list)
    for row in files.select(["path", "num_records", _DAY]).to_pylist():
        if row[_DAY] is not None:
            days[row[_DAY]].append((row["path"], row["num_records"]))
    return [StreamDay(day, _total([rows for _, rows in held]), _hash(held)) for day, held in sorted(days.items())]


def _by_rows(table: DeltaTable, column: str) -> list[StreamDay]:
    times = table.to_pyarrow_dataset().to_table(columns=[column])[column]
    counts: dict[date, int] = defaultdict(int)
    for item in pc.value_counts(times.cast(TIMESTAMP).cast(pa.int64())).to_pylist():
        if item["values"] is not None:
            counts[to_datetime(item["values"] // DAY * DAY).date()] += item["counts"]
    return [StreamDay(day, rows, f"version {table.version()}") for day, rows in sorted(counts.items())]


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _hash(held: list[tuple[str, int | None]]) -> str:
    return hashlib.sha256("\n".join(sorted(path for path, _ in held)).encode()).hexdigest()
