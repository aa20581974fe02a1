"""Whether a replay is so little that the driver takes its results from Spark and writes them itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from pipelines.core.model import AnyOf, Grid, Job, Session, Window
from pipelines.lakehouse.layout import result_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import Plan

if TYPE_CHECKING:
    pass


MOST_ROWS = 200_000
"""Of a result, so many rows at most are held in memory."""


MOST_BYTES = 64 * 2**20
"""Of arrivals, as files; rows may be wide."""


def fits_driver(job: Job, plan: Plan, lakehouse: Lakehouse) -> bool:
    """Whether all that the plan gives, and what lies beside it in the same days, certainly fits into memory, and every
    table can be written without Spark."""
    events = [table.rows for table in plan.reads]
    if None in events or sum(table.size_bytes for table in plan.reads) > MOST_BYTES:
        return False
    if any(table.replaced_rows is None or table.replaced_rows > MOST_ROWS for table in plan.writes):
        return False
    each = _windows_of_an_event(job)
    if each is None or sum(rows for rows in events if rows is not None) * max(each, 1) > MOST_ROWS:
        return False
    return all(is_plain(lakehouse.open(name)) for name, _ in result_tables(job))


def _windows_of_an_event(job: Job) -> int | None:
    """How many rows of windows one event can make at most; None where that hangs on others, or on how long it lasts."""
    if job.query.join is not None or any(part.shape != "point" for part in job.inputs):
        return None
    return _windows_of_a_point(job.query.window)


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
    """Whether a table, if it is there, can be written without Spark."""
    return table is None or table.protocol().min_writer_version <= 2
