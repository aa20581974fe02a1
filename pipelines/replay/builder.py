"""Make a plan from a job, an output range and what the Delta logs say. Starts no Spark and changes nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.intervals import outside
from pipelines.core.model import EVERYTHING, Input, Job, OutputRange
from pipelines.core.time import DAY, MAX_INSTANT_US, MIN_INSTANT_US, day_of, format_instant
from pipelines.lakehouse.arrival_log import (
    LogFile,
    data_files,
    end_of_log,
    log_files,
    missing_files,
    shows_all_rows,
)
from pipelines.lakehouse.cache.summaries import Summed
from pipelines.lakehouse.layout import Layout, arrivals_table, references_table, result_tables, summaries_table
from pipelines.lakehouse.log_history import LogHistory
from pipelines.lakehouse.owned_ranges import origins
from pipelines.lakehouse.reference_data import open_reference
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.lakehouse.schema import alike, arrivals_schema
from pipelines.lakehouse.sorted_files import sorted_files
from pipelines.plan.bounded_reads import BoundedReads, bounded_reads, why_whole_log
from pipelines.plan.definition import Plan, ReadReference, ReadTable, SummaryUse, WrittenTable, is_settled
from pipelines.plan.paths import extents, paths
from pipelines.plan.read_range import ReadRange, read_range
from pipelines.plan.snapshots import lookups, snapshots_read
from pipelines.plan.watermark_strategy import choose_strategy
from pipelines.replay.size import MOST_ROWS_OF_A_SLICE, slice_ends, writer_of

NAMED_FILES = 32
"""So many files a plan names one by one; Spark looks up more than that in a job of its own."""

MOST_READ_AGAIN = 1.5
"""A plan cuts a range by itself only where the slices together read no more than so many times what the whole does."""

AsOf = int | Mapping[str, int] | None
"""A version of every arrival log, or versions by input and by reference; None: the newest."""


class LogReads:
    """What outputs of ``job`` read of its logs: the one answer for plans, freshness, Dagster and explanations.

    ``tables``: the logs by input, opened at the newest version or ``as_of`` one. ``complete_us``: only the arrivals
    before it are known to be there. Summaries of the logs, where the job needs them, are asked for once.
    Raises :class:`UsageError` if an input has no log yet, lacks a column, or has no such version.
    """

    def __init__(self, job: Job, lakehouse: Lakehouse, *, as_of: AsOf = None, complete_us: int | None = None) -> None:
        self._job = job
        self._complete_us = complete_us
        versions = _versions(job, as_of)
        logs = {part.log: _open(lakehouse, job.input(part.log), versions.get(part.log)) for part in job.inputs}
        self.tables = {part.name: logs[part.log] for part in job.inputs}
        self._history = LogHistory(job, self.tables, lakehouse, complete_us)

    @property
    def summed(self) -> Mapping[str, Summed]:
        """The summaries that were asked for, by input."""
        return self._history.summed

    def of(self, output: OutputRange) -> BoundedReads:
        """The arrivals that make ``output`` exact, within the instants that tables can hold."""
        found = bounded_reads(self._job, output, self._history)
        by_input = {name: _representable(read) for name, read in found.by_input.items()}
        return replace(found, range=_representable(found.range), by_input=by_input)

    def that_matter(self, output: OutputRange) -> ReadRange:
        """Arrivals outside of which no change of the logs changes ``output``.

        Where the formula does not bound the beginning, what came before acts through the initial state, or through the
        bound itself.
        """
        formula, found = read_range(self._job, output), self.of(output)
        from_us = None if formula.from_us is None else found.range.from_us
        is_final = found.final_us is not None and found.unsettled is None
        return replace(found.range, from_us=from_us, to_us=found.range.to_us if is_final else None)

    def unsettled(self, to_us: int) -> str | None:
        """Why results that end before ``to_us`` may still change; None if nothing that arrives later changes any.

        A plan's own rule, asked of the arrivals before ``complete_us`` alone. What is settled at one instant is settled
        at all earlier ones.
        """
        found = self.of(OutputRange(None, to_us))
        if found.final_us is None:
            because = why_whole_log(self._job)
            return "; ".join(dict.fromkeys([*found.range.reasons, *([because] if because is not None else [])]))
        return settled_by(found, (self._complete_us,))[1]


def make_plan(
    job: Job, output: OutputRange, lakehouse: str | Path | Lakehouse, *, as_of: AsOf = None, slices: int | None = None
) -> Plan:
    """The plan of a replay of ``job`` over ``output``, against the logs as they are now (or as of a version).

    ``slices``: in how many slices it is run, at most; None: as its size asks for. Raises as :class:`LogReads` does.
    """
    place = Lakehouse.at(lakehouse)
    logs = LogReads(job, place, as_of=as_of)
    whole = _plan(job, output, place, logs, as_of)
    wanted = slices or math.ceil((whole.rows or 0) / MOST_ROWS_OF_A_SLICE)
    if wanted <= 1:
        return whole
    files = [file for table in logs.tables.values() for file in log_files(table)]
    ends = [output.from_us, *slice_ends(files, output, wanted), output.to_us]
    cut = [_plan(job, OutputRange(*pair), place, logs, as_of) for pair in itertools.pairwise(ends)]
    if len(cut) == 1 or (slices is None and sum(one.rows or 0 for one in cut) > MOST_READ_AGAIN * (whole.rows or 0)):
        return whole
    # the last one has asked for all that any of them needs of the summaries
    summaries = cut[-1].summaries
    first, *others = (replace(one, summaries=()) for one in cut)
    return replace(whole, summaries=summaries, slices=(replace(first, summaries=summaries), *others))


def _plan(job: Job, output: OutputRange, place: Lakehouse, logs: LogReads, as_of: AsOf) -> Plan:
    found = logs.of(output)
    reads = tuple(read_table(logs.tables[part.name], part, found.of(part.name)) for part in job.inputs)
    references = tuple(_read_references(job, place, output, _versions(job, as_of)))
    for part in job.logs if as_of is not None else ():
        _require_files(logs.tables[part.name], arrivals_table(part.name), found.of(part.name))
    rows = _total([table.rows for table in reads])
    sorting = choose_strategy(job, rows)
    if sorting.verdicts == "packed":
        reads = tuple(replace(one, sorted_files=sorted_files(logs.tables[one.input], one.paths)) for one in reads)
    settled, unsettled = settled_by(found, tuple(table.end_of_log_us for table in reads))
    writes = tuple(_written_table(place, name, layout, output) for name, layout in result_tables(job))
    return Plan(
        job=job.name,
        job_fingerprint=job.fingerprint,
        output=output,
        read=found.range,
        reads=reads,
        writes=writes,
        settled=settled,
        unsettled=unsettled,
        notes=(*_notes(place, job, output), *_missing_snapshots(job, output, references)),
        initial_states=found.initial_states,
        summaries=tuple(_summary_use(one, keep=as_of is None) for one in logs.summed.values()),
        strategy=choose_strategy(job, rows, in_order=all(table.sorted_files for table in reads)),
        sorting=sorting,
        writer=writer_of(job, reads, references, writes, place),
        references=references,
        paths=paths(job),
    )


def settled_by(found: BoundedReads, ends_us: tuple[int | None, ...]) -> tuple[bool, str | None]:
    """Whether logs that end there settle the result, and if not, why."""
    final = _representable(replace(found.range, to_us=found.final_us))
    settled, unsettled = is_settled(final, ends_us)
    return (False, found.unsettled) if settled and found.unsettled is not None else (settled, unsettled)


def _summary_use(one: Summed, keep: bool) -> SummaryUse:
    """``keep``: the log was read at its newest version, of which later plans ask again."""
    return SummaryUse(
        input=one.input,
        table=summaries_table(one.input),
        days=one.days,
        days_made=one.days_made,
        files=one.files,
        size_bytes=one.size_bytes,
        rows=one.rows,
        unsaved=one.unsaved if keep else None,
    )


def _representable(read: ReadRange) -> ReadRange:
    """The range cut to the instants that tables can hold: nothing lies outside of them."""
    return replace(
        read,
        from_us=None if read.from_us is None else max(read.from_us, MIN_INSTANT_US),
        to_us=None if read.to_us is None else min(read.to_us, MAX_INSTANT_US),
    )


def _versions(job: Job, as_of: AsOf) -> dict[str, int]:
    """The versions asked for, by the input that a log is called by, and by reference."""
    if as_of is None or isinstance(as_of, int):
        return {} if as_of is None else {part.log: as_of for part in job.inputs}
    logs = {part.name: part.log for part in job.inputs}
    names = {**logs, **{one.name: one.name for one in job.references}}
    for name in as_of:
        if name not in names:
            raise UsageError(f"job {job.name} has no input '{name}'; {did_you_mean(name, names)}", key="--as-of")
    versions: dict[str, int] = {}
    for name, version in as_of.items():
        if versions.setdefault(names[name], version) != version:
            raise UsageError(f"input {name} reads the log of {names[name]}: both have one version", key="--as-of")
    return versions


def _read_references(
    job: Job, lakehouse: Lakehouse, output: OutputRange, versions: Mapping[str, int]
) -> Iterator[ReadReference]:
    """The reference data that outputs read, and its snapshots that rows of the range look up.

    Raises :class:`UsageError` if one was never loaded, or begins only after all of them (Q87).
    """
    read, times = extents(job), {one.reference: one.times(output) for one in lookups(job)}
    for reference in job.references:
        if reference.name not in read:
            continue
        found = open_reference(lakehouse, reference, versions.get(reference.name))
        name, version = references_table(reference.name), found.table.version()
        if reference.effective is None:
            yield ReadReference(reference.name, name, version, None, found.rows)
            continue
        snapshots = snapshots_read(times[reference.name], tuple(found.snapshots))
        if not snapshots:
            first = "none at all" if not found.snapshots else f"none before {format_instant(min(found.snapshots))}"
            raise UsageError(
                f"the reference data {reference.name} has no snapshot for this range: {first}",
                hint=f"load it with 'tailrace ingest JOB --reference {reference.name} FILE...', or begin later",
            )
        yield ReadReference(reference.name, name, version, snapshots, sum(found.snapshots[us] for us in snapshots))


def _missing_snapshots(job: Job, output: OutputRange, references: Sequence[ReadReference]) -> Iterator[str]:
    """Notes on times of the range that lie before the first snapshot."""
    times = {one.reference: one.times(output) for one in lookups(job)}
    for one in references:
        if one.snapshots_us is None:
            continue
        first_us, from_us = one.snapshots_us[0], times[one.reference].from_us
        if from_us is None or first_us > from_us:
            first = f"the first snapshot of {one.reference} is of {format_instant(first_us)}"
            yield f"{first}: a row that asks for an earlier one ends the run"


def _open(lakehouse: Lakehouse, part: Input, version: int | None) -> DeltaTable:
    name = arrivals_table(part.name)
    table = lakehouse.open(name, version)
    if table is None:
        raise UsageError(
            f"the input {part.name} has no arrival log yet: there is no table {name} in {lakehouse.root}",
            hint=f"load it with 'tailrace ingest JOB --input {part.name} FILE...', an empty file if it never spoke",
        )
    _check_columns(table, part, name)
    return table


def read_table(table: DeltaTable, part: Input, read: ReadRange) -> ReadTable:
    """What reading the arrivals ``read`` of an input's log opens."""
    files = log_files(table)
    chosen = [file for file in files if file.may_contain(read.from_us, read.to_us)]
    return ReadTable(
        input=part.name,
        table=arrivals_table(part.log),
        version=table.version(),
        read=read,
        files=len(chosen),
        size_bytes=sum(file.size_bytes for file in chosen),
        rows=_total([file.rows for file in chosen]),
        files_total=len(files),
        rows_total=_total([file.rows for file in files]),
        end_of_log_us=end_of_log(files),
        paths=_paths(table, chosen),
    )


