"""Values by the column: numbers as numpy holds them, everything else as the Python values that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from pipelines.core.values import grouped_value, grouping_key

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values: TypeAlias = Sequence[Any] | pa.ChunkedArray


@dataclass(frozen=True, slots=True)
class Column:
    """``data`` is of int64, float64 or object. Where ``present`` is False the value is null and ``data`` means
    nothing: 0 or None."""

    data: npt.NDArray[Any]
    present: Mask

    @classmethod
    def of(cls, values: Values) -> Column:
        """Python values, or an Arrow column of any type."""
        return _of_arrow(values) if isinstance(values, pa.ChunkedArray) else _of_python(values)

    @classmethod
    def full(cls, data: npt.NDArray[Any]) -> Column:
        """Values of which none is null."""
        return cls(data, np.ones(len(data), np.bool_))

    @classmethod
    def joined(cls, parts: Sequence[Column]) -> Column:
        """One after another; numbers stay numbers unless kinds differ."""
        kinds = {one.data.dtype for one in parts if one.present.any()}
        kind = kinds.pop() if len(kinds) == 1 else np.dtype(object)
        return cls(
            np.concatenate([one._as(kind) for one in parts]),
            np.concatenate([one.present for one in parts]),
        )

    def take(self, where: npt.NDArray[Any]) -> Column:
        """The values at these places, or where a mask is True."""
        return Column(self.data[where], self.present[where])

    def values(self) -> list[Any]:
        """Python values, null as None."""
        values: list[Any] = self.data.tolist()
        if self.data.dtype.hasobject or self.present.all():
            return values
        return [value if there else None for value, there in zip(values, self.present.tolist(), strict=True)]

    def whole(self, default: int) -> Numbers:
        """Whole numbers, ``default`` for null."""
        return np.where(self.present, self.data, default).astype(np.int64)

    def _as(self, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        if kind == self.data.dtype:
            return self.data
        if kind.hasobject:
            return _objects(self.values())
        # of another kind than its neighbours only where all is null
        return np.zeros(len(self.data), kind)

    def codes(self) -> npt.NDArray[np.intp]:
        """Equal numbers for values that are the same and for nulls; SQL may hold more values for one than that."""
        if self.data.dtype.hasobject:
            if pd.api.types.infer_dtype(self.data, skipna=True) == "string":
                return pd.factorize(self.data)[0] + 1
            seen: dict[Any, int] = {}
            return np.fromiter((seen.setdefault(grouping_key(value), len(seen)) for value in self.data), np.intp)
        # NaN has the code -1
        return np.where(self.present, pd.factorize(self.data)[0] + 2, 0)


def _of_arrow(values: pa.ChunkedArray) -> Column:
    kind, nulls = values.type, values.null_count
    present = np.asarray(values.is_valid()) if nulls else np.ones(len(values), np.bool_)
    for has, wide in ((pa.types.is_signed_integer, pa.int64()), (pa.types.is_floating, pa.float64())):
        if has(kind):
            numbers = values.cast(wide)
            return Column((numbers.fill_null(0) if nulls else numbers).to_numpy(), present)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Column(values.to_numpy(), present)
    return Column(_objects(values.to_pylist()), present)


def _of_python(values: Sequence[Any]) -> Column:
    present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    kinds = {type(value) for value in values} - {type(None)}
    for kind in (int, float):
        if kinds == {kind}:
            try:
                numbers = [kind() if value is None else value for value in values]
                return Column(np.array(numbers, np.dtype(kind)), present)
            except OverflowError:
                break
    return Column(_objects(values), present)


def _objects(values: Sequence[Any]) -> npt.NDArray[Any]:
    return np.fromiter(values, np.dtype(object), len(values))


def numbered(columns: Sequence[Column], count: int) -> tuple[Numbers, list[tuple[Any, ...]]]:
    """For each of ``count`` rows the number of its tuple of values, and the tuples by number, as a group shows itself.

    Tuples have one number exactly where SQL groups them. Numbers rise in the order in which tuples are first met.
    """
    codes = np.zeros(count, np.int64)
    for column in columns:
        mine = column.codes()
        codes = pd.factorize(codes * (int(mine.max(initial=0)) + 1) + mine)[0].astype(np.int64)
    if not count:
        return codes, []
    first = np.empty(int(codes.max()) + 1, np.int64)
    first[codes[::-1]] = np.arange(count - 1, -1, -1)
    met = list(zip(*(column.take(first).values() for column in columns), strict=True)) or [()]
    known: dict[Any, int] = {}
    numbers = np.array([known.setdefault(grouping_key(one), len(known)) for one in met], np.int64)
    tuples: dict[int, tuple[Any, ...]] = {}
    for number, one in zip(numbers.tolist(), met, strict=True):
        tuples.setdefault(number, tuple(map(grouped_value, one)))
    return numbers[codes], list(tuples.values())


def starts_of_runs(*columns: Numbers) -> Numbers:
    """Where rows begin that are equal in all ``columns``: indices, the first of them 0. None for no rows."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    changes = np.zeros(len(columns[0]), np.bool_)
    changes[0] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)
