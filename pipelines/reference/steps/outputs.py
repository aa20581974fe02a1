"""Every output of a job's steps, from the rows that count and the reference data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.expressions import Evaluate
from pipelines.core.model import EVERYTHING, Arrival, Input, Job, OutputRange
from pipelines.core.query import Column
from pipelines.core.steps import (
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
)
from pipelines.core.time import MIN_INSTANT_US, format_instant
from pipelines.reference import events
from pipelines.reference.events import Ordered
from pipelines.reference.steps.analytic import analysed
from pipelines.reference.steps.joins import gathered, joined, referenced
from pipelines.reference.steps.relation import EVENT, Relation, Row, in_order
from pipelines.reference.steps.row_by_row import applied, filtered, projected, united
from pipelines.reference.steps.windows import windowed

ReferenceData = Mapping[str, Sequence[Mapping[str, object]]]
"""For each reference its rows in the order of its file; instants are ``int`` microseconds."""

_EVENT_COLUMNS = (Column("arrival_time", "timestamp"), Column("input_partition", "int"), Column("sequence", "bigint"))
_REFERENCE = ("reference",)


def outputs(
    job: Job,
    inputs: Mapping[str, Relation],
    references: ReferenceData,
    ordered: Ordered,
    evaluate: Evaluate | None = None,
    output: OutputRange = EVERYTHING,
) -> dict[str, Relation]:
    """The rows of each output by its name, those whose system timestamp lies in ``output``.

    ``inputs``: the rows that count, as :func:`rows_of_input` gives them.
    ``ordered`` is what the profile's policy made of the log, which windows of stream_insight ask for.
    Raises :class:`UsageError` if an expression is more than a column and ``evaluate`` is None, :class:`DataRefused` if
    a row of the range comes before the first snapshot of a reference (Q87).
    """
    assert job.steps is not None
    computed = _Computed(job, job.steps, inputs, references, ordered, evaluate, output.from_us)
    found = {one.name: computed.relation(one.rows) for one in job.steps.outputs}
    return {
        name: all_rows.with_rows([row for row in all_rows.rows if row.at_us in output])
        for name, all_rows in found.items()
    }


def rows_of_input(part: Input, rank: int, counted: Sequence[tuple[Arrival, events.Row]]) -> Relation:
    """The events of an input that count, each at its system timestamp; ``rank`` is the input's place in the job."""
    rows = []
    for arrival, one in counted:
        assert arrival.input_partition is not None
        place = (arrival.arrival_time_us, rank, arrival.input_partition, arrival.sequence)
        origin = {
            "arrival_time": arrival.arrival_time_us,
            "input_partition": arrival.input_partition,
            "sequence": arrival.sequence,
        }
        rows.append(Row(one.start_us, (place, ()), {**arrival.payload, **origin}, origin, one))
    return Relation((*part.columns, *_EVENT_COLUMNS), _EVENT_COLUMNS, EVENT, in_order(rows))


def relation_of(job: Job, inputs: Mapping[str, Relation], rows: Rows, evaluate: Evaluate | None) -> Relation:
    """One relation of the job's steps that has no windows and no reference data below it."""
    assert job.steps is not None
    nothing_ordered = Ordered((), (), settled=lambda *_: True)
    return _Computed(job, job.steps, inputs, {}, nothing_ordered, evaluate, None).relation(rows)


@dataclass(slots=True)
class _Computed:
    """The relations of one run; each step is computed once (Q2)."""

    job: Job
    steps: Steps
    inputs: Mapping[str, Relation]
    references: ReferenceData
    ordered: Ordered
    evaluate: Evaluate | None
    from_us: int | None
    named: dict[str, Relation] = field(default_factory=dict)

    def relation(self, rows: Rows) -> Relation:
        """The rows of one relation, from those of the relations that it is made of."""
        evaluate = self.evaluate
        match rows:
            case InputRows(name):
                return self.inputs[name]
            case StepRows(name):
                if name not in self.named:
                    self.named[name] = self.relation(self.steps.step(name))
                return self.named[name]
            case ReferenceRows(name):
                return self._reference(name)
            case Filtered(inner, condition):
                return filtered(self.relation(inner), condition, evaluate)
            case Projected(inner, columns):
                return projected(self.relation(inner), columns, evaluate)
            case Applied(inner):
                return applied(self.relation(inner), rows, evaluate)
            case Analysed(inner, functions):
                return analysed(self.relation(inner), functions, evaluate)
            case Windowed(inner):
                return windowed(self.relation(inner), rows, self.job, self.ordered, evaluate)
            case Joined(left, right):
                return joined(self.relation(left.rows), self.relation(right.rows), rows, self._settled, evaluate)
            case United(branches):
                return united([self.relation(one) for one in branches])
            case Gathered(inner):
                return gathered(self.relation(inner), rows, evaluate)
            case Referenced(side, reference):
                name = self._reference_name(reference.rows)
                return referenced(
                    self.relation(side.rows),
                    self.relation(reference.rows),
                    rows,
                    lambda row: self._snapshot(name, row),
                    evaluate,
                )

    def _settled(self, at_us: int) -> bool:
        return self.job.end_of_log == "flush" or self.ordered.settled(at_us, {})

    def _reference(self, name: str) -> Relation:
        """Reference data as rows at the time from which they hold, static data from the first instant on."""
        reference = self.job.reference(name)
        rows = [
            Row(self._effective_us(name, values), ((), (position,)), values, {})
            for position, values in enumerate(self.references[name])
        ]
        return Relation(reference.columns, (), _REFERENCE, in_order(rows))

    def _effective_us(self, name: str, values: Mapping[str, object]) -> int:
        effective = self.job.reference(name).effective
        instant_us = MIN_INSTANT_US if effective is None else values[effective]
        assert isinstance(instant_us, int)
        return instant_us

    def _snapshot(self, name: str, row: Row) -> int | None:
        """The snapshot that serves the row: the last that holds at its time (Q84, Q85)."""
        at_us = row.origin["arrival_time"] if self.job.reference(name).time == "arrival" else row.at_us
        assert isinstance(at_us, int)
        snapshots = sorted(self._effective_us(name, values) for values in self.references[name])
        earlier = [one for one in snapshots if one <= at_us]
        if earlier:
            return earlier[-1]
        if self.job.reference(name).effective is not None and (self.from_us is None or row.at_us >= self.from_us):
            first = f"the first one is of {format_instant(snapshots[0])}" if snapshots else "there is none"
            raise DataRefused(
                f"reference '{name}' has no snapshot for a row of {format_instant(at_us)}: {first}",
                hint="ingest an earlier snapshot, or begin the range later",
            )
        return None

    def _reference_name(self, rows: Rows) -> str:
        """The reference data that a relation of filters and projections is made of (Q18)."""
        match rows:
            case ReferenceRows(name):
                return name
            case StepRows(name):
                return self._reference_name(self.steps.step(name))
            case Filtered(inner) | Projected(inner) | Gathered(inner):
                return self._reference_name(inner)
            case _:
                raise UsageError(
                    f"'{type(rows).__name__}' stands where only filters and projections of reference data do"
                )
