"""Conditions of JOIN: what bounds them in time, which equalities are keys, and the rest (Q9 to Q12, Q79 to Q81)."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from pipelines.core.expressions import quoted
from pipelines.core.steps import SYSTEM_TIMESTAMP, Joined, Referenced, Side
from pipelines.core.time import UNIT_US
from pipelines.job.sql.bounds import Bound
from pipelines.job.sql.calls import arguments, called, in_us, path_of, unit, whole
from pipelines.job.sql.grammar.syntax import Joining
from pipelines.job.sql.names import RowScope
from pipelines.job.sql.places import Places
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.relation import Frame
from pipelines.job.sql.types import BIGINT, FLOAT, TEXT, Typed
from pipelines.job.sql.values import Values, kept

_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


def stream_join(left: Frame, right: Frame, joining: Joining, values: Values) -> Frame:
    """Pairs of rows of two streams within the bounds of DATEDIFF."""
    on = _On(left, right, joining, values)
    unit_us, low, high = on.bounds()
    condition = on.condition()
    partitioned(left, right, on.keys, joining, values.places)
    rows = Joined(
        Side(on.left_name, kept(left.rows, (one for one, _ in on.keys))),
        Side(on.right_name, kept(right.rows, (one for _, one in on.keys))),
        unit_us,
        low,
        high,
        tuple((one.sql, other.sql) for one, other in on.keys),
        condition,
        joining.kind,
    )
    later_us = max(high, 0) * unit_us if joining.kind == "left" else None
    chain = left.chain.joined(on.right.name, on.bounding, later_us)
    return left.joined(right, rows, on.left_name, on.right_name, chain)


def reference_join(left: Frame, right: Frame, joining: Joining, values: Values) -> Frame:
    """Rows of a stream with the rows of reference data that fulfil the condition."""
    on = _On(left, right, joining, values)
    if on.bounding:
        raise values.places.refused(
            joining.on, "reference data has no time of its own: leave DATEDIFF between the sources out"
        )
    rows = Referenced(
        Side(on.left_name, kept(left.rows, (one for one, _ in on.keys))),
        Side(on.right_name, kept(right.rows, (one for _, one in on.keys))),
        tuple((one.sql, other.sql) for one, other in on.keys),
        on.condition(),
        joining.kind,
    )
    return left.joined(right, rows, on.left_name, on.right_name, left.chain)


def partitioned(left: Frame, right: Frame, keys: list[tuple[Typed, Typed]], joining: Joining, places: Places) -> None:
    """A join of partitioned streams equates their partition keys (Q15, Q16)."""
    if bool(left.partition) != bool(right.partition):
        raise places.refused(joining.source.start, "PARTITION BY stands on both sources of a join, or on neither")
    equated = [{one.sql for one, _ in keys}, {other.sql for _, other in keys}]
    for frame, found in zip((left, right), equated, strict=True):
        for partition, typed in frame.partitioned_by():
            if typed.sql not in found:
                raise places.refused(
                    joining.on, f"ON must equate the partition key {partition.source}.{partition.field.name}"
                )


class _On:
    """The conjuncts of one ON: bounds in time, keys, and the rest."""

    def __init__(self, left: Frame, right: Frame, joining: Joining, values: Values) -> None:
        self.values = values
        self.places = values.places
        self.joining = joining
        self.chain = left.chain
        self.right = right.sources[0]
        self.right_name = right.side_name()
        self.left_name = left.side_name(self.right_name)
        self._sides = left.scope(self.places, timeless="in ON"), right.scope(self.places, timeless="in ON")
        both = left.joined(right, left.rows, self.left_name, self.right_name, left.chain)
        reason = "in ON, where two rows have two times: use DATEDIFF"
        self._both = both.scope(self.places, timeless=reason, time=f"{quoted(self.left_name)}.{SYSTEM_TIMESTAMP}")
        self.bounding: list[Bound] = []
        self.keys: list[tuple[Typed, Typed]] = []
        self._rest: list[exp.Expr] = []
        for one in conjuncts(joining.on):
            self._take(one)

    def _take(self, node: exp.Expr) -> None:
        bound = bound_of(node, self._both)
        if bound is not None:
            self.bounding.append(bound)
            alone = len(self.chain.times) == 1 and self.right.name in (bound.left, bound.right)
            if not alone:  # Joined has one bound, between the row on the left as a whole and the row on the right
                self._rest.append(node)
        elif (key := self._key(node)) is not None:
            self.keys.append(key)
        else:
            self._rest.append(node)

    def _key(self, node: exp.Expr) -> tuple[Typed, Typed] | None:
        """The two sides of an equality between the two rows."""
        if not isinstance(node, exp.EQ):
            return None
        for one, other in ((node.this, node.expression), (node.expression, node.this)):
            if self._is_over(one, 0) and self._is_over(other, 1):
                pair = self.values.of(one, self._sides[0]), self.values.of(other, self._sides[1])
                return self._comparable(node, *pair)
        return None

    def _is_over(self, node: exp.Expr, side: int) -> bool:
        """Are all columns of the expression, one at least, columns of that side?"""
        found = [_is_seen(one, self._both, self._sides[side]) for one in columns(node, self._both)]
        return bool(found) and all(found)

    def _comparable(self, node: exp.Expr, left: Typed, right: Typed) -> tuple[Typed, Typed] | None:
        if left.type == right.type:
            return left, right
        types = {left.type, right.type}
        if types == {BIGINT, FLOAT}:
            sqls = [one.sql if one.type == FLOAT else f"CAST({one.sql} AS DOUBLE)" for one in (left, right)]
            return Typed(sqls[0], FLOAT, left.kept_if), Typed(sqls[1], FLOAT, right.kept_if)
        if TEXT in types and types & {BIGINT, FLOAT}:
            raise self.places.refused(node, "a text never equals a number in ON: CAST one of them")
        return None

    def bounds(self) -> tuple[int, int, int]:
        """The unit of DATEDIFF in microseconds, and the least and greatest number of them."""
        mine = [one for one in self.bounding if self.right.name in (one.left, one.right)]
        for unit_us in sorted({one.unit_us for one in mine}, reverse=True):
            found = self.chain.range_to(self.right.name, unit_us, self.bounding)
            if found is None:
                continue
            if found[0] > found[1]:
                raise self.places.refused(
                    self.joining.on, "the bounds of DATEDIFF exclude each other: nothing can match"
                )
            self._check_one_unit(mine)
            return unit_us, *found
        example = f"DATEDIFF(minute, {self.chain.times[0].source}, {self.right.name}) BETWEEN 0 AND 5"
        raise self.places.refused(self.joining.on, f"the join is not bounded in time: add {example}")

    def _check_one_unit(self, mine: list[Bound]) -> None:
        if len({one.unit_us for one in mine}) > 1:
            raise self.places.refused(self.joining.on, "the bounds of one join have different units: write them in one")

    def condition(self) -> str | None:
        """What ON demands besides keys and bounds."""
        found = [self.values.condition(one, self._both) for one in self._rest]
        parts = [sql for one in found for sql in (one.sql, *one.kept_if)]
        return " AND ".join(f"({sql})" for sql in dict.fromkeys(parts)) or None


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a condition that are all demanded."""
    if isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def columns(node: exp.Expr, scope: RowScope) -> Iterator[exp.Expr]:
    """The outermost columns of an expression, and calls that were computed already; units of time are none."""
    if scope.values and called(node) and scope.shape(node) in scope.values:
        yield node
    elif path := path_of(node):
        known = {one.name.lower() for one in scope.sources} | {
            field.name.lower() for one in scope.sources for field in one.fields
        }
        if path[0] in known:
            yield node
    else:
        for child in node.iter_expressions():
            yield from columns(child, scope)


