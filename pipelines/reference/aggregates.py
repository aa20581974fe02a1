"""Aggregates over the values of one window and group, with SQL's nulls and the same bits in any order.

Sums of doubles are correctly rounded sums of the exact values, so neither order nor grouping of the additions shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Aggregate
from pipelines.core.values import grouping_key, order_key

_BIGINT = range(-(2**63), 2**63)
_WIDE = Context(prec=200)
_DECIMAL_DIGITS = 38


def compute(aggregate: Aggregate, values: Sequence[object]) -> object:
    """``aggregate`` over ``values``: one a row, in order of system timestamp, then arrival.

    ``count(*)`` counts the values whatever they are. Every other function skips nulls, ``first`` and ``last`` apart,
    which respect them as SQL does; over no values at all a count is 0, a collection is empty, all else is null.
    Raises :class:`DataRefused` where a sum of whole numbers leaves BIGINT.
    """
    if aggregate.argument is None:
        return len(values)
    if aggregate.function in _POSITIONAL:
        return _POSITIONAL[aggregate.function](values)
    present = [value for value in values if value is not None]
    if aggregate.function == "count":
        return len({grouping_key(value) for value in present}) if aggregate.distinct else len(present)
    if aggregate.function == "collect":
        return present
    if not present:
        return None
    return _OVER_VALUES[aggregate.function](aggregate, present)


def exact_sum(values: Sequence[float]) -> float:
    """The correctly rounded sum; NaN with any NaN or with both infinities; never raises."""
    if any(math.isnan(value) for value in values):
        return math.nan
    infinities = {value for value in values if math.isinf(value)}
    if infinities:
        return infinities.pop() if len(infinities) == 1 else math.nan
    try:
        return math.fsum(values) + 0.0
    except OverflowError:  # fsum gives up as soon as a partial sum is too large, even where the whole is not
        exact = sum((Fraction(value) for value in values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _sum(aggregate: Aggregate, values: list[object]) -> object:
    if all(isinstance(value, float) for value in values):
        return exact_sum([value for value in values if isinstance(value, float)])
    if all(isinstance(value, Decimal) for value in values):
        return _decimal_sum(values)
    total = sum(_whole(aggregate, values))
    if total not in _BIGINT:
        raise DataRefused(
            f"the sum of '{aggregate.argument}' leaves the range of BIGINT",
            key=f"query.aggregates.{aggregate.name}",
            hint="sum a DECIMAL or a DOUBLE instead",
        )
    return total


def _avg(aggregate: Aggregate, values: list[object]) -> object:
    if all(isinstance(value, float) for value in values):
        return exact_sum([value for value in values if isinstance(value, float)]) / len(values)
    if all(isinstance(value, Decimal) for value in values):
        scale = min(max(_scale(value) for value in values) + 4, _DECIMAL_DIGITS)
        mean = _WIDE.divide(_decimal_sum(values), Decimal(len(values)))
        return mean.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    return float(sum(_whole(aggregate, values))) / len(values)


def _decimal_sum(values: list[object]) -> Decimal:
    total = Decimal(0).scaleb(-max(_scale(value) for value in values))
    for value in values:
        assert isinstance(value, Decimal)
        total = _WIDE.add(total, value)
    return total


def _scale(value: object) -> int:
    assert isinstance(value, Decimal)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return max(-exponent, 0)


def _whole(aggregate: Aggregate, values: list[object]) -> list[int]:
    whole = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(whole) != len(values):
        raise _not_numbers(aggregate)
    return whole


def _doubles(aggregate: Aggregate, values: list[object]) -> list[float]:
    numbers = [
        # adding zero makes negative zero zero: the two are equal, so which one sorting finds would be chance
        float(value) + 0.0
        for value in values
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    ]
    if len(numbers) != len(values):
        raise _not_numbers(aggregate)
    return numbers


def _not_numbers(aggregate: Aggregate) -> UsageError:
    return UsageError(
        f"'{aggregate.argument}' is not a number, which {aggregate.function} needs",
        key=f"query.aggregates.{aggregate.name}",
        hint=f"write {aggregate.function}(CAST({aggregate.argument} AS DOUBLE))",
    )


def _variance(aggregate: Aggregate, values: list[object]) -> float | None:
    """Two passes: the mean, then the exact sum of squared distances over n - 1 (sample) or n (population)."""
    numbers = _doubles(aggregate, values)
    divisor = len(numbers) - (1 if aggregate.function.endswith("_samp") else 0)
    if divisor == 0:
        return None
    mean = exact_sum(numbers) / len(numbers)
    return exact_sum([(number - mean) * (number - mean) for number in numbers]) / divisor


def _deviation(aggregate: Aggregate, values: list[object]) -> float | None:
    variance = _variance(aggregate, values)
    return None if variance is None else math.sqrt(variance)


def _percentile_cont(aggregate: Aggregate, values: list[object]) -> float:
    """Linear between the two values next to position ``(n - 1) * p`` of the sorted values (Q55)."""
    numbers = _sorted(aggregate, values)
    assert aggregate.parameter is not None
    position = (len(numbers) - 1) * aggregate.parameter
    low, high = math.floor(position), math.ceil(position)
    if low == high or numbers[low] == numbers[high]:
        return numbers[low]
    return (high - position) * numbers[low] + (position - low) * numbers[high]


def _percentile_disc(aggregate: Aggregate, values: list[object]) -> float:
    """The first of the sorted values whose cumulative share ``k / n`` reaches p (Q55)."""
    numbers = _sorted(aggregate, values)
    assert aggregate.parameter is not None
    share = aggregate.parameter
    return next(number for rank, number in enumerate(numbers, 1) if rank / len(numbers) >= share)


def _sorted(aggregate: Aggregate, values: list[object]) -> list[float]:
    descending = any(key.descending for key in aggregate.order_by)
    return sorted(_doubles(aggregate, values), key=order_key, reverse=descending)


def _plain_zero(value: object) -> object:
    return value + 0.0 if isinstance(value, float) else value


_POSITIONAL: dict[str, Callable[[Sequence[object]], object]] = {
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}
_OVER_VALUES: dict[str, Callable[[Aggregate, list[object]], object]] = {
    "sum": _sum,
    "avg": _avg,
    "min": lambda _, values: _plain_zero(min(values, key=order_key)),
    "max": lambda _, values: _plain_zero(max(values, key=order_key)),
    "stddev_samp": _deviation,
    "stddev_pop": _deviation,
    "var_samp": _variance,
    "var_pop": _variance,
    "percentile_cont": _percentile_cont,
    "percentile_disc": _percentile_disc,
}
