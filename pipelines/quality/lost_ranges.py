"""Which output ranges failed or killed runs left behind, and nobody has mended since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.core.intervals import inside, outside
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import from_datetime
from pipelines.lakehouse.runs import ABANDONED, FAILED, RUNNING, SUCCEEDED

End = Literal["killed", "failed", "done", "left_alone"]
"""How a run ended: its process is gone, an error was raised, its output stands or is in the making, or a person stopped
it."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What one run did to an output range, ``at_us`` in time; ``error`` in a sentence where there was one."""

    run: str
    output: OutputRange
    at_us: int
    end: End
    error: str = ""


@dataclass(frozen=True, slots=True)
class Loss:
    """An output range whose last run did not end well."""

    output: OutputRange
    deed: Deed


def losses(deeds: Iterable[Deed]) -> list[Loss]:
    """The parts of the ranges of failed and killed runs that no later run has taken up, newest failure first.

    The last deed on an instant decides for it. What a failure left of a table is not looked at: running the range
    again gives the same rows whatever is there.
    """
    free = [EVERYTHING]
    found = []
    for deed in sorted(deeds, key=lambda deed: (deed.at_us, deed.run), reverse=True):
        if deed.end in ("killed", "failed"):
            pieces = inside(free, deed.output)
            found += [Loss(part, deed) for part in sorted(pieces, key=_begin)]
        free = outside(free, deed.output)
    return found


def deeds_of(runs: Iterable[Mapping[str, Any]]) -> list[Deed]:
    """The run ledger's rows of replays as deeds. Ctrl-C is a person's will, not a loss."""
    return [_deed(run) for run in runs if run["kind"] == "replay"]


def _deed(run: Mapping[str, Any]) -> Deed:
    ends = [None if run[name] is None else from_datetime(run[name]) for name in ("output_from", "output_to")]
    error = run["error"] or ""
    end: End
    match run["status"]:
        case status if status == ABANDONED:
            end = "killed"
        case status if status == FAILED:
            end = "left_alone" if error == "KeyboardInterrupt" else "failed"
        case status:
            assert status in (RUNNING, SUCCEEDED), status
            end = "done"
    return Deed(run["run_id"], OutputRange(*ends), from_datetime(run["started_at"]), end, error)


def _begin(output: OutputRange) -> tuple[bool, int]:
    return (output.from_us is not None, output.from_us or 0)
