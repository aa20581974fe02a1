"""Results that the lakehouse has: the tables as they are, an older version, a preview, a run. And who wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.core.errors import UsageError
from pipelines.core.intervals import format_range, inside
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.lakehouse.layout import output_table, result_tables
from pipelines.lakehouse.owned_ranges import OwnedRange, output_of, owned_ranges
from pipelines.lakehouse.previews import PREVIEW, find_preview, previews_of
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import SUCCEEDED, runs_of

KINDS = ("version", "preview", "run")


@dataclass(frozen=True, slots=True)
class Stored:
    """A result of a job. ``places``: table and version of each of the job's result tables that it has.

    ``output``: the range that it has; ``owners``: the runs that wrote parts of it; ``table``: the only table that is
    meant, None: all of them.
    """

    name: str
    output: OutputRange
    places: Mapping[str, tuple[str, int]]
    owners: Sequence[OwnedRange]
    table: str | None = None

    def within(self, output: OutputRange) -> OutputRange:
        """The part of ``output`` that it has; :class:`UsageError` if that is nothing."""
        found = inside([self.output], output)
        if not found:
            ranges = f"{format_range(self.output)}, and nothing of {format_range(output)}"
            raise UsageError(f"{self.name} has {ranges}", hint="choose another range")
        return found[0]


def is_stored(against: str) -> bool:
    """Whether ``--against`` names a result of the lakehouse, not a live run's table."""
    return against.partition(":")[0] in KINDS and "://" not in against


def stored_now(lakehouse: Lakehouse, job: Job) -> Stored:
    """The tables as they are now."""
    found = {name: lakehouse.open(name) for name, _ in result_tables(job)}
    places = {name: (name, table.version()) for name, table in found.items() if table is not None}
    return Stored("the tables as they are", EVERYTHING, places, _owners(_replays(lakehouse, job)))


def stored(lakehouse: Lakehouse, job: Job, against: str, output_name: str | None = None) -> Stored:
    """The result that ``version:12``, ``preview:NAME`` or ``run:ID`` names.

    A version is one of the table of ``output_name``, which a job with several outputs needs. Raises
    :class:`UsageError` if there is no such result.
    """
    kind, _, name = against.partition(":")
    if kind == "preview":
        preview = find_preview(lakehouse, job.name, name)
        return _of_run(job, against, preview.run, preview.side_table)
    if kind == "run":
        run = next((run for run in runs_of(lakehouse, job.name) if run["run_id"] == name), None)
        if run is None or run["status"] != SUCCEEDED or run["kind"] not in ("replay", PREVIEW):
            raise UsageError(
                f"job {job.name} has no replay '{name}' that succeeded", hint="'tailrace show JOB runs' lists runs"
            )
        for preview in previews_of(lakehouse, job.name) if run["kind"] == PREVIEW else ():
            if preview.run_id == name:
                return _of_run(job, against, run, preview.side_table)
        return _of_run(job, against, run, str)
    if not name.isdecimal():
        raise UsageError(f"'{name}' is not a version", key="--against", hint="write it as version:12")
    table, version = output_table(job, output_name).table, int(name)
    if lakehouse.open(table, version) is None:
        raise UsageError(f"the table {table} was never written in {lakehouse.root}")
    before = [run for run in _replays(lakehouse, job) if dict(run["versions_written"] or {}).get(table, -1) <= version]
    return Stored(f"{table} at {against}", EVERYTHING, {table: (table, version)}, _owners(before), table)


def _of_run(job: Job, name: str, run: Mapping[str, Any], place: Any) -> Stored:
    written = dict(run["versions_written"])
    places = {
        table: (place(table), written[place(table)]) for table, _ in result_tables(job) if place(table) in written
    }
    if not places:
        raise UsageError(f"{name} has no results any more", hint="make it again")
    return Stored(name, output_of(run), places, _owners([run]))


def _replays(lakehouse: Lakehouse, job: Job) -> list[dict[str, Any]]:
    return [run for run in runs_of(lakehouse, job.name) if run["kind"] == "replay"]


def _owners(runs: Sequence[Mapping[str, Any]]) -> list[OwnedRange]:
    return owned_ranges(runs, EVERYTHING)[0]
