"""Make a plan from a job, an output range and what the Delta logs say. Starts no Spark and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import EVERYTHING, Input, Job, OutputRange
from pipelines.core.time import DAY, MAX_INSTANT_US, MIN_INSTANT_US, day_of
from pipelines.lakehouse.arrival_log import LogFile, data_files, end_of_log, log_files, shows_all_rows
from pipelines.lakehouse.cache.summaries import Summed
from pipelines.lakehouse.layout import Layout, arrivals_table, result_tables, summaries_table
from pipelines.lakehouse.log_history import LogHistory
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import last_succeeded
from pipelines.lakehouse.schema import alike, arrivals_schema
from pipelines.lakehouse.sorted_files import sorted_files
from pipelines.plan.bounded_reads import BoundedReads, bounded_reads, why_whole_log
from pipelines.plan.definition import Plan, ReadTable, SummaryUse, WrittenTable, is_settled
from pipelines.plan.read_range import ReadRange
from pipelines.plan.watermark_strategy import choose_strategy

NAMED_FILES = 32
"""So many files a plan names one by one; Spark looks up more than that in a job of its own."""

AsOf = int | Mapping[str, int] | None
"""A version of every arrival log, or versions by input; None: the newest."""


def make_plan(job: Job, output: OutputRange, lakehouse: str | Path | Lakehouse, *, as_of: AsOf = None) -> Plan:
    """The plan of a replay of ``job`` over ``output``, against the logs as they are now (or as of a version).

    Raises :class:`UsageError` if an input has no log yet, lacks a column, or has no such version.
    """
    lakehouse = Lakehouse.at(lakehouse)
    history = open_logs(job, lakehouse, as_of)
    tables = history.tables
    found = bounded_reads_of(job, output, lakehouse, history=history)
    read = found.range
    reads = tuple(_read_table(tables[part.name], part, read) for part in job.inputs)
    rows = _total([table.rows for table in reads])
    sorting = choose_strategy(job, rows)
    if sorting.verdicts == "packed":
        reads = tuple(replace(one, sorted_files=sorted_files(tables[one.input], one.paths)) for one in reads)
    settled, unsettled = _settled(found, tuple(table.end_of_log_us for table in reads))
    writes = tuple(_written_table(lakehouse, name, layout, output) for name, layout in result_tables(job))
    return Plan(
        job=job.name,
        job_fingerprint=job.fingerprint,
        output=output,
        read=read,
        reads=reads,
        writes=writes,
        settled=settled,
        unsettled=unsettled,
        notes=_notes(lakehouse, job, output),
        initial_state=found.initial_state,
        summaries=tuple(_summary_use(one, keep=as_of is None) for one in history.summed.values()),
        method=choose_strategy(job, rows, in_order=all(table.sorted_files for table in reads)),
        sorting=sorting,
    )


def bounded_reads_of(
    job: Job,
    output: OutputRange,
    lakehouse: str | Path | Lakehouse,
    as_of: AsOf = None,
    *,
    history: LogHistory | None = None,
) -> BoundedReads:
    """The arrivals that make ``output`` exact and the state they begin with, by the logs as they are now (or as of a
    version). Whoever computes results of ``job`` reads these.

    ``history``: what :func:`open_logs` gave, to ask about the same versions again. Raises as :func:`make_plan` does.
    """
    found = bounded_reads(job, output, history or open_logs(job, Lakehouse.at(lakehouse), as_of))
    return replace(found, range=_representable(found.range))


def open_logs(job: Job, lakehouse: Lakehouse, as_of: AsOf = None, before_us: int | None = None) -> LogHistory:
    """The arrival logs of ``job``, each opened at one version, and what they say of their past: of arrivals before
    ``before_us`` alone, if given."""
    versions = _versions(job, as_of)
    tables = {part.name: _open(lakehouse, part, version) for part, version in zip(job.inputs, versions, strict=True)}
    return LogHistory(job, tables, lakehouse, before_us)


class Prospects:
    """What may still come of the results of ``job``, where all arrivals before ``complete_us`` are known to be there.

    Raises as :func:`make_plan` does. Summaries of the logs, where the job needs them, are asked for once.
    """

    def __init__(self, job: Job, lakehouse: Lakehouse, complete_us: int) -> None:
        self._job = job
        self._complete_us = complete_us
        self._history = open_logs(job, lakehouse, before_us=complete_us)

    def unsettled(self, to_us: int) -> str | None:
        """Why results that end before ``to_us`` may still change; None if nothing that arrives later changes any.

        A plan's own rule, asked of those arrivals alone. What is settled at one instant is so at all earlier ones.
        """
        found = bounded_reads(self._job, OutputRange(None, to_us), self._history)
        if found.final_us is None:
            because = why_whole_log(self._job)
            return "; ".join(dict.fromkeys([*found.range.reasons, *([because] if because is not None else [])]))
        return _settled(found, (self._complete_us,))[1]


def _settled(found: BoundedReads, ends_us: tuple[int | None, ...]) -> tuple[bool, str | None]:
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


def _versions(job: Job, as_of: AsOf) -> list[int | None]:
    if as_of is None or isinstance(as_of, int):
        return [as_of] * len(job.inputs)
    names = [part.name for part in job.inputs]
    for name in as_of:
        if name not in names:
            raise UsageError(f"job {job.name} has no input '{name}'; {did_you_mean(name, names)}", key="--as-of")
    return [as_of.get(name) for name in names]


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


def _read_table(table: DeltaTable, part: Input, read: ReadRange) -> ReadTable:
    files = log_files(table)
    chosen = [file for file in files if file.may_hold(read.from_us, read.to_us)]
    return ReadTable(
        input=part.name,
        table=arrivals_table(part.name),
        version=table.version(),
        files=len(chosen),
        size_bytes=sum(file.size_bytes for file in chosen),
        rows=_total([file.rows for file in chosen]),
        files_total=len(files),
        rows_total=_total([file.rows for file in files]),
        end_of_log_us=end_of_log(files),
        paths=_paths(table, chosen),
    )


def _paths(table: DeltaTable, files: Sequence[LogFile]) -> tuple[str, ...]:
    """The files by name, if they can be read without the Delta log: few, and nothing in them is masked or renamed."""
    if not shows_all_rows(table) or len(files) > NAMED_FILES:
        return ()
    if not all(file.lies_in_its_day for file in files):
        return ()
    return tuple(sorted(file.path for file in files))


def _check_columns(table: DeltaTable, part: Input, name: str) -> None:
    held = {field.name.lower(): field.type for field in pa.schema(table.schema().to_arrow())}
    for field in arrivals_schema(part):
        if field.name.lower() not in held:
            raise UsageError(
                f"the table {name} lacks the column '{field.name}' of input {part.name}",
                hint="correct the input's columns, or ingest with this job file, which adds the column",
            )
        if not alike(held[field.name.lower()], field.type):
            raise UsageError(
                f"column '{field.name}' is {held[field.name.lower()]} in {name}, but {field.type} in the job file",
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
    """What a person should know before running: results of another definition of the job beside this one's."""
    if output == EVERYTHING:
        return ()
    before = last_succeeded(lakehouse, job.name)
    if before is not None and before["job_fingerprint"] != job.fingerprint:
        return (
            "the job file changed since the last replay: outside the range the tables keep what the former one gave",
        )
    return ()


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
