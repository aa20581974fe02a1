"""Stream joins of any two relations (Q9 to Q13)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import SETTLED, SYSTEM_US
from pipelines.batch.decisions import WindowRules
from pipelines.batch.joins import Bounds, near_pairs
from pipelines.batch.steps.relation import ORDER, Relation, analysed_by, in_order
from pipelines.core.expressions import quoted
from pipelines.core.steps import Joined

_LEFT, _RIGHT = "__left", "__right"


def joined(left: Relation, right: Relation, one: Joined, rules: WindowRules) -> Relation:
    """A row for each pair, a struct a side, at the later of the two times; of a LEFT join left rows alone too, once it
    is settled that they stay alone.

    A pair has the order of its later row, then of the other; the left one's first if they are equally late. Where one
    side's order means nothing to the other's: whether the right one is later, then left, then right.
    """
    names = one.left.name, one.right.name
    a = side(left, names[0], _LEFT, [key for key, _ in one.keys])
    b = side(right, names[1], _RIGHT, [key for _, key in one.keys])
    times = (_LEFT + SYSTEM_US, _RIGHT + SYSTEM_US)
    keys = [(f"{_LEFT}_key{index}", f"{_RIGHT}_key{index}") for index in range(len(one.keys))]
    bounds = Bounds(one.unit_us, one.from_units, one.to_units)
    condition = None if one.condition is None else F.expr(one.condition)
    with analysed_by(a.crossJoin(b), left.ansi, () if one.condition is None else (one.condition,)):
        pairs = near_pairs(a, b, times, keys, bounds, one.kind, condition)
    at = bounds.counts_at(*map(F.col, times))
    found = pairs.withColumns({SYSTEM_US: at, ORDER: in_order(_place(pairs, times))})
    if one.kind == "left" and rules.settled is not None:
        found = rules.settled(found, SYSTEM_US, {}).filter(F.col(SETTLED) | F.col(times[1]).isNotNull())
    frame = found.select(*map(quoted, names), SYSTEM_US, ORDER)
    return Relation(frame, names, "rows", left.ansi)


def side(rows: Relation, name: str, prefix: str, keys: Sequence[str], *further: str) -> DataFrame:
    """One side of a join: struct ``name``, and behind the prefix ``_key0``, ``_key1``, .., the hidden columns and
    ``further`` ones."""
    by_key = {f"{prefix}_key{index}": text for index, text in enumerate(keys)}
    frame = rows.computed(by_key, *rows.visible.columns)
    hidden = (F.col(column).alias(prefix + column) for column in (*rows.hidden, *further))
    return frame.select(rows.struct().alias(name), *hidden, *by_key)


def _place(pairs: DataFrame, times: tuple[str, str]) -> Column:
    left, right = F.col(_LEFT + ORDER), F.col(_RIGHT + ORDER)
    right_is_later = F.coalesce(F.col(times[1]) > F.col(times[0]), F.lit(False))
    kinds = {pairs.schema[name].dataType.simpleString() for name in (_LEFT + ORDER, _RIGHT + ORDER)}
    if len(kinds) > 1:
        return F.struct(right_is_later.alias("right_is_later"), left.alias("left"), right.alias("right"))
    later = F.when(right_is_later, right).otherwise(left)
    other = F.when(right_is_later, left).otherwise(right)
    return F.struct(later.alias("later"), other.alias("other"), right_is_later.alias("right_is_later"))
