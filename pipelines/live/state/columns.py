"""Columns of Arrow tables as numpy needs them, and tuples of values as SQL groups them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from pipelines.core.values import grouped_value, grouping_key

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def whole(column: pa.ChunkedArray, null: int) -> Numbers:
    """A column of whole numbers; ``null`` stands for null."""
    filled = column.fill_null(null) if column.null_count else column
    numbers: Numbers = filled.to_numpy().astype(np.int64, copy=False)
    return numbers


def present(column: pa.ChunkedArray) -> Mask:
    """Where the column is not null."""
    return np.asarray(column.is_valid())


def numbered(columns: Sequence[pa.ChunkedArray], count: int) -> tuple[Numbers, list[tuple[Any, ...]]]:
    """For each of ``count`` rows the number of its tuple of values, and the tuples by number, as a group shows itself.

    Tuples have one number exactly where SQL groups them. Numbers rise in the order in which tuples first occur.
    """
    codes = np.zeros(count, np.int64)
    for column in columns:
        mine = _codes(column)
        codes = pd.factorize(codes * (int(mine.max(initial=0)) + 1) + mine)[0].astype(np.int64)
    if not count:
        return codes, []
    first = np.empty(int(codes.max()) + 1, np.int64)
    first[codes[::-1]] = np.arange(count - 1, -1, -1)
    found = list(zip(*(column.take(first).to_pylist() for column in columns), strict=True)) or [()]
    # values of several codes may be one to SQL: 0.0 and -0.0
    known: dict[Any, int] = {}
    numbers = np.array([known.setdefault(grouping_key(one), len(known)) for one in found], np.int64)
    tuples: dict[int, tuple[Any, ...]] = {}
    for number, one in zip(numbers.tolist(), found, strict=True):
        tuples.setdefault(number, tuple(map(grouped_value, one)))
    return numbers[codes], list(tuples.values())


def _codes(column: pa.ChunkedArray) -> Numbers:
    """Equal numbers for equal values and for nulls."""
    if pa.types.is_nested(column.type):
        seen: dict[Any, int] = {}
        return np.array([seen.setdefault(grouping_key(value), len(seen)) for value in column.to_pylist()], np.int64)
    codes: Numbers = column.combine_chunks().dictionary_encode("encode").indices.to_numpy().astype(np.int64)
    return codes


def starts_of_runs(*columns: Numbers) -> Numbers:
    """Where rows begin that are equal in all ``columns``: indices, the first of them 0. None for no rows."""
    changes = np.ones(len(columns[0]), np.bool_)
    changes[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(changes)
