"""Aggregates of many windows at once: the values of :mod:`~pipelines.live.aggregates`, by array operations where
those give the same bits, by its own functions where not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.core.model import Aggregate
from pipelines.live.aggregates import aggregate, total_of_doubles
from pipelines.live.state.columns import Mask, Numbers, present

_NO_OVERFLOW = 1 << 62
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def aggregated(one: Aggregate, column: pa.ChunkedArray | None, starts: Numbers, count: int) -> list[Any]:
    """``one`` over each run of ``count`` rows; a run goes from one of ``starts`` to the next, and none is empty.

    ``column`` is the argument (None for ``count(*)``); inside a run it is ordered by system timestamp, then arrival.
    Raises what :func:`~pipelines.live.aggregates.aggregate` raises.
    """
    if column is None:
        return list(np.diff(starts, append=count).tolist())
    if one.function == "count" and not one.distinct:
        return list(np.add.reduceat(present(column), starts, dtype=np.int64).tolist())
    if pa.types.is_floating(column.type) or pa.types.is_signed_integer(column.type):
        found = _of_numbers(one.function, column, starts)
        if found is not None:
            return found
    values = column.to_pylist()
    return [aggregate(one, values[begin:end]) for begin, end in pairwise([*starts.tolist(), count])]


def _of_numbers(function: str, column: pa.ChunkedArray, starts: Numbers) -> list[Any] | None:
    """An aggregate of numbers over each run; None for what array operations do not give exactly."""
    are_doubles, here = pa.types.is_floating(column.type), present(column)
    data = column.cast(pa.float64() if are_doubles else pa.int64()).fill_null(0).to_numpy()
    counts = np.add.reduceat(here, starts, dtype=np.int64)
    if function in ("sum", "avg"):
        totals = _totals_of_doubles(data[here], counts) if are_doubles else _totals_of_whole(data, starts)
        if totals is None:
            return None
        found = totals / np.maximum(counts, 1) if function == "avg" else totals
    elif function == "min":
        # NaN comes after all numbers, and fmin ignores it
        least = np.fmin.reduceat(np.where(here, data, np.nan if are_doubles else _MOST), starts)
        found = _first_equal(data, here, starts, least) if are_doubles else least
    elif function == "max":
        greatest = np.maximum.reduceat(np.where(here, data, -np.inf if are_doubles else _LEAST), starts)
        found = _first_equal(data, here, starts, greatest) if are_doubles else greatest
    else:
        return None
    return [value if count else None for value, count in zip(found.tolist(), counts.tolist(), strict=True)]


def _totals_of_doubles(data: npt.NDArray[np.float64], counts: Numbers) -> npt.NDArray[np.float64]:
    """Exact totals of runs with that many values."""
    values = data.tolist()
    return np.array([total_of_doubles(values[begin:end]) for begin, end in pairwise([0, *np.cumsum(counts).tolist()])])


def _totals_of_whole(data: Numbers, starts: Numbers) -> Numbers | None:
    """Totals of runs, unless one could leave int64."""
    widest = max(-int(data.min()), int(data.max()))
    return np.add.reduceat(data, starts) if widest * len(data) < _NO_OVERFLOW else None


def _first_equal(
    data: npt.NDArray[np.float64], here: Mask, starts: Numbers, wanted: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Each run's first value that equals the ``wanted`` one: 0.0 and -0.0 are equal, and not the same bits."""
    places = np.arange(len(data))
    wanted = np.repeat(wanted, np.diff(starts, append=len(places)))
    equal = here & ((data == wanted) | (np.isnan(data) & np.isnan(wanted)))
    return data[np.minimum.reduceat(np.where(equal, places, len(places) - 1), starts)]
