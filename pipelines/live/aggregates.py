"""Aggregates of the live run: one window's values to one value, the same bits in whatever pieces they come.

Rules: a sum of doubles is the correctly rounded sum of the exact values; a mean is that sum over n; a variance is the
exact sum of the squared distances from the mean over n or n - 1. Decimals are exact, and their mean is rounded half
up at four digits more than they have. Whole numbers must stay within BIGINT.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Aggregate
from pipelines.core.values import grouping_key, order_key

_BIGINT_MAX = 2**63 - 1
_EXACT = Context(prec=120)
_MOST_DIGITS = 38


def aggregate(one: Aggregate, values: Sequence[Any]) -> Any:
    """``one`` over ``values``: a value for each row, by system timestamp, then arrival.

    Nulls are passed over, except by ``count(*)``, ``first`` and ``last``. Without values a count is 0, a collection
    empty, everything else null. :class:`DataRefused` where a sum of whole numbers leaves BIGINT.
    """
    function = one.function
    if function == "count" and one.argument is None:
        return len(values)
    if function == "first":
        return values[0] if values else None
    if function == "last":
        return values[-1] if values else None
    present = [value for value in values if value is not None]
    if function == "count":
        return len({grouping_key(value) for value in present}) if one.distinct else len(present)
    if function == "collect":
        return present
    return _FUNCTIONS[function](one, present) if present else None


def total_of_doubles(values: Sequence[float]) -> float:
    """The double nearest to the exact sum; NaN where one is NaN or infinities cancel."""
    try:
        return math.fsum(values) + 0.0
    except (OverflowError, ValueError):
        pass
    if not all(map(math.isfinite, values)):
        # fsum refuses what would be NaN: infinities of both signs
        ends = {value for value in values if not math.isfinite(value)}
        return ends.pop() if len(ends) == 1 else math.nan
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _sum(one: Aggregate, values: list[Any]) -> Any:
    kind = _kind(one, values)
    if kind is float:
        return total_of_doubles(values)
    if kind is Decimal:
        return _total_of_decimals(values)
    total = sum(values)
    if abs(total) > _BIGINT_MAX and total != -_BIGINT_MAX - 1:
        raise DataRefused(
            f"the sum of '{one.argument}' leaves the range of BIGINT",
            key=f"query.aggregates.{one.name}",
            hint="sum a DECIMAL or a DOUBLE instead",
        )
    return total


def _avg(one: Aggregate, values: list[Any]) -> Any:
    kind = _kind(one, values)
    if kind is float:
        return total_of_doubles(values) / len(values)
    if kind is int:
        return float(sum(values)) / len(values)
    digits = min(_scale(values) + 4, _MOST_DIGITS)
    mean = _EXACT.divide(_total_of_decimals(values), Decimal(len(values)))
    return mean.quantize(Decimal((0, (1,), -digits)), rounding=ROUND_HALF_UP, context=_EXACT)


def _total_of_decimals(values: list[Decimal]) -> Decimal:
    unit = Decimal((0, (1,), -_scale(values)))
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total.quantize(unit, context=_EXACT)


def _scale(values: list[Decimal]) -> int:
    return max(-min(int(value.as_tuple().exponent), 0) for value in values)


def _kind(one: Aggregate, values: list[Any]) -> type:
    for kind in (float, Decimal, int):
        if all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            return kind
    raise UsageError(
        f"'{one.argument}' is not a number, which {one.function} needs",
        key=f"query.aggregates.{one.name}",
        hint=f"write {one.function}(CAST({one.argument} AS DOUBLE))",
    )


def _variance(one: Aggregate, values: list[Any]) -> float | None:
    _kind(one, values)
    numbers = [float(value) for value in values]
    count = len(numbers)
    over = count - 1 if one.function.endswith("_samp") else count
    if over == 0:
        return None
    mean = total_of_doubles(numbers) / count
    return total_of_doubles([(number - mean) * (number - mean) for number in numbers]) / over


def _deviation(one: Aggregate, values: list[Any]) -> float | None:
    variance = _variance(one, values)
    return None if variance is None else math.sqrt(variance)


def _sorted_doubles(one: Aggregate, values: list[Any]) -> list[float]:
    _kind(one, values)
    # a percentile counts from the greatest value where it is ordered so (Q55)
    descending = any(key.descending for key in one.order_by)
    return sorted((float(value) for value in values), key=order_key, reverse=descending)


def _percentile_cont(one: Aggregate, values: list[Any]) -> float:
    numbers = _sorted_doubles(one, values)
    assert one.parameter is not None
    place = one.parameter * (len(numbers) - 1)
    below, above = math.floor(place), math.ceil(place)
    if below == above or numbers[below] == numbers[above]:
        return numbers[below]
    return (above - place) * numbers[below] + (place - below) * numbers[above]


def _percentile_disc(one: Aggregate, values: list[Any]) -> float:
    numbers = _sorted_doubles(one, values)
    assert one.parameter is not None
    count, wanted = len(numbers), one.parameter
    return next(number for place, number in enumerate(numbers, start=1) if place / count >= wanted)


_FUNCTIONS: dict[str, Callable[[Aggregate, list[Any]], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "min": lambda _, values: min(values, key=order_key),
    "max": lambda _, values: max(values, key=order_key),
    "stddev_samp": _deviation,
    "stddev_pop": _deviation,
    "var_samp": _variance,
    "var_pop": _variance,
    "percentile_cont": _percentile_cont,
    "percentile_disc": _percentile_disc,
}
