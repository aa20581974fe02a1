"""Operations on half-open ranges ``[from, to)`` of instants; an end of None is open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date

from pipelines.core.model import OutputRange
from pipelines.core.time import DAY, MAX_INSTANT_US, MIN_INSTANT_US, to_datetime


def common(left: OutputRange, right: OutputRange) -> OutputRange | None:
    """The intersection of both; None if it is empty."""
    from_us = max(_bounds(left)[0], _bounds(right)[0])
    to_us = min(_bounds(left)[1], _bounds(right)[1])
    return _range(from_us, to_us) if from_us < to_us else None


def inside(ranges: Iterable[OutputRange], limit: OutputRange) -> list[OutputRange]:
    """The parts of ``ranges`` that are in ``limit``."""
    return [part for each in ranges if (part := common(each, limit)) is not None]


def outside(ranges: Iterable[OutputRange], limit: OutputRange) -> list[OutputRange]:
    """The parts of ``ranges`` that are not in ``limit``."""
    limit_from_us, limit_to_us = _bounds(limit)
    found = []
    for from_us, to_us in map(_bounds, ranges):
        for first_us, last_us in ((from_us, min(to_us, limit_from_us)), (max(from_us, limit_to_us), to_us)):
            if first_us < last_us:
                found.append(_range(first_us, last_us))
    return found


def days_of(output: OutputRange) -> Iterator[tuple[date, OutputRange]]:
    """Every UTC day that ``output`` touches, with the part of ``output`` in it; both ends must be given."""
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
