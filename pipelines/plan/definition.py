"""The plan of a replay as frozen data: what will be read, what will be written, and whether the result is final.

A plan is made before anything runs (:func:`pipelines.replay.builder.make_plan`), printed by ``tailrace plan`` and
executed by :func:`pipelines.replay.run.execute`; nobody computes any of it a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pipelines.core.model import OutputRange
from pipelines.core.time import format_instant
from pipelines.plan.initial_state import InitialStates
from pipelines.plan.read_range import ReadRange
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy

Writer = Literal["driver", "spark"]
"""Who writes the results: the driver collects little data and commits it itself; Spark writes all else."""


class SortedFile(NamedTuple):
    """A file, and bounds of its arrivals, which no other file's are between."""

    path: str
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class ReadTable:
    """One arrival log that a plan reads, at exactly ``version``, over ``read``.

    ``files``, ``size_bytes`` and ``rows`` are what will be opened, predicted from the table's statistics: an upper
    bound of what the read range needs. ``rows`` is None where statistics are missing. ``end_of_log_us`` is the last
    arrival, cut down to the millisecond; None for an empty log. ``paths`` names those files, under the table, where
    they are few and plain Parquet: they are opened as they stand, however long the log; else the log is asked again.
    ``sorted_files`` are the same files in the order of their arrivals, where each is known to hold its own in order.
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
    """One table that a plan writes: rows whose ``column`` lies in ``[from, to)`` of the output range are replaced.

    ``replaced_rows`` counts rows that are there now and lie in files that the range touches: an upper bound, 0 for a
    table not yet written (``version`` None), None where statistics are missing.
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
    """Where the carry of one input comes from: the summary of its log, ``days`` days of arrivals in ``table``.

    ``days_made`` of them were not kept there (or of other files): a pass over a few columns of ``files`` made them.
    ``unsaved`` is what running the plan keeps, in the lakehouse's own form; None: nothing new.
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

    ``strategy``: how watermarks are found; ``sorting``: how, where files are not trusted to be in order.
    ``initial_states``: what earlier and later arrivals mean for those that are read, from ``summaries``; None: nothing.
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

    @property
    def end_of_log_us(self) -> int | None:
        """The earliest end of the logs that are read; None if one of them is empty."""
        ends = [read.end_of_log_us for read in self.reads]
        return None if None in ends or not ends else min(end for end in ends if end is not None)

    @property
    def versions(self) -> dict[str, int]:
        """Version by table read."""
        references = {read.table: read.version for read in self.references}
        return {read.table: read.version for read in self.reads} | references

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
            "carry": [summary.as_dict() for summary in self.summaries],
            "reads": [read.as_dict() for read in self.reads],
            "references": [read.as_dict() for read in self.references],
            "writes": [written.as_dict() for written in self.writes],
            "method": self.strategy.as_dict(),
            "writer": self.writer,
            "end_of_log": instant_or_none(self.end_of_log_us),
            "settled": self.settled,
            "unsettled": self.unsettled,
            "notes": list(self.notes),
        }


def is_settled(read: ReadRange, ends_us: tuple[int | None, ...]) -> tuple[bool, str | None]:
    """Whether no arrival that is still to come can change the result, and if not, why in a sentence.

    Settled iff every log has an arrival *after* the read range: inside a log arrival times never fall for a
    partition, but one more arrival at the very end of the log is possible.
    """
    if read.to_us is None:
        return False, "the read range goes on to the end of the log, which later arrivals move"
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
