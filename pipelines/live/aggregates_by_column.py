"""Aggregates of many windows at once: the values of :mod:`~pipelines.live.aggregates`, by array operations where
those give the same bits, by its own functions where not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.core.model import Aggregate
from pipelines.live.aggregates import aggregate, total_of_doubles
from pipelines.live.state.columns import Column, Numbers

_NO_OVERFLOW = 1 << 62
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def aggregated(one: Aggregate, column: Column | None, starts: Numbers, count: int) -> list[Any]:
    """``one`` over each run of ``count`` rows; a run reaches from one of ``starts`` to the next, and none is empty.

    ``column`` holds the argument (None for ``count(*)``); inside a run it stands by system timestamp, then arrival.
    Raises what :func:`~pipelines.live.aggregates.aggregate` raises.
    """
    if column is None:
        return list(np.diff(starts, append=count).tolist())
    by_array = None if one.distinct else _BY_ARRAY.get((one.function, column.data.dtype.kind))
    found = None if by_array is None else by_array(column, starts)
    if found is not None:
        return found
    values = column.values()
    return [aggregate(one, values[begin:end]) for begin, end in pairwise([*starts.tolist(), count])]


def _counts(column: Column, starts: Numbers) -> Numbers:
    return np.add.reduceat(column.present, starts, dtype=np.int64)


def _or_null(values: npt.NDArray[Any], counts: Numbers) -> list[Any]:
    return [value if count else None for value, count in zip(values.tolist(), counts.tolist(), strict=True)]


def _totals_of_doubles(column: Column, starts: Numbers) -> list[tuple[float, int] | None]:
    """A run's exact total, and of how many values; None where all are null."""
    values = column.data[column.present].tolist()
    ends = np.cumsum(_counts(column, starts)).tolist()
    return [
        (total_of_doubles(values[begin:end]), end - begin) if end > begin else None
        for begin, end in pairwise([0, *ends])
    ]


def _sums_of_doubles(column: Column, starts: Numbers) -> list[Any]:
    return [None if one is None else one[0] for one in _totals_of_doubles(column, starts)]


def _means_of_doubles(column: Column, starts: Numbers) -> list[Any]:
    return [None if one is None else one[0] / one[1] for one in _totals_of_doubles(column, starts)]


def _fit(column: Column) -> bool:
    """Whether no total of these whole numbers can leave int64."""
    widest = max(-int(column.data.min()), int(column.data.max()))
    return widest * len(column.data) < _NO_OVERFLOW


def _sums_of_whole(column: Column, starts: Numbers) -> list[Any] | None:
    if not _fit(column):
        return None
    return _or_null(np.add.reduceat(column.data, starts), _counts(column, starts))


def _means_of_whole(column: Column, starts: Numbers) -> list[Any] | None:
    if not _fit(column):
        return None
    counts = _counts(column, starts)
    return _or_null(np.add.reduceat(column.data, starts).astype(np.float64) / np.maximum(counts, 1), counts)


def _least_whole(column: Column, starts: Numbers) -> list[Any]:
    least = np.minimum.reduceat(np.where(column.present, column.data, _MOST), starts)
    return _or_null(least, _counts(column, starts))


def _greatest_whole(column: Column, starts: Numbers) -> list[Any]:
    greatest = np.maximum.reduceat(np.where(column.present, column.data, _LEAST), starts)
    return _or_null(greatest, _counts(column, starts))


def _least_double(column: Column, starts: Numbers) -> list[Any]:
    # NaN comes after all numbers, and fmin passes it over
    return _first_like(column, starts, np.fmin.reduceat(np.where(column.present, column.data, np.nan), starts))


def _greatest_double(column: Column, starts: Numbers) -> list[Any]:
    return _first_like(column, starts, np.maximum.reduceat(np.where(column.present, column.data, -np.inf), starts))


def _first_like(column: Column, starts: Numbers, best: npt.NDArray[np.float64]) -> list[Any]:
    """Each run's first value that equals its ``best``: 0.0 and -0.0 are equal, and not the same bits."""
    places = np.arange(len(column.data))
    wanted = np.repeat(best, np.diff(starts, append=len(places)))
    alike = column.present & ((column.data == wanted) | (np.isnan(column.data) & np.isnan(wanted)))
    first = np.minimum.reduceat(np.where(alike, places, len(places) - 1), starts)
    return _or_null(column.data[first], _counts(column, starts))


_BY_ARRAY: dict[tuple[str, str], Callable[[Column, Numbers], list[Any] | None]] = {
    **{("count", kind): lambda column, starts: _counts(column, starts).tolist() for kind in "ifO"},
    ("sum", "f"): _sums_of_doubles,
    ("avg", "f"): _means_of_doubles,
    ("min", "f"): _least_double,
    ("max", "f"): _greatest_double,
    ("sum", "i"): _sums_of_whole,
    ("avg", "i"): _means_of_whole,
    ("min", "i"): _least_whole,
    ("max", "i"): _greatest_whole,
}
"""By function and numpy's letter for the column's kind; None: what these cannot give exactly."""
