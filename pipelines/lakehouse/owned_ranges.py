"""Which run wrote which part of an output range last, by the run ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.core.intervals import inside, outside
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import from_datetime
from pipelines.lakehouse.runs import SUCCEEDED

_MAPS = ("counts_by_verdict", "versions_read", "versions_written", "rows_written")


@dataclass(frozen=True, slots=True)
class OwnedRange:
    """The ``parts`` of a range that ``run``, a row of the ledger, wrote last.

    ``written`` is the run's output range; ``whole``: no later run wrote over any of it.
    """

    run: Mapping[str, Any]
    written: OutputRange
    parts: tuple[OutputRange, ...]
    whole: bool

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return str(self.run["run_id"])


def owned_ranges(runs: Sequence[Mapping[str, Any]], output: OutputRange) -> tuple[list[OwnedRange], list[OutputRange]]:
    """What each successful run (``runs`` oldest first) wrote last of ``output``, newest first; the parts none wrote."""
    free = [EVERYTHING]
    found = []
    for run in reversed(runs):
        if run["status"] != SUCCEEDED:
            continue
        written = output_of(run)
        left = inside(free, written)
        parts = tuple(inside(left, output))
        if parts:
            plain = {**run, **{name: dict(run[name] or {}) for name in _MAPS}}
            found.append(OwnedRange(plain, written, parts, left == [written]))
        free = outside(free, written)
    return found, inside(free, output)


def output_of(run: Mapping[str, Any]) -> OutputRange:
    """The output range of a row of the ledger."""
    return OutputRange(*(None if run[end] is None else from_datetime(run[end]) for end in ("output_from", "output_to")))
