"""Which run wrote which part of an output range last, by the run ledger, and where rows of different origin meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.core.intervals import format_range, inside, outside
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import from_datetime
from pipelines.lakehouse.runs import RUNNING, SUCCEEDED

_SHOWN = 3
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


def origins(runs: Sequence[Mapping[str, Any]], job: Job, output: OutputRange) -> list[str]:
    """In sentences, what of ``output`` is not of one origin (``runs`` oldest first): the results of another version of
    the job file, those of several versions of Tailrace, and those of replays that did not come to their end."""
    replays = [run for run in runs if run["kind"] == "replay"]
    owned = owned_ranges(replays, output)[0]
    releases = {_release(one.run) for one in owned}
    found: dict[str, list[OutputRange]] = defaultdict(list)
    for one in owned:
        if one.run["job_fingerprint"] != job.fingerprint:
            found[f"another version of the job file{_what_differs(one.run, job)}"] += one.parts
        if len(releases) > 1:
            found[f"Tailrace {_release(one.run)}"] += one.parts
    mixed = [f"{_listed(parts)} has the results of {origin}" for origin, parts in found.items()]
    return [*mixed, *_unfinished(replays, output)]


def _unfinished(replays: Sequence[Mapping[str, Any]], output: OutputRange) -> Iterator[str]:
    free = [EVERYTHING]
    for run in reversed(replays):
        over = output_of(run)
        left = inside(inside(free, over), output)
        if run["status"] == SUCCEEDED:
            free = outside(free, over)
        elif left and run["status"] == RUNNING:
            yield f"run {run['run_id']} over {format_range(over)} is running or was killed: it replaces table by table"
        elif left and run["versions_written"]:
            tables = ", ".join(run["versions_written"])
            yield f"run {run['run_id']} over {format_range(over)} is {run['status']} after it has written {tables}"


def _what_differs(run: Mapping[str, Any], job: Job) -> str:
    before, now = dict(run["job_parts"] or {}), job.part_fingerprints
    differing = [name for name in now if before and before.get(name) != now[name]]
    return f", which differs in its {' and '.join(differing)}" if differing else ""


def _release(run: Mapping[str, Any]) -> str:
    return str(dict(run["engine"] or {}).get("tailrace", "of an unknown version"))


def _listed(parts: Sequence[OutputRange]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(map(format_range, parts[:_SHOWN])) + more
