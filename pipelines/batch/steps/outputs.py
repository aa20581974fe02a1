"""The outputs of a query of steps, from the events of each input that count and the job's reference data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_US, PARTITION, SEQUENCE, SYSTEM_US, within
from pipelines.batch.decisions import WindowRules
from pipelines.batch.steps.analytic import analysed
from pipelines.batch.steps.joined import joined
from pipelines.batch.steps.referenced import Snapshots, gathered, referenced
from pipelines.batch.steps.relation import EFFECTIVE_US, ORDER, POSITION, Relation, in_order
from pipelines.batch.steps.rows import applied, filtered, projected, united
from pipelines.batch.steps.windowed import windowed
from pipelines.batch.stream_analytics.windows import windowed as windows_of_rows
from pipelines.core.expressions import quoted
from pipelines.core.model import EVERYTHING, Input, Job, OutputRange, Reference
from pipelines.core.steps import (
    EVENT_COLUMNS,
    SYSTEM_TIMESTAMP,
    WINDOW_COLUMNS,
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
    walk,
)
from pipelines.plan.paths import extents

WINDOWS_OF_ROWS = WindowRules(windows_of_rows)
"""An edge belongs to the window that ends there, and every window is emitted."""


@dataclass(frozen=True)
class Evaluated:
    """``outputs`` by name; ``shared``: steps that several outputs are made of and that are costly to make."""

    outputs: dict[str, DataFrame]
    shared: tuple[DataFrame, ...]


def evaluate(
    job: Job,
    inputs: Mapping[str, DataFrame],
    references: Mapping[str, DataFrame],
    wanted: Collection[str] | None = None,
    output: OutputRange = EVERYTHING,
    rules: WindowRules = WINDOWS_OF_ROWS,
) -> Evaluated:
    """The ``wanted`` outputs (None: all) of a job of steps, the rows whose system timestamp lies in the range.

    ``inputs``: of each input the events that count, as its columns, arrival_time TIMESTAMP, input_partition INT,
    sequence BIGINT, system_timestamp TIMESTAMP, and the columns of ``rules``. ``references``: of each reference its
    columns, effective_from TIMESTAMP (null: always) and position BIGINT, its place in the file. An output has
    system_timestamp; window_start, window_end and window_id where its rows stem from windows; then its columns.

    Raises :class:`JobFileError` for an expression that Spark refuses. A query fails where an expression has no value,
    and where a row comes before the first snapshot of a reference.
    """
    steps = job.steps
    assert steps is not None, f"job '{job.name}' has one step with one window"
    chosen = [one for one in steps.outputs if wanted is None or one.name in wanted]
    evaluator = Evaluator(job, steps, inputs, references, output, rules)
    tables = {one.name: _table(evaluator.relation(one.rows), output) for one in chosen}
    shared = shared_steps(steps, [one.name for one in chosen])
    return Evaluated(tables, tuple(evaluator.step(name).frame for name in shared))


def counted(events: DataFrame, source: Input, at: str, further: Sequence[str] = ()) -> DataFrame:
    """The events of an input that count at column ``at``, as :func:`evaluate` takes them."""
    return events.select(
        *(quoted(column.name) for column in source.columns),
        F.timestamp_micros(ARRIVAL_US).alias("arrival_time"),
        F.col(PARTITION).alias("input_partition"),
        F.col(SEQUENCE).alias("sequence"),
        F.timestamp_micros(at).alias(SYSTEM_TIMESTAMP),
        *further,
    )


def shared_steps(steps: Steps, wanted: Collection[str]) -> tuple[str, ...]:
    """Steps that the wanted outputs, and the steps that these need, read more than once, if making them shuffles.

    Spark would compute them once for each: it reuses a shuffle only where both readers ask for exactly the same.
    """
    readers: Counter[str] = Counter()
    waiting = [one.rows for one in steps.outputs if one.name in wanted]
    while waiting:
        for name in [one.step for one in walk(waiting.pop()) if isinstance(one, StepRows)]:
            readers[name] += 1
            if readers[name] == 1:
                waiting.append(steps.step(name))
    return tuple(one.name for one in steps.steps if readers[one.name] > 1 and _shuffles(one.rows, steps))


def _shuffles(rows: Rows, steps: Steps) -> bool:
    """Whether the relation has more to do than one row at a time, or is made of a step that has."""
    reads = [steps.step(one.step) for one in walk(rows) if isinstance(one, StepRows)]
    return any(isinstance(one, (Analysed, Windowed, Joined)) for one in walk(rows)) or any(
        _shuffles(one, steps) for one in reads
    )


def _table(rows: Relation, output: OutputRange) -> DataFrame:
    """The rows as the output shows them; a column of the query hides the window's column of that name."""
    heads = (SYSTEM_TIMESTAMP, *(WINDOW_COLUMNS if rows.origin == "window" else ()))
    taken = {name.lower() for name in rows.columns}
    shown = [name for name in heads if name not in taken]
    return rows.visible.filter(within(SYSTEM_US, output)).select(*shown, *map(quoted, rows.columns))


