"""Whether a replay is so small that the driver collects its results and writes them itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from deltalake import DeltaTable

from pipelines.core.model import AnyOf, Grid, Job, OutputRange, Session, Window
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
from pipelines.core.time import DAY, HOUR, MAX_INSTANT_US, MIN_INSTANT_US
from pipelines.lakehouse.arrival_log import LogFile
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import Plan, ReadReference, ReadTable, Writer, WrittenTable

MOST_ROWS = 200_000
"""Of a result, so many rows at most are kept in memory."""


MOST_ROWS_OF_A_SLICE = 100_000_000
"""So many arrivals a run computes at once: shuffles and what is kept of them take local disk."""

TASK_BYTES = 8 * 2**20
"""Of arrivals, as files, for one task after a shuffle: so the memory of a task does not grow with the log."""

MOST_BYTES = 64 * 2**20
"""Of arrivals, as files; rows may be wide."""


def tasks_of(plan: Plan) -> int:
    """How many tasks a shuffle of the arrivals needs, so that each has little enough for its memory."""
    return math.ceil(plan.size_bytes / TASK_BYTES)


def slice_ends(files: Sequence[LogFile], output: OutputRange, slices: int) -> list[int]:
    """Instants that cut ``output`` into so many slices of about the same number of arrivals, or fewer.

    They are midnights, because tables are partitioned by day; whole hours where there are more slices than days.
    Rising, in microseconds.
    """
    days = [file.arrival_day for file in files if file.arrival_day is not None]
    step_us = DAY if len(set(days)) >= slices else HOUR
    from_us = MIN_INSTANT_US if output.from_us is None else output.from_us
    to_us = MAX_INSTANT_US if output.to_us is None else output.to_us
    arrivals = Counter[int]()
    for file in files:
        if file.first_us is None or file.last_us is None:
            continue
        first_us, last_us = max(file.first_us, from_us), min(file.last_us, to_us)
        steps = range(first_us // step_us, last_us // step_us + 1)
        if not steps:
            continue
        share, rest = divmod(file.rows or 0, len(steps))
        arrivals.update(dict.fromkeys(steps, share) | {steps[0]: share + rest})
    ends: list[int] = []
    arrived, total = 0, arrivals.total()
    for step in sorted(arrivals):
        arrived += arrivals[step]
        end_us = (step + 1) * step_us
        if end_us < to_us and total * (len(ends) + 1) <= arrived * slices < total * slices:
            ends.append(end_us)
    return ends


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
