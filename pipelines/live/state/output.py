"""What a batch of the live run hands to the tables: verdicts by the column, and window results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import TailraceError
from pipelines.core.model import Decision, Job, Verdict
from pipelines.live.state.arrivals import Event, LogOutOfOrder

VERDICTS = pa.schema(
    [
        ("input", pa.string()),
        ("input_partition", pa.int32()),
        ("sequence", pa.int64()),
        ("arrival_time_us", pa.int64()),
        ("event_time_us", pa.int64()),
        ("verdict", pa.string()),
        ("reasons", pa.list_(pa.string())),
        ("system_timestamp_us", pa.int64()),
        ("lifetime_end_us", pa.int64()),
        ("watermark_us", pa.int64()),
        ("missed_windows_us", pa.list_(pa.int64())),
    ]
)
"""Verdicts by the column, as :class:`~pipelines.core.model.Decision` names them."""


def decide(event: Event, verdict: Verdict, reasons: tuple[str, ...] = (), **more: Any) -> Decision:
    """The event's verdict."""
    arrival_us, partition, sequence, _ = event.place
    return Decision(event.input, partition, sequence, arrival_us, event.time_us, verdict, reasons, **more)


def verdicts_of(decisions: Sequence[Decision]) -> pa.Table:
    """``decisions`` as a table of :data:`VERDICTS`."""
    columns = [pa.array([getattr(decision, column.name) for decision in decisions], column.type) for column in VERDICTS]
    return pa.Table.from_arrays(columns, schema=VERDICTS)


def decisions_of(verdicts: pa.Table) -> list[Decision]:
    """The rows of a table of :data:`VERDICTS`."""
    lists = ("reasons", "missed_windows_us")
    return [Decision(**row | {name: tuple(row[name]) for name in lists}) for row in verdicts.to_pylist()]


class WindowResult(NamedTuple):
    """One row of ``stream_windows``, without ``emitted_at``; ``values`` are those of ``CompiledJob.output_names``."""

    start_us: int
    end_us: int
    window_id: str | None
    values: tuple[Any, ...]


class EndOfLog(Protocol):
    """What ``end_of_log: hold`` asks of an ordering policy."""

    def settled(self, end_us: int, _: Mapping[str, Hashable]) -> bool:
        """Is a window emitted that ends at an instant (microseconds), of a group: its keys that are columns, in lower
        case?"""


MISSED = "missed"
"""The starts of the windows that a row came too late for, null for none (A5)."""


class Slice(NamedTuple):
    """What the outputs of steps at ``[low, high)`` (microseconds) are computed from: by input the rows that they may
    depend on, with the columns of :class:`~pipelines.live.state.rows.Counted` and :data:`MISSED`.

    ``settled_by`` is set where ``end_of_log: hold`` leaves windows out that were open when the log ended.
    """

    low: int
    high: int
    rows: dict[str, pa.Table]
    settled_by: EndOfLog | None = None


@dataclass(slots=True)
class Output:
    """What a batch gave: windows or, of a query of steps, a slice to compute its outputs from.

    ``verdicts`` (a table of :data:`VERDICTS`), ``windows`` and ``slice`` are final. The ``provisional`` ones are what
    the end of the log would give; they stand until more arrives. ``advanced``: the batch brought a whole commit, which
    ends the time of earlier provisional rows. ``at_end``: the batch reached the end of the log. The counts are those of
    final verdicts.
    """

    verdicts: pa.Table = field(default_factory=VERDICTS.empty_table)
    windows: list[WindowResult] = field(default_factory=list)
    provisional_verdicts: pa.Table = field(default_factory=VERDICTS.empty_table)
    provisional_windows: list[WindowResult] = field(default_factory=list)
    slice: Slice | None = None
    provisional_slice: Slice | None = None
    verdict_counts: Counter[str] = field(default_factory=Counter)
    reason_counts: Counter[str] = field(default_factory=Counter)
    advanced: bool = False
    at_end: bool = False
    error: TailraceError | LogOutOfOrder | None = None

    def decide(self, verdicts: Sequence[pa.Table]) -> None:
        """Set the final verdicts of a batch, and count them."""
        self.advanced = True
        self.verdicts = pa.concat_tables(verdicts)
        self.verdict_counts = _counts(self.verdicts["verdict"])
        self.reason_counts = _counts(pc.list_flatten(self.verdicts["reasons"]))

    def to_write(self, job: Job) -> Output:
        """Without the verdicts that ``keep_verdicts`` leaves out; their counts stay."""
        if job.keep_verdicts == "all":
            return self
        final, provisional = _exceptions(self.verdicts), _exceptions(self.provisional_verdicts)
        return replace(self, verdicts=final, provisional_verdicts=provisional)


def _exceptions(verdicts: pa.Table) -> pa.Table:
    """Without the events that simply counted at their own time."""
    with_reason = pc.greater(pc.list_value_length(verdicts["reasons"]), 0)
    return verdicts.filter(pc.or_(with_reason, pc.not_equal(verdicts["verdict"], "accepted")))


def _counts(values: pa.ChunkedArray) -> Counter[str]:
    return Counter({one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()})


Values: TypeAlias = Sequence[Any] | pa.Array | pa.ChunkedArray


class Rows(NamedTuple):
    """The rows of a batch for one table, by the column; no columns for no rows."""

    final: Sequence[Values]
    provisional: Sequence[Values]


def count(columns: Sequence[Values]) -> int:
    """The number of rows."""
    return len(columns[0]) if columns else 0


@dataclass(slots=True)
class RunCounts:
    """What a run has written so far, rows by table; ``provisional_rows`` as they are now. ``error`` is that of a failed
    batch."""

    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    provisional_rows: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    error: TailraceError | LogOutOfOrder | None = None

    def add(self, output: Output, rows: Mapping[str, Rows]) -> None:
        """Count a batch: its verdicts, and its rows for each table of results."""
        self.verdicts += output.verdict_counts
        self.reasons += output.reason_counts
        self.rows.update({name: count(one.final) for name, one in rows.items()})
        if output.advanced:
            self.provisional_rows = Counter({name: count(one.provisional) for name, one in rows.items()})
        self.batches += 1
