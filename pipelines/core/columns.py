"""Names of payload columns: fields of events and properties of records may have names that a table refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

LOG_COLUMNS = frozenset(
    {
        *("arrival_time", "input_partition", "sequence", "kind", "punctuation_time", "cause", "batch_id"),
        "arrival_date",
    }
)
"""Columns of the arrival log itself."""

_UNFIT = re.compile(r"[^A-Za-z0-9_]")


def stored_property(name: str) -> str:
    """What a table calls a property of a record: ``_`` for what is no letter, digit or ``_``, and before a digit."""
    plain = _UNFIT.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


def stored_name(name: str) -> str:
    """What a table calls a payload column: as a property, with ``_`` after the name of a column of the log."""
    plain = stored_property(name)
    return f"{plain}_" if plain.lower() in LOG_COLUMNS else plain


def is_called(stored: str, name: str) -> bool:
    """Does ``name``, in any case, mean the column or property that is stored as ``stored``?"""
    return stored.lower() in (name.lower(), stored_property(name).lower(), stored_name(name).lower())


def under_their_names(record: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The record with keys under the names that columns or properties are stored under, where those are no keys."""
    wanted = {name.lower(): name for name in names if name not in record}
    found: dict[str, Any] = {}
    for key, value in record.items():
        forms = (one.lower() for one in (str(key), stored_name(str(key)), stored_property(str(key))))
        found[next((wanted.pop(form) for form in forms if form in wanted), key)] = value
    return found
