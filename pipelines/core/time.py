"""Instants and durations: text at the edge, microseconds as ``int`` inside."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
UNIT_US = {
    "microsecond": MICROSECOND,
    "millisecond": MILLISECOND,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
}
"""Length of a DATEDIFF unit, by the name that a job file gives it."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORIGIN_0001_US = -719_162 * DAY
"""0001-01-01T00:00:00Z, where the grids of stream_analytics and stream_insight begin."""
MIN_INSTANT_US = ORIGIN_0001_US
MAX_INSTANT_US = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z, the last instant that tables can hold."""

_INSTANT = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<hm>\d{2}:\d{2})(?::(?P<s>\d{2})(?:[.,](?P<frac>\d+))?)?)?"
    r"\s*(?P<zone>Z|z|[+-]\d{2}:?\d{2})?"
)
_UNITS_US = {
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
    "d": DAY,
    "w": WEEK,
}
_SHORT_PART = re.compile(r"(\d+)(us|µs|ms|s|m|h|d|w)")
_SHORT = re.compile(r"(?:\d+(?:us|µs|ms|s|m|h|d|w))+")
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)(?:[.,](?P<frac>\d{1,6}))?S)?)?"
)


def date_of(day: int) -> date:
    """The UTC date of a day counted from 1970-01-01."""
    return EPOCH.date() + timedelta(days=day)


def day_of(day: date) -> int:
    """Days from 1970-01-01 to the date."""
    return (day - EPOCH.date()).days


def parse_instant(text: str, *, truncate: bool = False) -> int:
    """Microseconds since the epoch of an ISO 8601 instant; the default zone is UTC; a date is its midnight.

    Raises :class:`ValueError` for digits after the sixth of a fraction, unless they are zeros or ``truncate`` is set.
    """
    match = _INSTANT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not an instant; write it like 2026-01-01T12:07:00Z")
    fraction = match["frac"] or ""
    if len(fraction) > 6 and fraction[6:].strip("0") and not truncate:
        raise ValueError(f"'{text}' has more than six fractional digits; times here are whole microseconds")
    zone = (match["zone"] or "Z").upper().replace("Z", "+00:00")
    clock = f"{match['hm'] or '00:00'}:{match['s'] or '00'}"
    try:
        moment = datetime.fromisoformat(f"{match['date']}T{clock}{zone}")
        whole_us = (moment - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"'{text}' is not an instant: {error}") from None
    instant_us = whole_us + int(fraction[:6].ljust(6, "0") or 0)
    if not MIN_INSTANT_US <= instant_us <= MAX_INSTANT_US:
        raise ValueError(f"'{text}' is outside the years 1 to 9999")
    return instant_us


def format_instant(instant_us: int) -> str:
    """ISO 8601 in UTC: whole seconds without a fraction, else with six digits."""
    moment = EPOCH + timedelta(microseconds=instant_us)
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds" if moment.microsecond else "seconds")
    return f"{text}Z"


def parse_duration(text: str) -> int:
    """Microseconds of ``250ms``, ``90s``, ``5m``, ``1h30m``, ``2d``, ``-1us`` or ISO 8601 ``PT5M``.

    >>> parse_duration("1h30m"), parse_duration("PT5M"), parse_duration("-1us")
    (5400000000, 300000000, -1)
    """
    body = text.strip()
    sign = 1
    if body[:1] in "+-" and body:
        sign = -1 if body[0] == "-" else 1
        body = body[1:]
    if body == "0":
        return 0
    if _SHORT.fullmatch(body):
        return sign * sum(int(count) * _UNITS_US[unit] for count, unit in _SHORT_PART.findall(body))
    match = _ISO.fullmatch(body.upper())
    if match is not None and any(match.groupdict().values()) and not body.upper().endswith("T"):
        total_us = sum(int(match[unit] or 0) * _UNITS_US[unit] for unit in ("w", "d", "h", "m", "s"))
        return sign * (total_us + int((match["frac"] or "0").ljust(6, "0")))
    raise ValueError(f"'{text}' is not a duration; write it like 250ms, 90s, 5m, 1h30m, 2d or PT5M")


def format_duration(duration_us: int) -> str:
    """The shortest plain form, ``1h30m``; zero is ``0s``."""
    if duration_us == 0:
        return "0s"
    rest = abs(duration_us)
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, _UNITS_US[unit])
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if duration_us < 0 else "") + "".join(parts)


def to_datetime(instant_us: int) -> datetime:
    """The same instant as an aware :class:`datetime` in UTC."""
    return EPOCH + timedelta(microseconds=instant_us)


def from_datetime(moment: datetime) -> int:
    """Microseconds since the epoch; a ``moment`` without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)
