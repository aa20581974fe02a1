"""Joins: of two streams within a distance of time (Q9 to Q13), and with reference data (Q79 to Q87)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain

import pyarrow as pa

from pipelines.core.steps import Gathered, Joined, Referenced
from pipelines.core.values import grouping_key
from pipelines.live.state.output import EndOfLog
from pipelines.live.steps.expressions import Evaluate
from pipelines.live.steps.relation import Columns, Order, Relation, then_by
from pipelines.live.steps.row_by_row import where_true

Pair = tuple[int, int | None]
"""The places of a left row and of a right row; None: without a partner."""


def joined(left: Relation, right: Relation, step: Joined, settled_by: EndOfLog | None, evaluate: Evaluate) -> Relation:
    """The pairs that fulfil the whole condition, each at the time of its later row.

    A left row without a partner stays, at the time when one last could come (Q11, Q13), unless ``settled_by`` leaves it
    out.
    """
    buckets = [time // step.unit_us for time in right.times]
    partners: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(_keys(right, [text for _, text in step.keys], evaluate)):
        partners[key].append(place)
    near: list[Pair] = []
    for place, key in enumerate(_keys(left, [text for text, _ in step.keys], evaluate)):
        same = partners.get(key, []) if key is not None else []
        bucket = left.times[place] // step.unit_us
        begin = bisect_left(same, bucket + step.from_units, key=buckets.__getitem__)
        end = bisect_right(same, bucket + step.to_units, key=buckets.__getitem__)
        near += [(place, other) for other in same[begin:end]]
    structs = {step.left.name: left.struct(), step.right.name: right.struct()}
    pairs = _completed(near, len(left), structs, step, evaluate)
    wait_us = max(step.to_units, 0) * step.unit_us
    if settled_by is not None:
        pairs = [pair for pair in pairs if pair[1] is not None or settled_by.settled(left.times[pair[0]] + wait_us, {})]
    times = [
        left.times[one] + wait_us if other is None else max(left.times[one], right.times[other]) for one, other in pairs
    ]
    orders = [_pair_order(left, right, *pair) for pair in pairs]
    return Relation.sorted(times, orders, _of_pairs(pairs, structs), {}, ("pair", left.kind, right.kind))


def referenced(
    rows: Relation,
    reference: Relation,
    step: Referenced,
    snapshots: Sequence[int],
    looked_up_at: Sequence[int],
    check: Callable[[int], None],
    evaluate: Evaluate,
) -> Relation:
    """A row for each row of reference data that matches, at the time of the stream's row (Q79, Q80).

    ``snapshots`` are the times from which each snapshot holds, rising; ``looked_up_at`` is the time that chooses one,
    by row (Q84, Q85). ``check`` is called for the place of a row before the first one (Q87).
    """
    partners: defaultdict[tuple[int, Hashable], list[int]] = defaultdict(list)
    for place, key in enumerate(_keys(reference, [text for _, text in step.keys], evaluate)):
        partners[reference.times[place], key].append(place)
    near: list[Pair] = []
    for place, key in enumerate(_keys(rows, [text for text, _ in step.keys], evaluate)):
        number = bisect_right(snapshots, looked_up_at[place])
        if not number:
            check(place)
        same = partners.get((snapshots[number - 1], key), []) if number and key is not None else []
        near += [(place, other) for other in same]
    structs = {step.rows.name: rows.struct(), step.reference.name: reference.struct()}
    pairs = _completed(near, len(rows), structs, step, evaluate)
    found = rows.take([place for place, _ in pairs])
    positions = [0 if other is None else reference.orders[other][1][0] for _, other in pairs]
    orders = [then_by(order, position) for order, position in zip(found.orders, positions, strict=True)]
    return replace(found, orders=orders, columns=_of_pairs(pairs, structs))


def gathered(rows: Relation, step: Gathered, evaluate: Evaluate) -> Relation:
    """A row for each snapshot and key, at the place of the first of its rows (Q105)."""
    keys = evaluate(rows.named, [step.key.expression])[step.key.expression]
    alike: defaultdict[tuple[int, Hashable], list[int]] = defaultdict(list)
    for place, key in enumerate(keys.to_pylist()):
        alike[rows.times[place], grouping_key(key)].append(place)
    first = [group[0] for group in alike.values()]
    ends = accumulate(map(len, alike.values()), initial=0)
    members = rows.struct().take(pa.array(chain.from_iterable(alike.values()), pa.int64()))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), members)
    found = rows.take(first)
    columns = {step.key.name: keys.take(pa.array(first, pa.int64())), step.name: pa.chunked_array([lists])}
    return replace(found, columns=columns)


def _keys(rows: Relation, texts: Sequence[str], evaluate: Evaluate) -> list[Hashable | None]:
    """The key of each row; None for one that equals nothing because a part is null."""
    found = evaluate(rows.named, texts)
    parts = [found[text].to_pylist() for text in texts]
    keys = zip(*parts, strict=True) if parts else [()] * len(rows)
    return [None if None in key else grouping_key(key) for key in keys]


def _completed(
    near: Sequence[Pair],
    count: int,
    structs: Mapping[str, pa.Array],
    step: Joined | Referenced,
    evaluate: Evaluate,
) -> list[Pair]:
    """The pairs that fulfil the condition and, of a LEFT join, the other left rows; in the order of left rows."""
    pairs = list(near)
    if step.condition is not None:
        found = evaluate(_of_pairs(pairs, structs), [step.condition])
        pairs = [pairs[place] for place in where_true(step.condition, found)]
    if step.kind == "left":
        matched = {one for one, _ in pairs}
        pairs += [(place, None) for place in range(count) if place not in matched]
        pairs.sort(key=lambda pair: pair[0])
    return pairs


def _of_pairs(pairs: Sequence[Pair], structs: Mapping[str, pa.Array]) -> Columns:
    places = (pa.array([pair[side] for pair in pairs], pa.int64()) for side in (0, 1))
    return {
        name: pa.chunked_array([values.take(side)])
        for (name, values), side in zip(structs.items(), places, strict=True)
    }


def _pair_order(left: Relation, right: Relation, one: int, other: int | None) -> Order:
    """The later row's order, then the other's; of equally late rows the left one's is first (Q6)."""
    comparable = left.kind == right.kind
    own = left.orders[one]
    if other is None:
        return ((own,) if comparable else (False, own)), ()
    theirs, right_is_later = right.orders[other], right.times[other] > left.times[one]
    if not comparable:
        return (right_is_later, own, theirs), ()
    return ((theirs, own, True) if right_is_later else (own, theirs, False)), ()
