"""Half-open ranges ``[from, to)`` of instants, whose ends may be open (None): operations on them, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date

from pipelines.core.errors import UsageError
from pipelines.core.model import OutputRange
from pipelines.core.time import DAY, MAX_INSTANT_US, MIN_INSTANT_US, format_instant, parse_instant, to_datetime


def parse_range(from_: str | None, to: str | None, names: tuple[str, str] = ("from", "to")) -> OutputRange:
    """The range between two instants; None leaves a side open. ``names`` are the keys that an error names.

    Raises :class:`UsageError` for text that is no instant, and for a range that contains nothing.
    """
    ends_us: list[int | None] = []
    for name, text in zip(names, (from_, to), strict=True):
        try:
            ends_us.append(None if text is None else parse_instant(text))
        except ValueError as error:
            raise UsageError(str(error), key=name) from None
    output = OutputRange(*ends_us)
    if output.from_us is not None and output.to_us is not None and output.from_us >= output.to_us:
        raise UsageError(f"{names[0]} must be before {names[1]}: the range is half-open", key=names[0])
    return output


def format_range(output: OutputRange) -> str:
    """``[2013-01-01T00:00:00Z, the end)``"""
    return f"[{format_ends(output.from_us, output.to_us)})"


def format_ends(from_us: int | None, to_us: int | None) -> str:
    """Both ends of a range, without its brackets."""
    first = "the beginning" if from_us is None else format_instant(from_us)
    return f"{first}, {'the end' if to_us is None else format_instant(to_us)}"


def common(left: OutputRange, right: OutputRange) -> OutputRange | None:
    """The intersection of both; None if it is empty."""
    from_us = max(_bounds(left)[0], _bounds(right)[0])
    to_us = min(_bounds(left)[1], _bounds(right)[1])
    return _range(from_us, to_us) if from_us < to_us else None


def inside(ranges: Iterable[OutputRange], limit: OutputRange) -> list[OutputRange]:
    """The parts of ``ranges`` that are in ``limit``."""
    return [part for each in ranges if (part := common(each, limit)) is not None]


def outside(ranges: Iterable[OutputRange], limit: OutputRange) -> list[OutputRange]:
    """The parts of ``ranges`` that are not in ``limit``.

    >>> outside([OutputRange(0, 10)], OutputRange(4, 6))
    [OutputRange(from_us=0, to_us=4), OutputRange(from_us=6, to_us=10)]
    """
    limit_from_us, limit_to_us = _bounds(limit)
    found = []
    for from_us, to_us in map(_bounds, ranges):
        for first_us, last_us in ((from_us, min(to_us, limit_from_us)), (max(from_us, limit_to_us), to_us)):
            if first_us < last_us:
                found.append(_range(first_us, last_us))
    return found


def days_of(output: OutputRange) -> Iterator[tuple[date, OutputRange]]:
    """Every UTC day that ``output`` touches, with the part of ``output`` in it; both ends must be given.

    >>> for day, part in days_of(parse_range("2026-01-01T18:00Z", "2026-01-02T06:00Z")):
    ...     print(day, format_range(part))
    2026-01-01 [2026-01-01T18:00:00Z, 2026-01-02T00:00:00Z)
    2026-01-02 [2026-01-02T00:00:00Z, 2026-01-02T06:00:00Z)
    """
    assert output.from_us is not None, "an open range has no first day"
    assert output.to_us is not None, "an open range has no last day"
    for day_us in range(output.from_us // DAY * DAY, output.to_us, DAY):
        part = OutputRange(max(day_us, output.from_us), min(day_us + DAY, output.to_us))
        yield to_datetime(day_us).date(), part


def _bounds(output: OutputRange) -> tuple[int, int]:
    """``[from, to)`` in numbers; an open end is the least instant that a row can have, or one after the greatest."""
    from_us = MIN_INSTANT_US if output.from_us is None else output.from_us
    return from_us, MAX_INSTANT_US + 1 if output.to_us is None else output.to_us


def _range(from_us: int, to_us: int) -> OutputRange:
    return OutputRange(None if from_us <= MIN_INSTANT_US else from_us, None if to_us > MAX_INSTANT_US else to_us)
