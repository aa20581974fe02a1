"""Lengths and positions as .NET counts them: a character beyond U+FFFF counts as two, to Spark as one."""

from __future__ import annotations

from pipelines.job.sql.expressions.values import Value, strict, text
from pipelines.job.sql.types import TEXT

_BEYOND = Value(text(r"([\x{10000}-\x{10FFFF}])"), TEXT)
_FILLER = r"\uFFFF"
"""No character of any text."""


def filled(value: Value) -> Value:
    """The text with a filler behind each character that counts as two."""
    return strict(f"regexp_replace({{0}}, {{1}}, '$1{_FILLER}')", TEXT, value, _BEYOND)


def emptied(value: Value) -> Value:
    """The text without the fillers. Where a character was cut in two, the part with its first half has it whole."""
    return strict(f"replace({{0}}, '{_FILLER}', '')", TEXT, value)
