"""Stream joins of stream_analytics, live (S14): the rows of both sides are kept for as long as a partner may come."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pipelines.core.model import Join
from pipelines.core.time import UNIT_US
from pipelines.core.values import grouping_key
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.rows import Counted, Row, group_of


@dataclass(slots=True)
class SideRow:
    """A row of one side; ``matched`` once it had a partner."""

    row: Row
    matched: bool = False


Side = dict[Hashable, list[SideRow]]
"""Rows of one side by the values that must be equal."""


@dataclass(slots=True)
class JoinState:
    """The rows that may still find partners. ``join`` is the job's, ``types`` are those of a row's values, by position,
    as far as they are known."""

    compiled: CompiledJob
    join: Join
    left: Side = field(default_factory=dict)
    right: Side = field(default_factory=dict)
    types: dict[int, pa.DataType] = field(default_factory=dict)

    def add(self, name: str, counted: Counted) -> list[Row]:
        """Add rows of one input; gives the pairs that they complete, and left rows that can have no partner because a
        key is null."""
        schema = counted.columns.schema
        types = {index: schema.field(f"v{index}").type for index in range(len(self.compiled.texts))}
        self.types |= {index: one for index, one in types.items() if not pa.types.is_null(one)}
        is_left = name == self.join.left
        own, others = (self.left, self.right) if is_left else (self.right, self.left)
        joined: list[Row] = []
        for row in counted.rows:
            if None in row.on:
                joined += self._unmatched([SideRow(row)]) if is_left else []
                continue
            key, mine = grouping_key(row.on), SideRow(row)
            for other in others.get(key, []):
                left, right = (mine, other) if is_left else (other, mine)
                if self.join.from_units <= self._distance(left.row.start, right.row.start) <= self.join.to_units:
                    left.matched = right.matched = True
                    joined.append(self._pair(left.row, right.row))
            own.setdefault(key, []).append(mine)
        return joined

    def expire(self, left_bound: int, right_bound: int) -> list[Row]:
        """Remove the rows that no row at or after the bounds can match; gives the left rows among them that had no
        partner (``kind: left``)."""
        join = self.join
        gone = _remove(self.left, lambda row: self._distance(row.start, right_bound) > join.to_units)
        _remove(self.right, lambda row: self._distance(left_bound, row.start) < join.from_units)
        return self._unmatched(gone)

    def bound(self, left_bound: int, right_bound: int) -> int:
        """No joined row still to come counts before this instant."""
        waiting = [one.row for side in self.left.values() for one in side if not one.matched]
        unmatched = [self._unmatched_at(row) for row in waiting] if self.join.kind == "left" else []
        return min([left_bound, right_bound, *unmatched])

    def _distance(self, left_us: int, right_us: int) -> int:
        """DATEDIFF(unit, left, right): boundaries of the unit in between."""
        unit_us = UNIT_US[self.join.unit]
        return right_us // unit_us - left_us // unit_us

    def _unmatched_at(self, row: Row) -> int:
        return row.start + max(self.join.to_units, 0) * UNIT_US[self.join.unit]

    def _unmatched(self, rows: Sequence[SideRow]) -> list[Row]:
        """Left rows without a partner: their expressions were evaluated with nulls on the right."""
        if self.join.kind != "left":
            return []
        alone = [one.row for one in rows if not one.matched]
        return [Row(self._unmatched_at(row), (row.arrived, ()), row.values, row.group) for row in alone]

    def _pair(self, left: Row, right: Row) -> Row:
        sides = zip(self.compiled.sides, left.values, right.values, strict=True)
        values = tuple([mine if from_left else theirs for from_left, mine, theirs in sides])
        arrived = (max(left.arrived, right.arrived), min(left.arrived, right.arrived))
        return Row(max(left.start, right.start), arrived, values, group_of(self.compiled, values))


def _remove(side: Side, is_gone: Callable[[Row], bool]) -> list[SideRow]:
    """Remove and give rows of a side."""
    gone: list[SideRow] = []
    for key, rows in list(side.items()):
        left = [one for one in rows if not is_gone(one.row)]
        if len(left) < len(rows):
            gone += [one for one in rows if is_gone(one.row)]
            side[key] = left
        if not left:
            del side[key]
    return gone
