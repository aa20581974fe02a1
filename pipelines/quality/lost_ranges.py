"""The output ranges that failed or killed runs left, and that no later run has replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.core.intervals import inside, outside
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import from_datetime
from pipelines.lakehouse.owned_ranges import output_of
from pipelines.lakehouse.runs import ABANDONED, FAILED, RUNNING, SUCCEEDED

End = Literal["killed", "failed", "done", "cancelled"]
"""How a run ended: its process is gone, it raised an error, it succeeded or is running, or a person cancelled it."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run over ``output`` ended; ``at_us`` orders it among others; ``error`` is a sentence, or empty."""

    run_id: str
    output: OutputRange
    at_us: int
    end: End
    error: str = ""


@dataclass(frozen=True, slots=True)
class LostRange:
    """An output range, and the failed or killed run that was the last one over it."""

    output: OutputRange
    run: RunOutcome


def lost_ranges(outcomes: Iterable[RunOutcome]) -> list[LostRange]:
    """The parts of the ranges of failed and killed runs that no later run covers, newest failure first.

    The last run over an instant decides for it. The rows that a failed run left do not matter: a replay of the range
    replaces them.
    """
    free = [EVERYTHING]
    found = []
    for run in sorted(outcomes, key=lambda run: (run.at_us, run.run_id), reverse=True):
        if run.end in ("killed", "failed"):
            found += [LostRange(part, run) for part in sorted(inside(free, run.output), key=_start)]
        free = outside(free, run.output)
    return found


def outcomes_of(runs: Iterable[Mapping[str, Any]]) -> list[RunOutcome]:
    """The outcome of each replay in the run ledger. A run ended by Ctrl-C is not lost, but cancelled."""
    return [
        RunOutcome(run["run_id"], output_of(run), from_datetime(run["started_at"]), _end(run), run["error"] or "")
        for run in runs
        if run["kind"] == "replay"
    ]


def _end(run: Mapping[str, Any]) -> End:
    if run["status"] == ABANDONED:
        return "killed"
    if run["status"] == FAILED:
        return "cancelled" if run["error"].startswith("KeyboardInterrupt") else "failed"
    assert run["status"] in (RUNNING, SUCCEEDED), run["status"]
    return "done"


def _start(output: OutputRange) -> tuple[bool, int]:
    return (output.from_us is not None, output.from_us or 0)
