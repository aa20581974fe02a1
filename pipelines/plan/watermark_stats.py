"""What a first pass over a log says of its watermarks, for buckets of arrival time: little, and worth remembering."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Protocol

from pipelines.core.model import Job, OutputRange, StreamAnalyticsOrdering
from pipelines.core.time import DAY, MINUTE
from pipelines.plan.watermark_strategy import cell_of, origin_of

WIDTH_US = 15 * MINUTE
"""Of a bucket; buckets do not cross midnights."""
MOST_FACTS = 500_000
"""More would not fit the driver's memory with ease."""


@dataclass(frozen=True, slots=True)
class CellsOfWatermark:
    """A grid of cells ``(end - width, end]``, named by their ends; an event's is that of its time less the tolerance,
    which it takes the watermark to."""

    width_us: int
    origin_us: int
    out_of_order_us: int


@dataclass(frozen=True, slots=True)
class Asked:
    """All that the facts of an input hang on, beside its files: what an event's time is, and the cells of it."""

    timestamp_by: str | None
    over: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    early_us: int | None
    late_us: int | None
    cells: CellsOfWatermark | None

    @property
    def digest(self) -> str:
        """What names this in a table."""
        text = json.dumps([_FORMAT, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_FORMAT = 2
"""Part of every digest: raised whenever a fact of one name comes to mean something else."""


def asked_of(job: Job, input_name: str, *, in_cells: bool) -> Asked:
    """What a job of profile stream_analytics asks of an input; ``in_cells``: by the cells of its query's windows."""
    source, policy = job.input(input_name), job.ordering(input_name)
    assert isinstance(policy, StreamAnalyticsOrdering), f"input {input_name} has the ordering of another profile"
    width_us = cell_of(job) if in_cells else None
    return Asked(
        timestamp_by=source.timestamp_by,
        over=source.over,
        columns=tuple((column.name, column.type) for column in source.columns),
        early_us=policy.early_arrival_us,
        late_us=policy.late_arrival_us,
        cells=None if width_us is None else CellsOfWatermark(width_us, origin_of(job), policy.out_of_order_us),
    )


class Fact(NamedTuple):
    """Of the events of one partition and bucket of arrival, and one cell where cells were asked for.

    ``in_range``: those of its ``rows`` that arrived in the output range. ``lead_us``: by how much a time was ahead of
    its arrival at most.
    """

    partition: int
    bucket: int
    cell_us: int | None
    rows: int
    in_range: int
    least_sequence: int
    greatest_sequence: int
    least_time_us: int | None
    greatest_time_us: int | None
    lead_us: int | None
    least_arrival_us: int

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
    """Remembers facts of the days of a log, for as long as the day's files are the same."""

    def recall(self, input_name: str, asked: Asked) -> Recalled:
        """What is known of the days that are to be read."""
        ...

    def learn(self, input_name: str, asked: Asked, found: Sequence[Fact]) -> None:
        """What a pass found of the other days."""
        ...
