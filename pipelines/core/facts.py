"""What a first pass over a log says of its watermarks, for buckets of arrival time: little, and worth remembering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pipelines.core.model import OutputRange
from pipelines.core.time import DAY, MINUTE

WIDTH_US = 15 * MINUTE
"""Of a bucket; buckets do not cross midnights."""


class Fact(NamedTuple):
    """Of the events of one partition and bucket of arrival, and one cell where cells were asked for.

    What comes after ``lead_us`` is there where it was asked for.
    """

    partition: int
    bucket: int
    least_sequence: int
    greatest_time_us: int | None
    lead_us: int | None
    rows: int = 0
    in_range: int = 0
    greatest_sequence: int = 0
    least_time_us: int | None = None
    cell_us: int | None = None
    least_arrival_us: int = 0

    @property
    def arrival_us(self) -> int:
        """Where its bucket begins."""
        return self.bucket * WIDTH_US

    @property
    def day(self) -> int:
        """Its UTC day of arrival, in days since 1970."""
        return self.arrival_us // DAY


@dataclass(frozen=True)
class Recalled:
    """Facts of whole days that an earlier pass found; ``complete``: there are no other days to read."""

    each: tuple[Fact, ...] = ()
    days: frozenset[int] = frozenset()
    complete: bool = False

    def of(self, output: OutputRange) -> Recalled:
        """With the events counted that arrived in ``output``: without days that it divides inside a bucket."""
        ends_us = [us for us in (output.from_us, output.to_us) if us is not None and us % WIDTH_US]
        divided = {us // DAY for us in ends_us} & self.days
        counted = [
            fact._replace(in_range=fact.rows if fact.arrival_us in output else 0)
            for fact in self.each
            if fact.day not in divided
        ]
        return Recalled(tuple(counted), self.days - divided, self.complete and not divided)


NOTHING = Recalled()


class Memory(Protocol):
    """Remembers facts of the days of a log, for as long as the day's files are the same.

    ``asked`` names all that the facts hang on beside the files.
    """

    def recall(self, input_name: str, asked: str) -> Recalled:
        """What is known of the days that are to be read."""
        ...

    def learn(self, input_name: str, asked: str, found: Sequence[Fact]) -> None:
        """What a pass found of the other days."""
        ...
