"""Aggregates over rows of a relation: those of a window, or those in reach of a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from pipelines.core.model import Aggregate
from pipelines.core.values import order_key
from pipelines.live.aggregate_types import result_type
from pipelines.live.aggregates import aggregate
from pipelines.live.aggregates_by_column import aggregated
from pipelines.live.state.columns import Numbers
from pipelines.live.steps.relation import Columns, column_of

_RANKED = frozenset({"top_one", "collect_top"})


def expressions_of(one: Aggregate) -> list[str]:
    """What the aggregate reads of each row."""
    return [*([] if one.argument is None else [one.argument]), *(key.expression for key in one.order_by)]


@dataclass(frozen=True)
class Aggregator:
    """One aggregate over rows whose expressions have the values ``found``."""

    one: Aggregate
    found: Columns

    def over_windows(self, rows: Numbers, starts: Numbers) -> pa.ChunkedArray:
        """The aggregate of each window: a window's ``rows`` go from one of ``starts`` to the next; none is empty."""
        argument = None if self.one.argument is None else self.found[self.one.argument]
        if not len(starts):
            return self.column([])
        if self.one.order_by:
            return self.column([self._over(inside.tolist()) for inside in _split(rows, starts)])
        return self.column(aggregated(self.one, None if argument is None else argument.take(rows), starts, len(rows)))

    def over_each(self, reached: Iterable[Sequence[int]]) -> pa.ChunkedArray:
        """The aggregate over each of several lists of rows, which may be empty."""
        return self.column([self._over(rows) for rows in reached])

    def column(self, values: Sequence[Any]) -> pa.ChunkedArray:
        """Values of the aggregate as a column."""
        return column_of(values, self.type)

    @property
    def type(self) -> pa.DataType:
        """The type of the aggregate."""
        argument = None if self.one.argument is None else from_arrow_type(self.found[self.one.argument].type)
        if self.one.function not in _RANKED:
            return to_arrow_type(result_type(self.one, argument), timestamp_utc=True)
        assert argument is not None, "TopOne and CollectTop take an expression"
        if self.one.function == "collect_top":
            argument = T.ArrayType(
                T.StructType([T.StructField("rank", T.LongType()), T.StructField("value", argument)])
            )
        return to_arrow_type(argument, timestamp_utc=True)

    def _over(self, rows: Sequence[int]) -> Any:
        if self.one.function in _RANKED:
            ranked = [self._arguments[row] for row in self._ranked(rows)[: self.one.limit]]
            if self.one.function == "top_one":
                return ranked[0] if ranked else None
            return [{"rank": rank, "value": value} for rank, value in enumerate(ranked, start=1)]
        return aggregate(self.one, rows if self.one.argument is None else [self._arguments[row] for row in rows])

    def _ranked(self, rows: Sequence[int]) -> list[int]:
        """The rows by ``order_by``; of equal ones the earlier comes first (Q56)."""
        ranked = list(rows)
        for key in reversed(self.one.order_by):
            values = self._sort_values[key.expression]
            ranked.sort(key=lambda row: order_key(values[row]), reverse=key.descending)  # used at once
        return ranked

    @cached_property
    def _arguments(self) -> list[Any]:
        return [] if self.one.argument is None else self.found[self.one.argument].to_pylist()

    @cached_property
    def _sort_values(self) -> dict[str, list[Any]]:
        return {key.expression: self.found[key.expression].to_pylist() for key in self.one.order_by}


def _split(rows: Numbers, starts: Numbers) -> list[Numbers]:
    ends = [*starts.tolist()[1:], len(rows)]
    return [rows[begin:end] for begin, end in zip(starts.tolist(), ends, strict=True)]