def _is_seen(node: exp.Expr, both: RowScope, side: RowScope) -> bool:
    """Belongs the column, or the call, to that side?"""
    if not path_of(node):
        return both.shape(node) in side.values
    names = {one.name for one in side.sources}
    try:
        source, _, _ = both.find(path_of(node), node)
    except Refused:
        return False
    return source.name in names


def bound_of(node: exp.Expr, scope: RowScope) -> Bound | None:
    """What the comparison of DATEDIFF between two sources with constants bounds; None if it is something else."""
    places = scope.places
    if isinstance(node, exp.Paren):
        return bound_of(node.this, scope)
    if isinstance(node, exp.Between):
        pair = _difference(node.this, scope)
        return pair and _bound(pair, *(_count(pair, node.args[key], places) for key in ("low", "high")))
    kind = type(node)
    if kind is not exp.EQ and kind not in _MIRRORED:
        return None
    pair, limit = _difference(node.this, scope), node.expression
    if pair is None:
        pair, limit = _difference(node.expression, scope), node.this
        kind = _MIRRORED.get(kind, kind)
    if pair is None:
        return None
    count = _count(pair, limit, places)
    if kind is exp.EQ:
        return _bound(pair, count, count)
    if kind in (exp.LT, exp.LTE):
        return _bound(pair, None, count - (kind is exp.LT))
    return _bound(pair, count + (kind is exp.GT), None)


def _count(pair: tuple[int, str, str], node: exp.Expr, places: Places) -> int:
    """A constant number of units."""
    number = whole(node, places)
    in_us(pair[0], number, node, places)
    return number


def _bound(pair: tuple[int, str, str], low: int | None, high: int | None) -> Bound:
    unit_us, left, right = pair
    return Bound(left, right, unit_us, low, high)


def _difference(node: exp.Expr, scope: RowScope) -> tuple[int, str, str] | None:
    """The unit in microseconds and the two sources of ``DATEDIFF(unit, a, b)``."""
    sources = scope.between(node)
    if sources is None:
        return None
    left, right = sources
    if left is right:
        raise scope.places.refused(node, "DATEDIFF between a source and itself bounds nothing: name both sources")
    return UNIT_US[unit(arguments(node)[0], scope.places)], left.name, right.name
