"""Names of a job's tables, the column a range acts on, the partition column, and the order in which rows are shown."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import Job, OutputRange
from pipelines.core.results import key_columns, output_columns
from pipelines.core.steps import WINDOW_COLUMNS, origin_of
from pipelines.core.time import DAY, format_instant, to_datetime


@dataclass(frozen=True, slots=True)
class Layout:
    """One kind of table: ``time`` is what a range acts on, ``day`` its partition (the UTC date of ``time``)."""

    time: str
    day: str
    order: tuple[str, ...]

    def condition(self, output: OutputRange) -> str | None:
        """SQL for ``[from, to)`` on ``time``, with the partition's bounds for pruning; None for an open range."""
        first, last = self._ends(output)
        parts = []
        if output.from_us is not None:
            parts += [f"{self.time} >= TIMESTAMP '{_literal(output.from_us)}'", *first]
        if output.to_us is not None:
            parts += [f"{self.time} < TIMESTAMP '{_literal(output.to_us)}'", *last]
        return " AND ".join(parts) or None

    def days(self, output: OutputRange) -> str | None:
        """SQL for the days that the range touches, which are whole files; None for an open range."""
        return " AND ".join(part for parts in self._ends(output) for part in parts) or None

    def _ends(self, output: OutputRange) -> tuple[list[str], list[str]]:
        first, last = [], []
        if output.from_us is not None:
            first.append(f"{self.day} >= DATE '{to_datetime(output.from_us).date().isoformat()}'")
        if output.to_us is not None:
            # the last day with an instant before `to`; a `to` at midnight must not touch the day that it begins
            last_day_us = (output.to_us - 1) // DAY * DAY
            last.append(f"{self.day} <= DATE '{to_datetime(last_day_us).date().isoformat()}'")
        return first, last


def is_whole_days(output: OutputRange) -> bool:
    """Whether the range begins and ends with a UTC day, so that replacing it swaps files without a look into them."""
    return all(end_us is None or end_us % DAY == 0 for end_us in (output.from_us, output.to_us))


WINDOWS = Layout("window_end", "output_date", ("window_end", "window_start", "window_id"))
OUTPUTS = Layout("system_timestamp", "output_date", ("system_timestamp", "window_start", "window_id"))
ARRIVALS = Layout("arrival_time", "arrival_date", ("arrival_time", "input_partition", "sequence", "input"))


def windows_table(job: Job) -> str:
    """``windows/<job>``"""
    return f"windows/{job.name}"


@dataclass(frozen=True, slots=True)
class OutputTable:
    """Where a replay writes one output of a job (Q93), and the live run's table of the same output.

    ``has_windows``: its rows stem from windows, so the table has ``window_start``, ``window_end`` and ``window_id``.
    """

    output: str
    table: str
    layout: Layout
    live: str
    has_windows: bool


def output_tables(job: Job) -> tuple[OutputTable, ...]:
    """The tables of the job's outputs: ``windows/<job>`` where the one output has windows, else a table for each."""
    if job.steps is None:
        return (OutputTable("output", windows_table(job), WINDOWS, job.stream_windows, True),)
    live = dict(job.stream_outputs)
    origins = {one.name: origin_of(one.rows, job.steps) for one in job.steps.outputs}
    if list(origins.values()) == ["window"]:
        (name,) = origins
        return (OutputTable(name, windows_table(job), WINDOWS, job.stream_windows, True),)
    return tuple(
        OutputTable(name, f"outputs/{job.name}/{name}", OUTPUTS, live[name], origin == "window")
        for name, origin in origins.items()
    )


def output_table(job: Job, name: str | None) -> OutputTable:
    """The table of the output of that name in any case; None: of the only one. :class:`UsageError` if there is none."""
    tables = {one.output: one for one in output_tables(job)}
    if name is None and len(tables) > 1:
        raise UsageError(f"job {job.name} has several outputs", key="--output", hint=f"name one: {', '.join(tables)}")
    wanted = next(iter(tables)) if name is None else name.lower()
    if wanted not in tables:
        raise UsageError(f"job {job.name} has no output '{name}'; {did_you_mean(wanted, tables)}", key="--output")
    return tables[wanted]


def table_columns(job: Job, one: OutputTable) -> tuple[str, ...]:
    """The columns of an output's table."""
    times = () if one.layout is WINDOWS else (one.layout.time,)
    windows = WINDOW_COLUMNS if one.has_windows else ()
    return (*times, *windows, *output_columns(job, one.output), one.layout.day)


def row_keys(job: Job, one: OutputTable) -> tuple[str, ...] | None:
    """The columns that identify a row of an output's table; None if nothing does."""
    keys = key_columns(job, one.output) if one.has_windows else None
    return None if keys is None else (*WINDOW_COLUMNS, *keys)


def verdicts_table(job: Job) -> str:
    """``verdicts/<job>``"""
    return f"verdicts/{job.name}"


def dead_letters_table(job: Job) -> str:
    """``dead_letters/<job>``, which profile atlas alone has."""
    return f"dead_letters/{job.name}"


def arrivals_table(input_name: str) -> str:
    """``arrivals/<input>``"""
    return f"arrivals/{input_name}"


def reconciliations_table(job: Job, one: OutputTable) -> str:
    """``reconciliations/<job>``, of other outputs ``output_reconciliations/<job>/<output>``:
    no table lies inside another one's folder."""
    if one.layout is WINDOWS:
        return f"reconciliations/{job.name}"
    return f"output_reconciliations/{job.name}/{one.output}"


def references_table(reference_name: str) -> str:
    """``references/<name>``"""
    return f"references/{reference_name}"


def tables_read(job: Job) -> tuple[str, ...]:
    """The tables that a replay reads: arrival logs, and reference data."""
    return (*(arrivals_table(part.name) for part in job.logs), *(references_table(one.name) for one in job.references))


def summaries_table(input_name: str) -> str:
    """``_cache/summaries/<input>``"""
    return f"_cache/summaries/{input_name}"


def quarantine_table(name: str) -> str:
    """``quarantine/<name>``, of an input or of reference data"""
    return f"quarantine/{name}"


def result_tables(job: Job) -> tuple[tuple[str, Layout], ...]:
    """The tables that a replay writes, in the order in which it commits them: the published results last."""
    audit = [(verdicts_table(job), ARRIVALS)]
    if job.profile == "atlas":
        audit.append((dead_letters_table(job), ARRIVALS))
    return (*audit, *((one.table, one.layout) for one in output_tables(job)))


def _literal(instant_us: int) -> str:
    """An instant as Spark and DataFusion both read it inside TIMESTAMP '...'."""
    return format_instant(instant_us)
