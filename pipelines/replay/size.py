"""Whether a replay is so small that the driver collects its results and writes them itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

from deltalake import DeltaTable

from pipelines.core.model import AnyOf, Grid, Job, Session, Window
from pipelines.core.steps import (
    Applied,
    InputRows,
    Joined,
    Referenced,
    ReferenceRows,
    Rows,
    StepRows,
    Steps,
    United,
    Windowed,
)
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import ReadReference, ReadTable, Writer, WrittenTable

MOST_ROWS = 200_000
"""Of a result, so many rows at most are kept in memory."""


MOST_BYTES = 64 * 2**20
"""Of arrivals, as files; rows may be wide."""


def writer_of(
    job: Job,
    reads: Sequence[ReadTable],
    references: Sequence[ReadReference],
    writes: Sequence[WrittenTable],
    lakehouse: Lakehouse,
) -> Writer:
    """``driver`` iff all results, and what is in the same days of their tables, certainly fit into memory, and every
    table can be written without Spark."""
    events = [table.rows for table in reads]
    if None in events or sum(table.size_bytes for table in reads) > MOST_BYTES:
        return "spark"
    if any(table.replaced_rows is None or table.replaced_rows > MOST_ROWS for table in writes):
        return "spark"
    known = {table.input: table.rows or 0 for table in reads} | {one.reference: one.rows for one in references}
    results = _windows(job, sum(known.values())) if job.steps is None else _rows_of_outputs(job.steps, known)
    if results is None or max(results, sum(known.values())) > MOST_ROWS:
        return "spark"
    return "driver" if all(is_plain(lakehouse.open(one.table)) for one in writes) else "spark"


def _windows(job: Job, events: int) -> int | None:
    """How many windows so many events make at most; None where other events or lifetimes decide."""
    if job.window_query.join is not None or any(part.shape != "point" for part in job.inputs):
        return None
    return events * _windows_of_a_point(job.window_query.window)


def _rows_of_outputs(steps: Steps, known: Mapping[str, int]) -> int | None:
    """How many rows all outputs have at most; ``known``: rows of each input and reference. None: the data decides."""

    @cache
    def most(rows: Rows) -> int | None:
        match rows:
            case InputRows(name) | ReferenceRows(name):
                return known.get(name, 0)
            case StepRows(name):
                return most(steps.step(name))
            case Applied():
                return None
            case Windowed(inner, window=window):
                found = most(inner)
                return None if found is None else found * _windows_of_a_point(window)
            case Joined(left, right) | Referenced(left, right):
                one, other = most(left.rows), most(right.rows)
                return None if one is None or other is None else one * max(other, 1)
            case United(branches):
                return _total([most(one) for one in branches])
            case _:
                return most(rows.rows)

    return _total([most(one.rows) for one in steps.outputs])


def _total(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)


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
