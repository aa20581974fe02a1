"""Whether a replay is so small that the driver collects its results and writes them itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deltalake import DeltaTable

from pipelines.core.model import AnyOf, Grid, Job, Session, Window
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import ReadTable, Writer, WrittenTable

MOST_ROWS = 200_000
"""Of a result, so many rows at most are held in memory."""


MOST_BYTES = 64 * 2**20
"""Of arrivals, as files; rows may be wide."""


def writer_of(job: Job, reads: Sequence[ReadTable], writes: Sequence[WrittenTable], lakehouse: Lakehouse) -> Writer:
    """``driver`` iff all results, and what is in the same days of their tables, certainly fit into memory, and every
    table can be written without Spark."""
    events = [table.rows for table in reads]
    if None in events or sum(table.size_bytes for table in reads) > MOST_BYTES:
        return "spark"
    if any(table.replaced_rows is None or table.replaced_rows > MOST_ROWS for table in writes):
        return "spark"
    each = _windows_of_an_event(job)
    if each is None or sum(rows for rows in events if rows is not None) * max(each, 1) > MOST_ROWS:
        return "spark"
    return "driver" if all(is_plain(lakehouse.open(one.table)) for one in writes) else "spark"


def _windows_of_an_event(job: Job) -> int | None:
    """How many window rows one event makes at most; None where other events or its lifetime decide."""
    if job.window_query.join is not None or any(part.shape != "point" for part in job.inputs):
        return None
    return _windows_of_a_point(job.window_query.window)


def _windows_of_a_point(window: Window) -> int:
    match window:
        case AnyOf():
            return sum(_windows_of_a_point(member) for _, member in window.members)
        case Grid():
            return math.ceil(window.size_us / window.hop_us)
        case Session():
            return 1
        case _:
            # a result changes when an event comes and when it goes
            return 2


def is_plain(table: DeltaTable | None) -> bool:
    """Whether a table can be written without Spark."""
    return table is None or table.protocol().min_writer_version <= 2
