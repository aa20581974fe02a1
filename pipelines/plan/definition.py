"""The plan of a replay as frozen data: what will be read, what will be written, and whether the result is final.

:func:`pipelines.replay.builder.make_plan` makes a plan, ``tailrace plan`` prints it, and
:func:`pipelines.replay.run.execute` executes it without computing any of it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from pipelines.core.model import OutputRange
from pipelines.core.time import format_instant
from pipelines.plan.initial_state import InitialStates
from pipelines.plan.paths import Path
from pipelines.plan.read_range import ReadRange
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy

Writer = Literal["driver", "spark"]
"""What writes the results: the driver collects few rows and commits them itself; Spark writes all others."""


class SortedFile(NamedTuple):
    """A file whose arrivals are in ``[first_us, last_us]``; no arrival of another file is between these."""

    path: str
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class ReadTable:
    """One arrival log that a plan reads, at exactly ``version``, over ``read``.

    ``files``, ``size_bytes`` and ``rows`` describe the files that will be opened, by the table's statistics; ``rows``
    is an upper bound, and None where statistics are missing. ``end_of_log_us`` is the last arrival, rounded down to the
    millisecond; None for an empty log. ``paths`` names the files, relative to the table, where they are few and plain
    Parquet: then they are opened without the Delta log, at a cost that does not grow with the log. ``sorted_files``
    are the same files in the order of their arrivals, where the arrivals inside each are known to be in order.
    """

    input: str
    table: str
    version: int
    read: ReadRange
    files: int
    size_bytes: int
    rows: int | None
    files_total: int
    rows_total: int | None
    end_of_log_us: int | None
    paths: tuple[str, ...] = field(default=(), repr=False)
    sorted_files: tuple[SortedFile, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "input": self.input,
            "table": self.table,
            "version": self.version,
            "read_from": instant_or_none(self.read.from_us),
            "read_to": instant_or_none(self.read.to_us),
            "files": self.files,
            "bytes": self.size_bytes,
            "rows": self.rows,
            "files_total": self.files_total,
            "rows_total": self.rows_total,
            "end_of_log": instant_or_none(self.end_of_log_us),
        }


@dataclass(frozen=True, slots=True)
class ReadReference:
    """Reference data that a plan reads, at exactly ``version``.

    ``snapshots_us``: the times from which the snapshots that it reads hold, rising; None: it is static. ``rows`` are
    those that it reads.
    """

    reference: str
    table: str
    version: int
    snapshots_us: tuple[int, ...] | None
    rows: int

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        snapshots = None if self.snapshots_us is None else [*map(format_instant, self.snapshots_us)]
        return {
            "reference": self.reference,
            "table": self.table,
            "version": self.version,
            "snapshots": snapshots,
            "rows": self.rows,
        }


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """One table that a plan writes: rows whose ``column`` is in ``[from, to)`` of the output range are replaced.

    ``replaced_rows`` counts the present rows of the days that the range touches: an upper bound, 0 for a table not yet
    written (``version`` None), None where statistics are missing.
    """

    table: str
    column: str
    version: int | None
    replaced_rows: int | None

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "table": self.table,
            "column": self.column,
            "version": self.version,
            "rows_at_most_replaced": self.replaced_rows,
        }


@dataclass(frozen=True, slots=True)
class SummaryUse:
    """The source of one input's initial state: the summary of its log, ``days`` days of arrivals in ``table``.

    ``days_made`` of them were not there, or their files have changed: a pass over a few columns of ``files`` files,
    of ``rows`` rows and ``size_bytes``, made them. ``unsaved`` is an Arrow table that the run writes there, or None.
    """

    input: str
    table: str
    days: int
    days_made: int
    files: int
    size_bytes: int
    rows: int
    unsaved: object = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "input": self.input,
            "table": self.table,
            "days": self.days,
            "days_made": self.days_made,
            "files": self.files,
            "bytes": self.size_bytes,
            "rows": self.rows,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """One replay, decided. ``settled`` False: ``unsettled`` says which arrivals, still to come, would change it.

    ``strategy``: how watermarks are found; ``sorting``: how they are found if a file turns out not to be in order.
    ``paths``: the steps that set how far around the output range each input and reference is read.
    ``slices``: disjoint plans that make up this one, to be run one after another; none: it is run as a whole.
    ``initial_states``: the state of each input before the read range and at the end of the log, from ``summaries``;
    None: timelines begin empty. ``preview``: the folder of side tables that take the results, in place of ``writes``.
    """

    job: str
    job_fingerprint: str
    output: OutputRange
    read: ReadRange
    reads: tuple[ReadTable, ...]
    writes: tuple[WrittenTable, ...]
    settled: bool
    unsettled: str | None = None
    notes: tuple[str, ...] = ()
    initial_states: InitialStates | None = field(default=None, repr=False)
    summaries: tuple[SummaryUse, ...] = ()
    strategy: WatermarkStrategy = SORT
    sorting: WatermarkStrategy = SORT
    writer: Writer = "spark"
    references: tuple[ReadReference, ...] = ()
    paths: tuple[Path, ...] = ()
    preview: str | None = None
    slices: tuple[Plan, ...] = ()

    @property
    def parts(self) -> tuple[Plan, ...]:
        """What is run, one after another: the slices, or the plan itself."""
        return self.slices or (self,)

    def as_preview(self, folder: str) -> Plan:
        """The same plan with its results in side tables below ``folder``."""
        return replace(self, preview=folder, slices=tuple(one.as_preview(folder) for one in self.slices))

    @property
    def end_of_log_us(self) -> int | None:
        """The earliest end of the logs that are read; None if one of them is empty."""
        ends = [read.end_of_log_us for read in self.reads]
        return None if None in ends or not ends else min(end for end in ends if end is not None)

    @property
    def rows(self) -> int | None:
        """Arrivals that are read, at most; None where statistics are missing."""
        counts = [read.rows for read in self.reads]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def size_bytes(self) -> int:
        """The files that are read."""
        return sum(read.size_bytes for read in self.reads)

    @property
    def versions(self) -> dict[str, int]:
        """Version by table read."""
        references = {read.table: read.version for read in self.references}
        return {read.table: read.version for read in self.reads} | references

    @property
    def versions_present(self) -> dict[str, int]:
        """Version by table that the results would replace; without those not written yet."""
        return {one.table: one.version for one in self.writes if one.version is not None}

    @property
    def versions_before(self) -> dict[str, int | None]:
        """Version by table that the run writes, None where there is none yet: side tables are made by the run."""
        if self.preview:
            return {f"{self.preview}/{one.table}": None for one in self.writes}
        return {one.table: one.version for one in self.writes}

    @property
    def versions_by_name(self) -> dict[str, int]:
        """Version by input and reference read: what ``as_of`` of a plan that reads the same is."""
        by_input = {read.input: read.version for read in self.reads}
        return by_input | {read.reference: read.version for read in self.references}

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data, instants as ISO 8601; null for an open end."""
        return {
            "job": self.job,
            "job_fingerprint": self.job_fingerprint,
            "output_from": instant_or_none(self.output.from_us),
            "output_to": instant_or_none(self.output.to_us),
            "read_from": instant_or_none(self.read.from_us),
            "read_to": instant_or_none(self.read.to_us),
            "read_rule": self.read.rule,
            "read_reasons": list(self.read.reasons),
            "read_paths": [path.as_dict() for path in self.paths],
            "carry": [summary.as_dict() for summary in self.summaries],
            "reads": [read.as_dict() for read in self.reads],
            "references": [read.as_dict() for read in self.references],
            "writes": [written.as_dict() for written in self.writes],
            "method": self.strategy.as_dict(),
            "writer": self.writer,
            "slices": [one.size_as_dict() for one in self.slices],
            "end_of_log": instant_or_none(self.end_of_log_us),
            "settled": self.settled,
            "unsettled": self.unsettled,
            "notes": list(self.notes),
        }

    def size_as_dict(self) -> dict[str, object]:
        """The output range and what is read for it, JSON-ready."""
        return {
            "output_from": instant_or_none(self.output.from_us),
            "output_to": instant_or_none(self.output.to_us),
            "rows": self.rows,
            "bytes": self.size_bytes,
        }


def is_settled(read: ReadRange, ends_us: tuple[int | None, ...]) -> tuple[bool, str | None]:
    """Whether no later arrival can change the result, and if one can, why in a sentence.

    Settled iff every log has an arrival *after* the read range: arrival times of a partition never fall, but the next
    arrival may have the same time as the last one.
    """
    if read.to_us is None:
        return False, "the read range ends with the log, which later arrivals extend"
    if any(end_us is None for end_us in ends_us):
        return False, "a log is empty: its first arrivals may fall into the read range"
    end_us = min(end_us for end_us in ends_us if end_us is not None)
    if end_us > read.to_us:
        return True, None
    return False, (
        f"the log ends at {format_instant(end_us)}, the read range at {format_instant(read.to_us)}:"
        " arrivals in between would change the result"
    )


def instant_or_none(instant_us: int | None) -> str | None:
    """ISO 8601, or None."""
    return None if instant_us is None else format_instant(instant_us)