def _require_files(table: DeltaTable, name: str, read: ReadRange) -> None:
    """:class:`UsageError` if data files of an older version that ``read`` needs are no longer there."""
    paths = [file.path for file in log_files(table) if file.may_contain(read.from_us, read.to_us)]
    missing = missing_files(table, paths)
    if missing:
        raise UsageError(
            f"the table {name} was vacuumed: of version {table.version()} {len(missing)} of the {len(paths)} data"
            f" files that this range reads are gone, the first {missing[0]}",
            key="--as-of",
            hint="name a newer version, or leave --as-of out",
        )


def _paths(table: DeltaTable, files: Sequence[LogFile]) -> tuple[str, ...]:
    """The files by name, if they can be read without the Delta log: few, and nothing in them is masked or renamed."""
    if not shows_all_rows(table) or len(files) > NAMED_FILES:
        return ()
    if not all(file.lies_in_its_day for file in files):
        return ()
    return tuple(sorted(file.path for file in files))


def _check_columns(table: DeltaTable, part: Input, name: str) -> None:
    stored = {field.name.lower(): field.type for field in pa.schema(table.schema().to_arrow())}
    for field in arrivals_schema(part):
        if field.name.lower() not in stored:
            raise UsageError(
                f"the table {name} lacks the column '{field.name}' of input {part.name}",
                hint="correct the input's columns, or ingest with this job file, which adds the column",
            )
        if not alike(stored[field.name.lower()], field.type):
            raise UsageError(
                f"column '{field.name}' is {stored[field.name.lower()]} in {name}, but {field.type} in the job file",
                hint="give it the log's type",
            )


def _written_table(lakehouse: Lakehouse, name: str, layout: Layout, output: OutputRange) -> WrittenTable:
    table = lakehouse.open(name)
    if table is None:
        return WrittenTable(name, layout.time, None, 0)
    rows = data_files(table, ["num_records", f"partition.{layout.day}"])
    touched = [row["num_records"] for row in rows if _day_touched(row.get(f"partition.{layout.day}"), output)]
    return WrittenTable(name, layout.time, table.version(), _total(touched))


def _day_touched(day: object, output: OutputRange) -> bool:
    if not isinstance(day, date):
        return True
    day_us = day_of(day) * DAY
    return (output.from_us is None or day_us + DAY > output.from_us) and (output.to_us is None or day_us < output.to_us)


def _notes(lakehouse: Lakehouse, job: Job, output: OutputRange) -> tuple[str, ...]:
    """What a person should know before a run: of what other origin the rows are that the tables keep."""
    if output == EVERYTHING:
        return ()
    runs = runs_of(lakehouse, job.name)
    kept = [sentence for part in outside([EVERYTHING], output) for sentence in origins(runs, job, part)]
    return tuple(f"outside the range the tables keep other results: {sentence}" for sentence in dict.fromkeys(kept))


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
