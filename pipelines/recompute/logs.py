"""Arrivals for the reference engine: a range of the logs at a time, kept for the next question. No Spark."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from pipelines.core.errors import UsageError
from pipelines.core.model import Arrival, Input, Job, OutputRange
from pipelines.core.time import DAY
from pipelines.lakehouse.arrival_log import LogFile, log_files
from pipelines.lakehouse.arrival_rows import arrival_rows
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.bounded_reads import BoundedReads
from pipelines.plan.read_range import ReadRange
from pipelines.replay.builder import LogReads

if TYPE_CHECKING:
    from deltalake import DeltaTable

_AT_ONCE = 200_000
"""Arrivals up to which whole days are read; twice as many of an input are kept."""


class Logs:
    """The arrival logs of a lakehouse, each at the version at which it was asked for first."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self._lakehouse = lakehouse
        self._tables: dict[str, DeltaTable] = {}
        self._files: dict[str, list[LogFile]] = {}
        self._kept: dict[str, list[tuple[ReadRange, list[Arrival], list[int]]]] = {}
        self._reads: dict[Job, LogReads] = {}

    def table(self, name: str) -> DeltaTable:
        """The opened log of an input; :class:`UsageError` if it has none."""
        if name not in self._tables:
            table = self._lakehouse.open(arrivals_table(name))
            if table is None:
                raise UsageError(f"the input {name} has no arrival log in {self._lakehouse.root}")
            self._tables[name] = table
            self._files[name] = log_files(table)
        return self._tables[name]

    def versions(self, job: Job) -> dict[str, int]:
        """The version of each input's log."""
        return {part.name: self.table(part.log).version() for part in job.inputs}

    def bounded_reads(self, job: Job, output: OutputRange) -> BoundedReads:
        """What a replay of ``output`` reads of these logs: see :class:`pipelines.replay.builder.LogReads`."""
        if job not in self._reads:
            self._reads[job] = LogReads(job, self._lakehouse, as_of=self.versions(job))
        return self._reads[job].of(output)

    def arrivals(self, job: Job, read: ReadRange) -> list[Arrival]:
        """The arrivals of all inputs in ``read``."""
        return [one for part in job.inputs for one in self._of_input(part, read)]

    def count(self, job: Job, read: ReadRange) -> int:
        """An upper bound of how many arrivals are in ``read``, from the statistics of the files."""
        return sum(self._count(part.log, read) for part in job.inputs)

    def _of_input(self, part: Input, read: ReadRange) -> list[Arrival]:
        """The arrivals of one input in ``read``, in arrival order."""
        table = self.table(part.log)
        kept = self._kept.setdefault(part.name, [])
        found = next((one for one in kept if _within(read, one[0])), None)
        if found is None:
            whole = self._whole_days(part.log, read)
            rows = arrival_rows(table, part, whole)
            found = (whole, rows, [one.arrival_time_us for one in rows])
            kept.append(found)
            while len(kept) > 1 and sum(len(rows) for _, rows, _ in kept) > 2 * _AT_ONCE:
                kept.pop(0)
        _, rows, times = found
        first = 0 if read.from_us is None else bisect_left(times, read.from_us)
        last = len(rows) if read.to_us is None else bisect_right(times, read.to_us)
        return rows[first:last]

    def _count(self, name: str, read: ReadRange) -> int:
        self.table(name)
        return sum(file.rows or 0 for file in self._files[name] if file.may_contain(read.from_us, read.to_us))

    def _whole_days(self, name: str, read: ReadRange) -> ReadRange:
        """The days that ``read`` touches where they are small, so that the next question needs no reading."""
        from_us = None if read.from_us is None else read.from_us // DAY * DAY
        to_us = None if read.to_us is None else read.to_us // DAY * DAY + DAY - 1
        days = dataclasses.replace(read, from_us=from_us, to_us=to_us)
        return days if self._count(name, days) <= _AT_ONCE else read


def _within(inner: ReadRange, outer: ReadRange) -> bool:
    from_fits = outer.from_us is None or (inner.from_us is not None and inner.from_us >= outer.from_us)
    to_fits = outer.to_us is None or (inner.to_us is not None and inner.to_us <= outer.to_us)
    return from_fits and to_fits
