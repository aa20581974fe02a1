"""Joins: of two streams within a distance of time (Q9 to Q13), and with reference data (Q79 to Q90)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pipelines.core.expressions import Evaluate
from pipelines.core.query import Column
from pipelines.core.steps import Gathered, Joined, Referenced
from pipelines.core.types import struct_of
from pipelines.core.values import grouping_key
from pipelines.reference.steps.relation import Order, Relation, Row, in_order, readings, readings_of, then_by

Pair = tuple[Row, Row]
Values = Mapping[str, object]


def joined(
    left: Relation, right: Relation, step: Joined, settled: Callable[[int], bool], evaluate: Evaluate | None
) -> Relation:
    """The pairs that fulfil the whole condition, each at the time of its later row.

    A left row that no right row fulfils it for stays, at the time when one last could (Q11, Q13), if ``settled`` says
    of that time that no partner can come any more.
    """

    def values(one: Row, other: Row | None) -> Values:
        return {
            step.left.name: left.as_value(one),
            step.right.name: None if other is None else right.as_value(other),
        }

    columns = (left.struct(step.left.name), right.struct(step.right.name))
    near = [
        (one, other)
        for one, other in _with_equal_keys(left, right, step.keys, evaluate)
        if step.from_units <= other.at_us // step.unit_us - one.at_us // step.unit_us <= step.to_units
    ]
    pairs = _fulfilling(near, columns, values, step.condition, evaluate)
    comparable = left.kind == right.kind
    rows = [
        Row(max(one.at_us, other.at_us), _pair_order(one, other, comparable), values(one, other), {})
        for one, other in pairs
    ]
    if step.kind == "left":
        wait_us = max(step.to_units, 0) * step.unit_us
        rows += [
            Row(one.at_us + wait_us, ((one.order,) if comparable else (False, one.order), ()), values(one, None), {})
            for one in _unmatched(left, pairs)
            if settled(one.at_us + wait_us)
        ]
    return Relation(columns, (), ("pair", left.kind, right.kind), in_order(rows))


def _pair_order(left: Row, right: Row, comparable: bool) -> Order:
    """The later row's order, then the other's; of equally late rows the left one's is first (Q6)."""
    right_is_later = right.at_us > left.at_us
    if not comparable:
        return (right_is_later, left.order, right.order), ()
    later, other = (right, left) if right_is_later else (left, right)
    return (later.order, other.order, right_is_later), ()


def referenced(
    stream: Relation,
    reference: Relation,
    step: Referenced,
    snapshot_of: Callable[[Row], int | None],
    evaluate: Evaluate | None,
) -> Relation:
    """A row for each row of reference data that matches, at the time of the stream's row (Q79, Q80).

    ``snapshot_of`` says which snapshot serves a row, by the time that stands for the system timestamp of its rows.
    """

    def values(one: Row, other: Row | None) -> Values:
        return {
            step.rows.name: stream.as_value(one),
            step.reference.name: None if other is None else dict(other.values),
        }

    columns = (stream.struct(step.rows.name), Column(step.reference.name, struct_of(reference.columns)))
    served = [
        (one, other)
        for one, other in _with_equal_keys(stream, reference, step.keys, evaluate)
        if snapshot_of(one) == other.at_us
    ]
    pairs = _fulfilling(served, columns, values, step.condition, evaluate)
    found: list[tuple[Row, Row | None]] = [*pairs]
    if step.kind == "left":
        found += [(one, None) for one in _unmatched(stream, pairs)]
    rows = [
        replace(one, order=then_by(one.order, 0 if other is None else other.order[1][0]), values=values(one, other))
        for one, other in found
    ]
    return stream.with_rows(rows, columns)


def gathered(relation: Relation, step: Gathered, evaluate: Evaluate | None) -> Relation:
    """A row for each snapshot and key, at the place of the first of its rows (Q105)."""
    found = readings(relation, [step.key.expression], evaluate)
    alike: dict[object, list[tuple[Row, object]]] = {}
    for row, reading in zip(relation.rows, found.values, strict=True):
        value = reading[step.key.expression]
        alike.setdefault((row.at_us, grouping_key(value)), []).append((row, value))
    rows = [
        replace(first, values={step.key.name: value, step.name: [dict(row.values) for row, _ in group]})
        for group in alike.values()
        for first, value in group[:1]
    ]
    kinds = found.types[step.key.expression], f"array<{struct_of(relation.columns)}>"
    columns = [Column(name, kind) for name, kind in zip((step.key.name, step.name), kinds, strict=True)]
    return relation.with_rows(rows, columns)


def _with_equal_keys(
    left: Relation, right: Relation, keys: Sequence[tuple[str, str]], evaluate: Evaluate | None
) -> list[Pair]:
    """All pairs of rows whose keys are equal; null equals nothing."""
    lefts, rights = ([side[index] for side in keys] for index in (0, 1))
    others = list(zip(right.rows, _keys(right, rights, evaluate), strict=True))
    return [
        (one, other)
        for one, key in zip(left.rows, _keys(left, lefts, evaluate), strict=True)
        for other, other_key in others
        if key == other_key and None not in key
    ]


def _keys(relation: Relation, texts: Sequence[str], evaluate: Evaluate | None) -> list[tuple[object, ...]]:
    found = readings(relation, texts, evaluate).values
    return [tuple(grouping_key(reading[text]) for text in texts) for reading in found]


def _fulfilling(
    pairs: Sequence[Pair],
    columns: tuple[Column, ...],
    values: Callable[[Row, Row], Values],
    condition: str | None,
    evaluate: Evaluate | None,
) -> list[Pair]:
    """The pairs for which the condition is true."""
    if condition is None:
        return list(pairs)
    found = readings_of(columns, [values(*pair) for pair in pairs], [condition], evaluate).values
    return [pair for pair, reading in zip(pairs, found, strict=True) if reading[condition] is True]


def _unmatched(left: Relation, pairs: Sequence[Pair]) -> list[Row]:
    matched = {id(one) for one, _ in pairs}
    return [row for row in left.rows if id(row) not in matched]
