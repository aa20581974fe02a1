"""The outputs of a query of steps over one slice of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Input, Job
from pipelines.core.steps import (
    EVENT_COLUMNS,
    SYSTEM_TIMESTAMP,
    Analysed,
    Applied,
    Filtered,
    Gathered,
    InputRows,
    Joined,
    Projected,
    Referenced,
    ReferenceRows,
    Rows,
    StepRows,
    Steps,
    United,
    Windowed,
    children_of,
)
from pipelines.core.time import format_instant
from pipelines.lakehouse.schema import TIMESTAMP, arrow_type
from pipelines.live.state.arrivals import Place
from pipelines.live.state.columns import whole
from pipelines.live.state.output import MISSED, Slice
from pipelines.live.state.rows import NEVER
from pipelines.live.steps.analytic import analysed
from pipelines.live.steps.expressions import Evaluate
from pipelines.live.steps.joins import gathered, joined, referenced
from pipelines.live.steps.relation import EVENT, REFERENCE, Relation
from pipelines.live.steps.row_by_row import applied, filtered, projected, united
from pipelines.live.steps.windows import windowed
from pipelines.plan.extent import extent_of

Range = tuple[int, int]
"""``[first, until)`` in microseconds."""


def outputs(job: Job, given: Slice, references: Mapping[str, pa.Table], evaluate: Evaluate) -> dict[str, Relation]:
    """The rows of each output in ``[given.low, given.high)``.

    ``references``: the columns of each reference, and ``effective_from`` (null: always), in the order of its file.
    Raises :class:`JobFileError` for an expression that Spark refuses, :class:`DataRefused` for data that cannot be
    computed with.
    """
    assert job.steps is not None
    computed = _Computed(job, job.steps, given, references, evaluate)
    computed.compute_steps()
    return {one.name: computed.relation(one.rows, (given.low, given.high)) for one in job.steps.outputs}


def shown(rows: Relation) -> pa.Table:
    """A relation as an output's table shows it: system_timestamp; window_start, window_end, window_id where its rows
    stem from windows; then its columns, which hide those of their name."""
    heads = {SYSTEM_TIMESTAMP: rows.timestamps}
    if "window_start" in rows.origin:
        heads |= rows.origin
    own = {name.lower() for name in rows.columns}
    return pa.table({**{name: column for name, column in heads.items() if name not in own}, **rows.columns})


@dataclass
class _Computed:
    """The relations of one slice; each step is computed once, over all that is read of it (Q2)."""

    job: Job
    steps: Steps
    given: Slice
    references: Mapping[str, pa.Table]
    evaluate: Evaluate
    named: dict[str, Relation] = field(default_factory=dict)
    missed: dict[Place, frozenset[int]] = field(default_factory=dict)
    """The starts of the windows that events came too late for (A5)."""

    def compute_steps(self) -> None:
        """Compute the steps that outputs read; a step reads earlier ones only (Q1)."""
        wanted = ranges(self.steps, (self.given.low, self.given.high))
        for one in self.steps.steps:
            if one.name in wanted:
                self.named[one.name] = self.relation(one.rows, wanted[one.name])

    def relation(self, rows: Rows, wanted: Range) -> Relation:
        """The rows of a relation whose time lies in the range."""
        inner, evaluate = _range_below(rows, wanted), self.evaluate
        match rows:
            case InputRows(name):
                found = self._input(name)
            case StepRows(name):
                found = self.named[name]
            case Filtered(source, condition):
                found = filtered(self.relation(source, inner), condition, evaluate)
            case Projected(source, columns):
                found = projected(self.relation(source, inner), columns, evaluate)
            case Applied(source):
                found = applied(self.relation(source, inner), rows, evaluate)
            case Analysed(source, functions):
                found = analysed(self.relation(source, inner), functions, evaluate)
            case Windowed(source):
                source_rows = self.relation(source, inner)
                by_start = self.job.profile == "atlas" and source_rows.kind == EVENT
                missed = self.missed if by_start else None
                found = windowed(source_rows, rows, wanted, missed, self.given.settled_by, evaluate)
            case Joined(left, right):
                sides = self.relation(left.rows, inner), self.relation(right.rows, inner)
                found = joined(*sides, rows, self.given.settled_by, evaluate)
            case Referenced(side):
                found = self._referenced(self.relation(side.rows, inner), rows)
            case United(branches):
                found = united([self.relation(one, inner) for one in branches])
            case ReferenceRows() | Gathered():
                raise UsageError("reference data has no time of its own", hint="join a stream with it")
        return found.between(*wanted)

    def _input(self, name: str) -> Relation:
        part = self.job.input(name)
        rows = self.given.rows[name] if name in self.given.rows else _no_rows(part)
        arrival, partition, sequence, rank = (whole(rows[f"arrived{index}"], 0) for index in range(4))
        start = whole(rows["start"], NEVER)
        order = np.lexsort((sequence, partition, rank, arrival, start))
        rows = rows.take(order)
        places = list(zip(*(one[order].tolist() for one in (arrival, rank, partition, sequence)), strict=True))
        missed = zip(places, rows[MISSED].to_pylist(), strict=True)
        self.missed |= {place: frozenset(starts) for place, starts in missed if starts is not None}
        kinds = (TIMESTAMP, pa.int32(), pa.int64())
        at = zip(EVENT_COLUMNS, (rows[f"arrived{index}"] for index in range(3)), kinds, strict=True)
        origin = {column: values.cast(kind) for column, values, kind in at}
        payload = {column.name: rows[f"v{index}"] for index, column in enumerate(part.columns)}
        orders = [(place, ()) for place in places]
        return Relation(start[order].tolist(), orders, {**payload, **origin}, origin, EVENT)

    # -- reference data -----------------------------------------------------------------------------------------------

    def _referenced(self, rows: Relation, step: Referenced) -> Relation:
        name = self._reference_name(step.reference.rows)
        snapshots = sorted(set(self._reference_rows(name).times))
        times = rows.times
        if self.job.reference(name).time == "arrival":
            if rows.kind != EVENT:
                raise UsageError(f"'{name}' is looked up by arrival time, which a row of several events does not have")
            times = [place[0] for place, _ in rows.orders]

        def check(place: int) -> None:
            # rows before the slice are there to be looked back at
            if self.job.reference(name).effective is not None and rows.times[place] >= self.given.low:
                first = f"the first one is of {format_instant(snapshots[0])}" if snapshots else "there is none"
                raise DataRefused(
                    f"reference '{name}' has no snapshot for a row of {format_instant(times[place])}: {first}",
                    hint="ingest an earlier snapshot",
                )

        return referenced(rows, self._reference(step.reference.rows), step, snapshots, times, check, self.evaluate)

    def _reference(self, rows: Rows) -> Relation:
        match rows:
            case ReferenceRows(name):
                return self._reference_rows(name)
            case StepRows(name):
                return self._reference(self.steps.step(name))
            case Filtered(source, condition):
                return filtered(self._reference(source), condition, self.evaluate)
            case Projected(source, columns):
                return projected(self._reference(source), columns, self.evaluate)
            case Gathered(source):
                return gathered(self._reference(source), rows, self.evaluate)
            case _:
                raise UsageError("reference data is only filtered and projected", hint="join a stream with it first")

    def _reference_rows(self, name: str) -> Relation:
        table = self.references[name]
        since = table["effective_from"].cast(pa.int64()).to_pylist()
        columns = {column.name: table[column.name] for column in self.job.reference(name).columns}
        orders = [((), (position,)) for position in range(len(table))]
        return Relation.sorted([NEVER if one is None else one for one in since], orders, columns, {}, REFERENCE)

    def _reference_name(self, rows: Rows) -> str:
        """The reference data that a relation is made of (Q18)."""
        while not isinstance(rows, ReferenceRows):
            rows = self.steps.step(rows.step) if isinstance(rows, StepRows) else children_of(rows)[0]
        return rows.reference


def _no_rows(part: Input) -> pa.Table:
    """No rows of an input, as a slice has them."""
    numbers = [(column, pa.int64()) for column in ("start", "arrived0", "arrived1", "arrived2", "arrived3")]
    values = [(f"v{index}", arrow_type(column.type)) for index, column in enumerate(part.columns)]
    return pa.schema([*numbers, *values, (MISSED, pa.list_(pa.int64()))]).empty_table()


def ranges(steps: Steps, wanted: Range) -> dict[str, Range]:
    """What is needed of each step for the outputs of the range; steps that no output reads are left out."""
    found: dict[str, Range] = {}

    def need(rows: Rows, at: Range) -> None:
        if isinstance(rows, StepRows):
            first, until = found.get(rows.step, at)
            found[rows.step] = min(first, at[0]), max(until, at[1])
        for child in _streams_of(rows):
            need(child, _range_below(rows, at))

    for output in steps.outputs:
        need(output.rows, wanted)
    for one in reversed(steps.steps):
        if one.name in found:
            need(one.rows, found[one.name])
    return found


def _streams_of(rows: Rows) -> Iterable[Rows]:
    """The relations that one is made of, without reference data."""
    return (rows.rows.rows,) if isinstance(rows, Referenced) else children_of(rows)


def _range_below(rows: Rows, wanted: Range) -> Range:
    """The range of its source that a relation's rows of a range depend on."""
    extent = extent_of(rows)
    assert extent.back_us is not None, "refused before"
    return wanted[0] - extent.back_us, wanted[1] + extent.ahead_us
