"""The columns of ``verdicts/<job>``, and which rows ``keep_verdicts: exceptions`` keeps."""

from __future__ import annotations

from collections.abc import Sequence

VERDICT_FIELDS: tuple[tuple[str, str], ...] = (
    ("input", "string"),
    ("input_partition", "int"),
    ("sequence", "bigint"),
    ("arrival_time", "timestamp"),
    ("event_time", "timestamp"),
    ("verdict", "string"),
    ("reasons", "array<string>"),
    ("system_timestamp", "timestamp"),
    ("lifetime_end", "timestamp"),
    ("watermark", "timestamp"),
    ("missed_windows", "array<timestamp>"),
)
"""Names and Spark SQL types, in the order of the table; its partition column ``arrival_date`` comes after them."""


def is_exception(verdict: str, reasons: Sequence[str]) -> bool:
    """Whether an event has another verdict than ``accepted``, or a reason."""
    return verdict != "accepted" or bool(reasons)


IS_EXCEPTION_SQL = "(verdict <> 'accepted' OR size(reasons) > 0)"
""":func:`is_exception` as Spark SQL over the columns of the table."""
