"""Which snapshots of reference data an output range looks up (Q84 to Q87)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.core.model import Job, OutputRange
from pipelines.plan.extent import greatest
from pipelines.plan.paths import extents
from pipelines.plan.read_range import policy


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of ``[from, to)`` look snapshots up at ``[from - back_us, to + ahead_us)``; None: at any time.

    By system timestamp these are the extents of what comes after the join. A row arrives at most the guard before
    its system timestamp and at most the late tolerance after it, so by arrival time they are wider by these.
    """

    reference: str
    back_us: int | None
    ahead_us: int | None

    def times(self, output: OutputRange) -> OutputRange:
        """The times at which rows of the range look snapshots up."""
        return OutputRange(
            None if output.from_us is None or self.back_us is None else output.from_us - self.back_us,
            None if output.to_us is None or self.ahead_us is None else output.to_us + self.ahead_us,
        )


def lookups(job: Job) -> tuple[Lookup, ...]:
    """How the snapshots of each reference that an output reads are looked up; static sets are read whole."""
    extent_of = extents(job)
    found = []
    for one in job.references:
        if one.effective is None or one.name not in extent_of:
            continue
        extent = extent_of[one.name]
        early_us = late_us = 0 if one.time == "system_timestamp" else None
        if one.time == "arrival" and job.profile == "stream_analytics":
            policies = [policy(job, part.name) for part in job.inputs]
            early_us = greatest([each.early_arrival_us for each in policies])
            late_us = greatest([each.late_arrival_us for each in policies])
        back_us = None if extent.back_us is None or early_us is None else extent.back_us + early_us
        found.append(Lookup(one.name, back_us, None if late_us is None else extent.ahead_us + late_us))
    return tuple(found)


def snapshots_read(times: OutputRange, snapshots_us: Sequence[int]) -> tuple[int, ...]:
    """Of snapshots in rising order those in force at one of ``times``: the last one at or before its beginning, and
    all later ones before its end."""
    wanted = [us for us in snapshots_us if times.to_us is None or us < times.to_us]
    if times.from_us is None:
        return tuple(wanted)
    before = [us for us in wanted if us <= times.from_us]
    return tuple(wanted[max(len(before) - 1, 0) :])
