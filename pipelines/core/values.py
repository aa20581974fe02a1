"""SQL's view of values: which are equal in a grouping, and which comes first.

Payload values are what :class:`~pipelines.core.model.Arrival` carries: instants as ``int`` microseconds, dates, floats,
decimals, text, booleans, None.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

_NAN = "NaN"


def grouping_key(value: Any) -> Hashable:
    """``value`` as SQL groups it: null equals null, NaN equals NaN, -0.0 equals 0.0."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return (_NAN,) if math.isnan(value) else value + 0.0
    if isinstance(value, (list, tuple)):
        return tuple([grouping_key(item) for item in value])
    if isinstance(value, dict):
        return tuple((grouping_key(key), grouping_key(item)) for key, item in value.items())
    return value  # type: ignore[no-any-return]


def grouped_value(value: object) -> object:
    """The value that stands for its group in a result: -0.0 is shown as 0.0, inside arrays and structs too."""
    if isinstance(value, dict):
        return {key: grouped_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(grouped_value, value))
    return value + 0.0 if isinstance(value, float) else value


def order_key(value: object) -> tuple[object, ...]:
    """A sort key in SQL's order: null first, NaN last of all numbers, text by code point, false before true."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    if isinstance(value, (list, tuple)):
        return (1, tuple(order_key(item) for item in value))
    if isinstance(value, dict):
        return (1, tuple(order_key(item) for item in value.values()))
    return (1, 0, value)
