"""Names of payload columns: fields of events and properties of records may have names that a table refuses."""

from __future__ import annotations

import re

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
