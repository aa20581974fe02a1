"""Recompute windows from the arrivals that make them, with the events that counted in each.

The reference engine does the work, so an altered log (an event taken out, a punctuation put in) or an altered job gives
what the streaming job would have given. No Spark, unless the job's expressions are more than columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.core.expressions import Evaluate
from pipelines.core.model import Arrival, Column, Decision, Job, OutputRange
from pipelines.core.values import grouping_key
from pipelines.job.expressions import instant_sql
from pipelines.plan.initial_state import InitialStates
from pipelines.reference.engine import run

Values = Mapping[str, object]
"""A window result by column name; instants are microseconds."""


@dataclass(frozen=True, slots=True)
class RecomputedWindow:
    """One window result and the events that counted in it, in the order in which the aggregates saw them."""

    row: Values
    members: tuple[Arrival, ...]

    @property
    def end_us(self) -> int:
        """The window's end."""
        return instant_in(self.row, "window_end")


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What one run gave: its windows with their members, and every event's decision."""

    windows: tuple[RecomputedWindow, ...]
    decisions: tuple[Decision, ...]

    @property
    def rows(self) -> list[Values]:
        """The windows alone."""
        return [window.row for window in self.windows]


class CachedEvaluator:
    """An evaluator of expressions that asks the real one, Spark's unless given, once for each different row."""

    def __init__(self, evaluate: Evaluate | None = None) -> None:
        self._evaluate = evaluate
        self._known: dict[tuple[object, ...], tuple[object, ...]] = {}

    def __call__(
        self, columns: tuple[Column, ...], rows: Sequence[Mapping[str, object]], expressions: Sequence[str]
    ) -> list[tuple[object, ...]]:
        head = (tuple(column.name for column in columns), tuple(expressions))
        keys = [(*head, *(repr(row[column.name]) for column in columns)) for row in rows]
        unknown = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._known}
        if unknown:
            if self._evaluate is None:
                from pipelines.batch.spark.expressions import SparkExpressions

                self._evaluate = SparkExpressions()
            found = self._evaluate(columns, list(unknown.values()), expressions)
            self._known.update(zip(unknown, found, strict=True))
        return [self._known[key] for key in keys]


def recompute(
    job: Job,
    arrivals: Sequence[Arrival],
    output: OutputRange,
    evaluate: Evaluate,
    initial_states: InitialStates | None = None,
) -> Recomputed:
    """Windows and decisions of ``job`` over exactly these arrivals, cut to ``output``; timelines begin with
    ``initial_states``, or empty."""
    outcome = run(job, arrivals, output, evaluate=evaluate, instant_sql=instant_sql, initial_states=initial_states)
    windows = zip(outcome.windows, outcome.members, strict=True)
    return Recomputed(tuple(RecomputedWindow(row.as_row(), members) for row, members in windows), outcome.decisions)


def instant_in(row: Values, name: str) -> int:
    """A column of instants, in microseconds."""
    value = row[name]
    assert isinstance(value, int), name
    return value


def same_values(left: Values, right: Values, names: Sequence[str]) -> bool:
    """Are two rows the same in these columns? NaN is NaN, zero is zero, numbers go by value whatever their type."""
    return all(grouping_key(left.get(name)) == grouping_key(right.get(name)) for name in names)


def same_rows(left: Sequence[Values], right: Sequence[Values], names: Sequence[str]) -> bool:
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
