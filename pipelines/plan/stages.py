"""The stages of a replay as data, which a plan shows, a run evaluates, and progress counts.

:func:`describe` gives a stage as a sentence, for ``tailrace plan``, Dagster's log and progress;
:mod:`pipelines.replay.evaluate` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from pipelines.core.intervals import format_ends
from pipelines.core.model import OutputRange
from pipelines.core.time import format_instant
from pipelines.plan.definition import Plan, ReadReference, ReadTable, SummaryUse, Writer, WrittenTable
from pipelines.plan.watermark_strategy import WatermarkStrategy


@dataclass(frozen=True, slots=True)
class KeepSummary:
    """Write the days of a log's summary that the plan had to make to the cache."""

    summary: SummaryUse


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Open the arrivals of a read range in one log."""

    table: ReadTable


@dataclass(frozen=True, slots=True)
class ReadSnapshots:
    """Open reference data: a static set, or some of its snapshots."""

    reference: ReadReference


@dataclass(frozen=True, slots=True)
class Compute:
    """Decide every event, form the windows and count both, before anything is written.

    ``sorting`` replaces ``strategy`` where a file turns out not to be in order.
    """

    strategy: WatermarkStrategy
    sorting: WatermarkStrategy
    writer: Writer


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace the rows of the output range in one table, in one commit."""

    table: WrittenTable
    output: OutputRange


@dataclass(frozen=True, slots=True)
class WriteAside:
    """Write the rows of the output range to a side table, ``folder/table``, which then has these rows alone."""

    table: WrittenTable
    folder: str

    @property
    def place(self) -> str:
        """The name of the side table."""
        return f"{self.folder}/{self.table.table}"


Stage = KeepSummary | ReadLog | ReadSnapshots | Compute | Replace | WriteAside


def stages_of(plan: Plan) -> tuple[Stage, ...]:
    """The stages in the order in which they run; each output is committed after the one before it."""
    if plan.slices:
        return tuple(stage for one in plan.slices for stage in stages_of(one))
    return (
        *(KeepSummary(one) for one in plan.summaries if one.unsaved is not None),
        *map(ReadLog, plan.reads),
        *map(ReadSnapshots, plan.references),
        Compute(plan.strategy, plan.sorting, plan.writer),
        *(WriteAside(one, plan.preview) if plan.preview else Replace(one, plan.output) for one in plan.writes),
    )


def describe(stage: Stage) -> str:
    """The stage in one sentence, without a full stop."""
    match stage:
        case KeepSummary(one):
            return f"write {one.days_made} new days to {one.table}"
        case ReadLog(one):
            read = one.read
            rows = "an unknown number of rows" if one.rows is None else f"at most {one.rows} of {one.rows_total} rows"
            end = "empty" if one.end_of_log_us is None else f"ends at {format_instant(one.end_of_log_us)}"
            return (
                f"read the arrivals [{format_ends(read.from_us, read.to_us)}] of {one.table} at version {one.version}:"
                f" {rows}, {one.files} of {one.files_total} files, {format_bytes(one.size_bytes)}; the log {end}"
            )
        case ReadSnapshots(one):
            which = "" if one.snapshots_us is None else f"{_snapshots(one.snapshots_us)} of "
            return f"read {which}{one.table} at version {one.version}: {one.rows} rows"
        case Compute(strategy, _, writer):
            results = "collect the results on the driver" if writer == "driver" else "write the results by Spark"
            return f"find watermarks by '{strategy.verdicts}' ({strategy.reason}) and {results}"
        case Replace(one, output):
            before = "not yet written" if one.version is None else f"version {one.version}"
            rows = "" if not one.replaced_rows else f", at most {one.replaced_rows} present rows"
            ends = format_ends(output.from_us, output.to_us)
            return f"replace {one.table} ({before}) where {one.column} is in [{ends}){rows}"
        case WriteAside():
            return f"write {stage.place}, a side table"
        case _ as never:
            assert_never(never)


def describe_plan(plan: Plan) -> Iterator[str]:
    """The plan line by line: its range, what sets its read range, its stages, and whether it is settled."""
    yield f"replay {plan.job} over [{format_ends(plan.output.from_us, plan.output.to_us)})"
    yield f"read range: {plan.read.rule}"
    yield from map(str, plan.paths)
    yield from plan.read.reasons
    yield from map(_initial_state, plan.summaries)
    if plan.slices:
        yield f"in {len(plan.slices)} slices, one after another, each committed before the next begins"
    yield from map(describe, stages_of(plan))
    yield "settled: no later arrival changes the result" if plan.settled else f"unsettled: {plan.unsettled}"
    yield from (f"note: {note}" for note in plan.notes)


def _initial_state(one: SummaryUse) -> str:
    """The source of an input's initial state, and what it costs."""
    begin = f"initial state of {one.input} from {one.table}"
    if not one.days_made:
        return f"{begin}: it has all {one.days} days of arrivals"
    return (
        f"{begin}: it lacks {one.days_made} of {one.days} days of arrivals, which took one pass over columns of"
        f" {one.rows} rows in {one.files} files, {format_bytes(one.size_bytes)}"
    )


def _snapshots(instants_us: tuple[int, ...]) -> str:
    if not instants_us:
        return "no snapshot"
    if len(instants_us) == 1:
        return f"the snapshot of {format_instant(instants_us[0])}"
    return f"{len(instants_us)} snapshots of {format_instant(instants_us[0])} to {format_instant(instants_us[-1])}"


def format_bytes(size_bytes: int) -> str:
    """Bytes for a person: ``98.9 KiB``."""
    found = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if found < 1024:
            return f"{found:.0f} {unit}" if unit == "B" else f"{found:.1f} {unit}"
        found /= 1024
    return f"{found:.1f} TiB"
