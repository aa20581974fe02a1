"""SQL's equality and order of payload values.

The payload of an :class:`~pipelines.core.model.Arrival` has instants as ``int`` microseconds, dates, floats, decimals,
text, booleans, None.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

_NAN = "NaN"


def grouping_key(value: Any) -> Hashable:
    """``value`` as SQL groups it: null equals null, NaN equals NaN, -0.0 equals 0.0.

    >>> grouping_key(float("nan")) == grouping_key(float("nan")), grouping_key([1, -0.0]) == grouping_key([1, 0.0])
    (True, True)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return (_NAN,) if math.isnan(value) else value + 0.0
    if isinstance(value, (list, tuple)):
        return tuple([grouping_key(item) for item in value])
    if isinstance(value, dict):
        return tuple((grouping_key(key), grouping_key(item)) for key, item in value.items())
    # numbers, dates and truth values, which are hashable
    return value  # type: ignore[no-any-return]


def grouped_value(value: object) -> object:
    """The value that a result shows for a group, a minimum or a maximum: 0.0 instead of -0.0, inside arrays too."""
    if isinstance(value, dict):
        return {key: grouped_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(grouped_value, value))
    return value + 0.0 if isinstance(value, float) else value


def order_key(value: object) -> tuple[object, ...]:
    """A sort key in SQL's order: null first, NaN last of all numbers, text by code point, false before true.

    >>> sorted([1.5, float("nan"), None, -2.0], key=order_key)
    [None, -2.0, 1.5, nan]
    """
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    if isinstance(value, (list, tuple)):
        return (1, tuple(order_key(item) for item in value))
    if isinstance(value, dict):
        return (1, tuple(order_key(item) for item in value.values()))
    return (1, 0, value)
