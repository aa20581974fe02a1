"""How the live run compares values: what is one group, and what comes first in SQL's order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any


def same(value: Any) -> Hashable:
    """A stand-in that is equal exactly where SQL groups values together: null with null, NaN with NaN, 0.0 with -0.0.

    The type stays part of it, so that ``True`` and ``1`` are not one group.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return ("nan",) if value != value else ("float", value + 0.0)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("dict", *((same(key), same(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return ("list", *(same(item) for item in value))
    return value  # type: ignore[no-any-return]


def all_same(values: Sequence[Any]) -> tuple[Hashable, ...]:
    """:func:`same` of each."""
    return tuple([same(value) for value in values])


def shown(value: Any) -> Any:
    """The value that a group shows for itself: -0.0 is 0.0, inside of structs and arrays too."""
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(shown, value))
    return value + 0.0 if isinstance(value, float) else value


def rank(value: Any) -> tuple[Any, ...]:
    """A sort key in SQL's order: null before everything, NaN above all numbers."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if value != value else (1, value)
    if isinstance(value, dict):
        return (1, [rank(item) for item in value.values()])
    if isinstance(value, (list, tuple)):
        return (1, [rank(item) for item in value])
    return (1, value)