class Evaluator:
    """Relations over the inputs, each step made once; what it is given is what :func:`evaluate` is.

    Of relations that have neither windows nor reference data below them ``rules`` and ``references`` say nothing.
    """

    def __init__(
        self,
        job: Job,
        steps: Steps,
        inputs: Mapping[str, DataFrame],
        references: Mapping[str, DataFrame],
        output: OutputRange,
        rules: WindowRules,
    ) -> None:
        self._job = job
        self._steps = steps
        self._inputs = inputs
        self._references = references
        self._output = output
        self._rules = rules
        self._made: dict[str, Relation] = {}

    def step(self, name: str) -> Relation:
        """The relation of an earlier step, made once."""
        if name not in self._made:
            self._made[name] = self.relation(self._steps.step(name))
        return self._made[name]

    def relation(self, rows: Rows) -> Relation:
        """The relation, with all that it is made of."""
        match rows:
            case InputRows(name):
                return self._input(name)
            case StepRows(name):
                return self.step(name)
            case ReferenceRows(name):
                return self._reference(name)
            case Filtered(inner, condition):
                return filtered(self.relation(inner), condition)
            case Projected(inner, columns):
                return projected(self.relation(inner), columns)
            case Applied(inner):
                return applied(self.relation(inner), rows)
            case Analysed(inner, functions):
                return analysed(self.relation(inner), functions)
            case Windowed(inner):
                return windowed(self.relation(inner), rows, self._rules)
            case Joined(left, right):
                return joined(self.relation(left.rows), self.relation(right.rows), rows, self._rules)
            case Gathered(inner):
                return gathered(self.relation(inner), rows)
            case Referenced(side, reference):
                snapshots = self._snapshots(reference.rows)
                return referenced(self.relation(side.rows), self.relation(reference.rows), rows, snapshots)
            case United(branches):
                return united([self.relation(one) for one in branches])

    def _input(self, name: str) -> Relation:
        source = self._job.input(name)
        rank = [one.name for one in self._job.inputs].index(name)
        place = F.struct(
            F.unix_micros("arrival_time").alias("arrival_us"),
            F.lit(rank).alias("input_rank"),
            F.col("input_partition"),
            F.col("sequence"),
        )
        columns = (*(column.name for column in source.columns), *EVENT_COLUMNS)
        frame = self._inputs[name].select(
            *map(quoted, columns),
            F.unix_micros(SYSTEM_TIMESTAMP).alias(SYSTEM_US),
            in_order(place).alias(ORDER),
            *self._rules.columns,
        )
        return Relation(frame, columns, "event", self._steps.ansi, self._rules.columns)

    def _reference(self, name: str) -> Relation:
        columns = tuple(column.name for column in self._job.reference(name).columns)
        frame = self._references[name].select(
            *map(quoted, columns),
            F.unix_micros("effective_from").alias(EFFECTIVE_US),
            F.col("position").alias(POSITION),
        )
        return Relation(frame, columns, "reference", self._steps.ansi)

    def _snapshots(self, rows: Rows) -> Snapshots | None:
        """The snapshots that the reference data is made of; None if it is static."""
        reference = self._base(rows)
        if reference.effective is None:
            return None
        back_us = extents(self._job)[reference.name].back_us
        from_us = None if self._output.from_us is None or back_us is None else self._output.from_us - back_us
        return Snapshots(reference, self._reference(reference.name).frame, from_us)

    def _base(self, rows: Rows) -> Reference:
        *_, last = walk(rows)
        if isinstance(last, StepRows):
            return self._base(self._steps.step(last.step))
        assert isinstance(last, ReferenceRows), "reference data is made of reference data"
        return self._job.reference(last.reference)
