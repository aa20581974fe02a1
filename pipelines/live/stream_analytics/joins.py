"""Stream joins of the live run: both sides held for as long as a partner may come."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from pipelines.core.model import Join
from pipelines.core.time import UNIT_US
from pipelines.live.state.batches import Counted
from pipelines.live.state.program import Program
from pipelines.live.state.rows import Row
from pipelines.live.values import all_same
from pipelines.live.windows.assign import FOREVER


@dataclass(slots=True)
class Side:
    """A row of one side; ``matched`` once it had a partner."""

    row: Row
    matched: bool = False


@dataclass(slots=True)
class JoinState:
    """Rows that may still find partners, by the values that must be equal."""

    left: dict[Hashable, list[Side]] = field(default_factory=dict)
    right: dict[Hashable, list[Side]] = field(default_factory=dict)

    def take(self, program: Program, counted: Counted) -> list[Row]:
        """The pairs that new rows complete, and left rows that can have no partner because a key is null."""
        join = program.job.window_query.join
        assert join is not None
        joined: list[Row] = []
        is_left = counted.batch.input == join.left
        for on, row in zip(counted.keys(program), counted.rows(program), strict=True):
            if None in on:
                if is_left and join.kind == "left":
                    joined.append(_alone(program, join, row))
                continue
            key, mine = all_same(on), Side(row)
            for other in (self.right if is_left else self.left).get(key, []):
                left, right = (mine, other) if is_left else (other, mine)
                if join.from_units <= _apart(join, left.row, right.row) <= join.to_units:
                    left.matched = right.matched = True
                    joined.append(_pair(program, left.row, right.row))
            (self.left if is_left else self.right).setdefault(key, []).append(mine)
        return joined

    def expire(self, program: Program, left_bound: int, right_bound: int) -> list[Row]:
        """Forget what no row at or after the bounds can match; left rows that stayed alone come out."""
        join = program.job.window_query.join
        assert join is not None
        unit = UNIT_US[join.unit]
        alone: list[Row] = []
        for key, held in list(self.left.items()):
            open_still = [one for one in held if right_bound // unit - one.row.start // unit <= join.to_units]
            if join.kind == "left":
                gone = [one for one in held if right_bound // unit - one.row.start // unit > join.to_units]
                alone += [_alone(program, join, one.row) for one in gone if not one.matched]
            _keep(self.left, key, open_still)
        for key, held in list(self.right.items()):
            open_still = [one for one in held if one.row.start // unit - left_bound // unit >= join.from_units]
            _keep(self.right, key, open_still)
        return alone

    def bound(self, program: Program, left_bound: int, right_bound: int) -> int:
        """No joined row still to come counts before this instant."""
        join = program.job.window_query.join
        assert join is not None
        waiting = [one.row for held in self.left.values() for one in held if not one.matched]
        alone = [_alone_at(join, row) for row in waiting] if join.kind == "left" else []
        return min([left_bound, right_bound, *alone])

    def finish(self, program: Program) -> list[Row]:
        """What comes out when nothing more will come."""
        return self.expire(program, FOREVER, FOREVER)


def _keep(side: dict[Hashable, list[Side]], key: Hashable, rows: list[Side]) -> None:
    if rows:
        side[key] = rows
    else:
        del side[key]


def _apart(join: Join, left: Row, right: Row) -> int:
    """DATEDIFF(unit, left, right): boundaries of the unit in between."""
    unit = UNIT_US[join.unit]
    return right.start // unit - left.start // unit


def _alone_at(join: Join, row: Row) -> int:
    return row.start + max(join.to_units, 0) * UNIT_US[join.unit]


def _alone(program: Program, join: Join, row: Row) -> Row:
    """A left row without partner: its expressions were read with nulls on the right."""
    return _joined(program, _alone_at(join, row), row.arrived, row.values)


def _pair(program: Program, left: Row, right: Row) -> Row:
    sides = zip(program.sides, left.values, right.values, strict=True)
    values = tuple(mine if from_left else theirs for from_left, mine, theirs in sides)
    arrived = (max(left.arrived, right.arrived), min(left.arrived, right.arrived))
    return _joined(program, max(left.start, right.start), arrived, values)


def _joined(program: Program, start: int, arrived: tuple[object, ...], values: tuple[object, ...]) -> Row:
    if len(arrived) != 2:
        arrived = (arrived, ())
    return Row(start, arrived, values, all_same([values[place] for place in program.group_places]))
