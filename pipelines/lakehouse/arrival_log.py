"""What the Delta log knows about an arrival log: files, rows, bytes, times. No Spark, and no data but a log's tail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from pipelines.core.time import DAY, MILLISECOND, date_of, day_of, from_datetime
from pipelines.lakehouse.arrow import plain_rows, read_stream

FOR_ALL = -1
"""In place of the null partition of a punctuation for all partitions."""

_CUT_US = MILLISECOND - 1
"""Statistics have whole milliseconds: a true maximum may be this much above theirs."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One data file. Times are bounds: the first is cut down to the millisecond, the last up; None: not known."""

    path: str
    size_bytes: int
    rows: int | None
    arrival_day: int | None
    first_us: int | None
    last_us: int | None
    partitions: tuple[int, int] | None
    null_partitions: bool

    @property
    def lies_in_its_day(self) -> bool:
        """Whether the path alone gives the day: Delta's writers name files so, but need not."""
        if self.arrival_day is None:
            return False
        return re.fullmatch(f"arrival_date={date_of(self.arrival_day).isoformat()}/[^/%]+", self.path) is not None

    def may_contain(self, from_us: int | None, to_us: int | None) -> bool:
        """Whether an arrival in ``[from_us, to_us]`` can be in this file."""
        first_us, last_us = self.first_us, self.last_us
        if self.arrival_day is not None:
            day_us = self.arrival_day * DAY
            first_us = day_us if first_us is None else first_us
            last_us = day_us + DAY - 1 if last_us is None else last_us
        return (from_us is None or last_us is None or last_us >= from_us) and (
            to_us is None or first_us is None or first_us <= to_us
        )

    def may_contain_partition(self, partition: int) -> bool:
        """Whether a record of this input partition can be in this file."""
        if partition == FOR_ALL:
            return self.null_partitions
        return self.partitions is None or self.partitions[0] <= partition <= self.partitions[1]


def data_files(table: DeltaTable, columns: Sequence[str]) -> list[dict[str, Any]]:
    """What the Delta log has of each data file, in those of ``columns`` that it has at all."""
    actions = read_stream(table.get_add_actions(flatten=True))
    return plain_rows(actions.select([name for name in columns if name in actions.column_names]))


def log_files(table: DeltaTable) -> list[LogFile]:
    """All data files of an arrival log at the version it was opened at."""
    return [_file(row) for row in data_files(table, _COLUMNS)]


def missing_files(table: DeltaTable, paths: Sequence[str]) -> list[str]:
    """Those of the table's data files that are no longer in the store: an older version's, once it is vacuumed."""
    files = pafs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
    return [one.path for one in files.get_file_info(list(paths)) if one.type == pafs.FileType.NotFound]


def shows_all_rows(table: DeltaTable) -> bool:
    """Whether the files are all of the table: no row of them is masked, no column is renamed."""
    return bool(table.protocol().min_reader_version <= 1)


def end_of_log(files: list[LogFile]) -> int | None:
    """The last arrival time in microseconds, cut down to the millisecond; None for an empty or unmeasured log."""
    ends = [file.last_us - _CUT_US for file in files if file.last_us is not None]
    return max(ends) if ends else None


_COLUMNS = (
    "path",
    "size_bytes",
    "num_records",
    "partition.arrival_date",
    "min.arrival_time",
    "max.arrival_time",
    "min.input_partition",
    "max.input_partition",
    "null_count.input_partition",
)


def _file(row: dict[str, Any]) -> LogFile:
    first, last, day = row.get("min.arrival_time"), row.get("max.arrival_time"), row.get("partition.arrival_date")
    low, high = row.get("min.input_partition"), row.get("max.input_partition")
    rows, size, nulls = row.get("num_records"), row["size_bytes"], row.get("null_count.input_partition")
    assert isinstance(size, int)
    return LogFile(
        path=str(row["path"]),
        size_bytes=size,
        rows=rows if isinstance(rows, int) else None,
        arrival_day=day_of(day) if isinstance(day, date) else None,
        first_us=from_datetime(first) if isinstance(first, datetime) else None,
        last_us=from_datetime(last) + _CUT_US if isinstance(last, datetime) else None,
        partitions=(low, high) if isinstance(low, int) and isinstance(high, int) else None,
        null_partitions=nulls != 0,
    )
