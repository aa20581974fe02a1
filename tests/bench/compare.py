"""Are two results the same? Whole numbers exactly, doubles to a relative 1e-12."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.questions import Question

TOLERANCE = 1e-12
"""Relative; room for contenders whose sums of doubles depend on the order in which they add."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How two results differ that have ``rows`` windows between them.

    ``differing``: windows of one side alone, and windows with another value. ``widest``: the widest relative distance
    of two doubles that count as equal.
    """

    rows: int
    differing: int
    widest: float


def compare(expected: pa.Table, given: pa.Table, question: Question) -> Difference:
    """Both hold the columns of ``question``'s result, in any order of rows; a key there twice is an error."""
    keys = ["window_end", *question.keys]
    left, right = _plain(expected, question), _plain(given, question)
    for table in (left, right):
        assert table.group_by(keys).aggregate([]).num_rows == table.num_rows, "a window appears twice"
    both = left.join(right, keys, join_type="inner", left_suffix="_ours", right_suffix="_theirs")
    unequal = np.asarray(pc.not_equal(both["n_ours"], both["n_theirs"]))
    widest = 0.0
    for name in question.values[1:]:
        off = _distance(np.asarray(both[f"{name}_ours"], float), np.asarray(both[f"{name}_theirs"], float))
        unequal = unequal | ~(off <= TOLERANCE)
        widest = max(widest, float(off[~unequal].max(initial=0.0)))
    lonely = left.num_rows + right.num_rows - 2 * both.num_rows
    return Difference(both.num_rows + lonely, int(unequal.sum()) + lonely, widest)


def _distance(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    scale = np.where(ours == 0, 1.0, np.abs(ours))
    return np.abs(ours - theirs) / scale


def _plain(table: pa.Table, question: Question) -> pa.Table:
    """The columns in one set of types: engines differ in how they write instants, texts and counts."""
    kinds = {"window_end": pa.timestamp("us", "UTC"), "n": pa.int64(), "total": pa.float64(), "mean": pa.float64()}
    columns = {}
    for name in ("window_end", *question.keys, *question.values):
        column = table[name]
        text = pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type)
        kind = pa.string() if text else pa.int64() if pa.types.is_integer(column.type) else column.type
        columns[name] = column.cast(kinds.get(name, kind))
    return pa.table(columns)
