"""Are two results the same? Whole numbers exactly, doubles bit by bit or to a relative 1e-12."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TOLERANCE = 1e-12
"""Relative; for contenders whose sums of doubles depend on the order in which they add."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a result differs from Tailrace's: rows of one side only or with another value, and the widest double."""

    rows: int
    differing: int
    widest: float

    @property
    def equal(self) -> bool:
        return self.differing == 0


def compare(expected: pa.Table, given: pa.Table) -> Difference:
    """Both hold ``window_end``, ``device``, ``n``, ``total``, ``mean``, in any order of rows."""
    left, right = _keyed(expected), _keyed(given)
    at = pc.index_in(right["key"], left["key"])
    matched = right.filter(pc.is_valid(at))
    against = left.take(at.drop_null())
    unequal = np.asarray(pc.not_equal(matched["n"], against["n"]))
    widest = 0.0
    for name in ("total", "mean"):
        ours, theirs = np.asarray(against[name], dtype=float), np.asarray(matched[name], dtype=float)
        off = np.abs(ours - theirs) / np.maximum(np.abs(ours), np.finfo(float).tiny)
        unequal = unequal | ~(off <= TOLERANCE)
        widest = max(widest, float(off[~unequal].max(initial=0.0)))
    lonely = left.num_rows + right.num_rows - 2 * matched.num_rows
    return Difference(left.num_rows, int(unequal.sum()) + lonely, widest)


def _keyed(table: pa.Table) -> pa.Table:
    """With ``key``: window end and device in one number; a key there twice is an error."""
    end_us = table["window_end"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    # window ends lie on whole seconds; devices number fewer than a million
    key = pc.add(end_us, table["device"].cast(pa.int64()))
    assert pc.count_distinct(key).as_py() == table.num_rows, "a window appears twice"
    return table.append_column("key", key)
