"""Recompute a few windows from the arrivals they hang on, and say which events counted in each.

The reference engine does the work, so an altered log (an event taken out, a punctuation put in) or an altered job gives
what the streaming job would have given. No Spark, unless the job's expressions are more than columns.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.core.errors import UsageError
from pipelines.core.expressions import Evaluate
from pipelines.core.model import Aggregate, Arrival, Column, Fate, Input, Job, OutputRange, WindowRow
from pipelines.core.time import DAY
from pipelines.core.values import grouping_key
from pipelines.job.expressions import instant_sql
from pipelines.lakehouse.arrival_log import LogFile, log_files
from pipelines.lakehouse.arrival_rows import arrival_rows
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.read_range import ReadRange
from pipelines.reference import engine

if TYPE_CHECKING:
    from deltalake import DeltaTable

PLACE = "__place"
_SAME = "__same"
_ROOM = 200_000
"""Arrivals that are read at once, and kept to serve the next questions from."""


@dataclass(frozen=True, slots=True)
class Made:
    """One window result, and the places in the given arrivals of the events that counted in it, in the order in which
    the aggregates saw them; of a join the left events, then the right ones."""

    row: dict[str, object]
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What one run gave: its windows with their members, and every event's fate."""

    windows: tuple[Made, ...]
    fates: tuple[Fate, ...]


class Logs:
    """The arrival logs of a job's inputs, at the newest version or given ones, a stretch at a time."""

    def __init__(self, lakehouse: Lakehouse, versions: Mapping[str, int] | None = None) -> None:
        self._lakehouse = lakehouse
        self._versions = versions or {}
        self._tables: dict[str, DeltaTable] = {}
        self._files: dict[str, list[LogFile]] = {}
        self._held: dict[str, list[tuple[ReadRange, list[Arrival], list[int]]]] = {}

    def table(self, name: str) -> DeltaTable:
        """The opened log of an input; :class:`UsageError` if it has none."""
        if name not in self._tables:
            table = self._lakehouse.open(arrivals_table(name), self._versions.get(arrivals_table(name)))
            if table is None:
                raise UsageError(f"the input {name} has no arrival log in {self._lakehouse.root}")
            self._tables[name] = table
            self._files[name] = log_files(table)
        return self._tables[name]

    def of(self, job: Job, read: ReadRange) -> list[Arrival]:
        """The arrivals of all inputs in ``read``."""
        return [one for part in job.inputs for one in self.of_input(part, read)]

    def of_input(self, part: Input, read: ReadRange) -> list[Arrival]:
        """The arrivals of one input in ``read``, in arrival order."""
        table = self.table(part.name)
        sorted_files = self._held.setdefault(part.name, [])
        held = next((one for one in sorted_files if _within(read, one[0])), None)
        if held is None:
            whole = self._roomy(part.name, read)
            rows = arrival_rows(table, part, whole)
            held = (whole, rows, [one.arrival_time_us for one in rows])
            sorted_files.append(held)
            while len(sorted_files) > 1 and sum(len(rows) for _, rows, _ in sorted_files) > 2 * _ROOM:
                sorted_files.pop(0)
        _, rows, times = held
        first = 0 if read.from_us is None else bisect_left(times, read.from_us)
        last = len(rows) if read.to_us is None else bisect_right(times, read.to_us)
        return rows[first:last]

    def rows_within(self, name: str, read: ReadRange) -> int:
        """At most so many arrivals of an input lie in ``read``."""
        self.table(name)
        return sum(file.rows or 0 for file in self._files[name] if file.may_hold(read.from_us, read.to_us))

    def _roomy(self, name: str, read: ReadRange) -> ReadRange:
        """Whole days around ``read`` where they are small, so that the next question needs no reading."""
        from_us = None if read.from_us is None else read.from_us // DAY * DAY
        to_us = None if read.to_us is None else read.to_us // DAY * DAY + DAY - 1
        days = dataclasses.replace(read, from_us=from_us, to_us=to_us)
        return days if self.rows_within(name, days) <= _ROOM else read


