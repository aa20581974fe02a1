"""Keep arrival logs in few files: what many small batches brought of a day becomes one file, sorted by arrival time.

A replay opens every file of its days, so its cost must not grow with the number of batches. Compaction is a commit of
its own that marks every file as unchanged rows (``dataChange`` false): the live run passes over it, nothing becomes
stale, older versions can still be read, because the files that it replaces stay where they are. A process killed
meanwhile leaves the log as it was; whoever ingests next does what is still to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import ColumnProperties, CommitProperties, DeltaTable, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from pipelines.core.time import date_of
from pipelines.lakehouse.arrival_log import LogFile, log_files

SMALL_BYTES = 4 * 2**20
"""A file of at least so many bytes is left alone: rewriting costs more than opening."""
MOST_SMALL = 16
"""So many small files a day may have while it grows."""
MOST_SMALL_CLOSED = 4
"""And when a later day has begun."""
SORTED_BYTES = 64 * 2**20
"""A day of no more than that is sorted as a whole; of a bigger one, neighbouring small files are put together."""
DAYS_AT_ONCE = 8
_WORTH = 8
"""A day is sorted as a whole only if an eighth of it is in small files: so no row is rewritten often."""

ROWS_A_GROUP = 128 * 1024
ROWS_A_PAGE = 8 * 1024
"""Row groups and pages of hours and minutes rather than of days: an hour's replay reads no more than that."""
COMPACTION = "compaction"
"""The value of ``tailrace`` in the metadata of such a commit."""


def file_layout(schema: pa.Schema) -> WriterProperties:
    """How data files of a log with these columns are written.

    Instants, doubles and long integers seldom repeat: as dictionaries they take more room, and several times longer to
    read.
    """
    plain = ColumnProperties(dictionary_enabled=False)
    return WriterProperties(
        max_row_group_size=ROWS_A_GROUP,
        data_page_row_count_limit=ROWS_A_PAGE,
        column_properties={column.name: plain for column in schema if seldom_repeats(column.type)},
    )


def seldom_repeats(kind: pa.DataType) -> bool:
    """Whether a column of this type is written without a dictionary."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_floating(kind) or pa.types.is_int64(kind))


@dataclass(frozen=True, slots=True)
class Compacted:
    """Days that were put into fewer files, and, in sentences, why others were not."""

    days: int = 0
    warnings: tuple[str, ...] = ()


def compact(log: DeltaTable) -> Compacted:
    """Put days of ``log``, opened at its newest version, that are in many small files into few; never raises for them.

    A day of the log is closed when a later one has begun. At most :data:`DAYS_AT_ONCE` days, the newest first: the
    rest are left to the next call.
    """
    by_day: dict[int, list[LogFile]] = defaultdict(list)
    for file in log_files(log):
        if file.arrival_day is not None:
            by_day[file.arrival_day].append(file)
    newest = max(by_day, default=0)
    crowded = [day for day in sorted(by_day, reverse=True) if _is_crowded(by_day[day], closed=day < newest)]
    done, warnings = 0, []
    for day in crowded[:DAYS_AT_ONCE]:
        try:
            _rewrite(log, day, by_day[day])
            done += 1
        except (CommitFailedError, DeltaError) as error:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            warnings.append(f"{_name(day)} stays in {len(by_day[day])} files until the next batch: {why}")
            log.update_incremental()
    return Compacted(done, tuple(warnings))


def is_compaction(commit: dict[str, object]) -> bool:
    """Whether an entry of a log's history changed no row."""
    return commit.get("tailrace") == COMPACTION


def _is_crowded(files: Sequence[LogFile], *, closed: bool) -> bool:
    small = [file for file in files if file.size_bytes < SMALL_BYTES]
    return len(small) > (MOST_SMALL_CLOSED if closed else MOST_SMALL)


def _rewrite(log: DeltaTable, day: int, files: Sequence[LogFile]) -> None:
    """One commit; ``log`` is then at its version."""
    only = [("arrival_date", "=", _name(day))]
    layout = file_layout(pa.schema(log.schema()))
    about = CommitProperties(custom_metadata={"tailrace": COMPACTION, "arrival_date": _name(day)})
    total = sum(file.size_bytes for file in files)
    small = sum(file.size_bytes for file in files if file.size_bytes < SMALL_BYTES)
    if total <= SORTED_BYTES and small * _WORTH >= total:
        # of one column alone, Z-order is plain order
        log.optimize.z_order(
            ["arrival_time"], partition_filters=only, writer_properties=layout, commit_properties=about
        )
    else:
        log.optimize.compact(
            partition_filters=only, target_size=2 * SMALL_BYTES, writer_properties=layout, commit_properties=about
        )


def _name(day: int) -> str:
    return date_of(day).isoformat()