class Remembering:
    """An evaluator of expressions that asks the real one once for each different row."""

    def __init__(self, evaluate: Evaluate | None = None) -> None:
        self._evaluate = evaluate
        self._known: dict[tuple[object, ...], tuple[object, ...]] = {}

    def __call__(
        self, columns: tuple[Column, ...], rows: Sequence[Mapping[str, object]], expressions: Sequence[str]
    ) -> list[tuple[object, ...]]:
        real = tuple(column for column in columns if column.name.rpartition(".")[2] not in (PLACE, _SAME))
        head = (tuple(column.name for column in real), tuple(expressions))
        keys = [(*head, *(repr(row[column.name]) for column in real)) for row in rows]
        unknown = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._known}
        if unknown:
            if self._evaluate is None:
                from pipelines.batch.spark.expressions import SparkExpressions

                self._evaluate = SparkExpressions()
            found = self._evaluate(real, list(unknown.values()), expressions)
            self._known.update(zip(unknown, found, strict=True))
        return [self._known[key] for key in keys]


def recompute(job: Job, arrivals: Sequence[Arrival], output: OutputRange, evaluate: Evaluate) -> Recomputed:
    """Windows (with members) and fates of ``job`` over exactly these arrivals, cut to ``output``."""
    numbered = [_numbered(one, place) for place, one in enumerate(arrivals)]
    outcome = engine.run(_with_places(job), numbered, output, evaluate=evaluate, instant_sql=instant_sql)
    return Recomputed(tuple(_made(row) for row in outcome.windows), outcome.fates)


def window_rows(
    job: Job, arrivals: Sequence[Arrival], output: OutputRange, evaluate: Evaluate
) -> list[dict[str, object]]:
    """The windows of ``job`` over exactly these arrivals, as rows by column name."""
    outcome = engine.run(job, arrivals, output, evaluate=evaluate, instant_sql=instant_sql)
    return [_row(row) for row in outcome.windows]


def same(left: object, right: object) -> bool:
    """Are two values the same result? NaN is NaN, zero is zero, numbers go by value whatever their type."""
    return grouping_key(left) == grouping_key(right)


def same_values(left: Mapping[str, object], right: Mapping[str, object], names: Sequence[str]) -> bool:
    """Are two rows the same in these columns?"""
    return all(same(left.get(name), right.get(name)) for name in names)


def same_rows(
    left: Sequence[Mapping[str, object]], right: Sequence[Mapping[str, object]], names: Sequence[str]
) -> bool:
    """Are two lists the same multiset of rows, in these columns?"""
    if len(left) != len(right):
        return False
    rest = list(right)
    for row in left:
        match = next((index for index, other in enumerate(rest) if same_values(row, other, names)), None)
        if match is None:
            return False
        del rest[match]
    return True


def _with_places(job: Job) -> Job:
    """``job`` with a column more in each input, which numbers its events, and aggregates that collect the numbers."""
    query = job.query
    owners = [f"{query.join.left}.", f"{query.join.right}."] if query.join is not None else [""]
    collects = tuple(Aggregate(f"{PLACE}{index}", "collect", f"{owner}{PLACE}") for index, owner in enumerate(owners))
    return dataclasses.replace(
        job,
        inputs=tuple(_with_place(part) for part in job.inputs),
        query=dataclasses.replace(query, aggregates=(*query.aggregates, *collects)),
    )


def _with_place(part: Input) -> Input:
    columns = (*part.columns, Column(PLACE, "bigint"), Column(_SAME, "int"))
    if part.shape != "edge" or part.match_on:
        return dataclasses.replace(part, columns=columns)
    # an end edge finds its start by all columns that say neither when nor which: the number must not be one of them
    said = {text.strip().lower() for text in (part.timestamp_by, part.end_by, part.edge_by) if text is not None}
    others = tuple(column.name for column in part.columns if column.name.lower() not in said)
    return dataclasses.replace(part, columns=columns, match_on=(*others, _SAME))


def _numbered(one: Arrival, place: int) -> Arrival:
    return dataclasses.replace(one, payload={**one.payload, PLACE: place, _SAME: 0})


def _made(row: WindowRow) -> Made:
    data = _row(row)
    members: list[int] = []
    for name in [name for name in data if name.startswith(PLACE)]:
        found = data.pop(name)
        assert isinstance(found, list)
        members += found
    return Made(data, tuple(dict.fromkeys(members)))


def _row(row: WindowRow) -> dict[str, object]:
    return {
        "window_start": row.window_start_us,
        "window_end": row.window_end_us,
        "window_id": row.window_id,
        **row.values,
    }


def _within(inner: ReadRange, outer: ReadRange) -> bool:
    from_fits = outer.from_us is None or (inner.from_us is not None and inner.from_us >= outer.from_us)
    to_fits = outer.to_us is None or (inner.to_us is not None and inner.to_us <= outer.to_us)
    return from_fits and to_fits
