"""What ``why`` looks at: a range of the log recomputed, and what the tables have on one event or window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import (
    EVERYTHING,
    Arrival,
    Decision,
    Input,
    Job,
    OutputRange,
)
from pipelines.core.steps import Steps
from pipelines.core.time import format_instant
from pipelines.lakehouse.arrival_rows import arrivals_where, row_values
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP, day_scalar
from pipelines.lakehouse.show import plain
from pipelines.plan.paths import job_extent
from pipelines.recompute.logs import Logs
from pipelines.recompute.naming import ArrivalId, id_of, key_names
from pipelines.recompute.reads import AROUND, reads_around
from pipelines.recompute.windows import CachedEvaluator, RecomputedWindow, Values, recompute, same_values

READ_AS_A_WHOLE = 150_000
"""Arrivals up to which a job that depends on its whole log is recomputed from all of it."""


class Recomputation:
    """One job over one lakehouse, as it is now; ``notes``: what a reader should know about the answer."""

    def __init__(self, job: Job, lakehouse: Lakehouse) -> None:
        self.job = job
        self.notes: list[str] = []
        self._lakehouse = lakehouse
        self._logs = Logs(lakehouse)
        self._evaluate = CachedEvaluator()

    def around(self, output: OutputRange) -> RecomputedRange:
        """The arrivals that make ``output`` exact, recomputed; where that is the whole of a very long log, those of
        two days on either side, with a note."""
        reads = reads_around(self.job, output, self._logs, READ_AS_A_WHOLE)
        read = reads.range
        if read.rule == AROUND:
            first = "the beginning" if read.from_us is None else format_instant(read.from_us)
            last = "the end" if read.to_us is None else format_instant(read.to_us)
            self.note(
                "the job depends on its whole log, which is long: recomputed from the arrivals of"
                f" [{first}, {last}]; 'tailrace replay' reads all"
            )
        arrivals = self._logs.arrivals(self.job, read)
        # steps are not computed: what an event counts at is decided before them
        job = self.job if self.job.steps is None else replace(self.job, query=Steps((), ()))
        found = recompute(job, arrivals, EVERYTHING, self._evaluate, reads.initial_states)
        decisions: dict[ArrivalId, Decision] = {
            (one.input, one.input_partition, one.sequence): one for one in found.decisions
        }
        return RecomputedRange(arrivals, [window for window in found.windows if window.end_us in output], decisions)

    def arrival(self, event: str) -> Arrival:
        """The event that ``INPUT/PARTITION/SEQUENCE`` names; :class:`UsageError` if there is none."""
        name, partition, sequence = _event_id(self.job, event)
        wanted = (pc.field("input_partition") == partition) & (pc.field("sequence") == sequence)
        found = arrivals_where(self._logs.table(name), self.job.input(name), wanted)
        if not found:
            raise UsageError(
                f"the log of input {name} has no event {sequence} in partition {partition}",
                key="--event",
                hint=f"'tailrace show JOB arrivals/{name}' lists what is there, 'quarantine/{name}' what was refused",
            )
        if found[0].punctuation_us is not None:
            raise UsageError(f"{event} is a punctuation, not an event", key="--event")
        return found[0]

    def by_event_time(self, part: Input, from_us: int, to_us: int) -> list[Arrival] | None:
        """Arrivals at any time whose event time is in ``[from_us, to_us]``; None where that is an expression."""
        column = None if part.timestamp_by is None else part.column(part.timestamp_by)
        if column is None or column.type != "timestamp":
            return None
        time = pc.field(column.name)
        wanted = (time >= pa.scalar(from_us, TIMESTAMP)) & (time <= pa.scalar(to_us, TIMESTAMP))
        return arrivals_where(self._logs.table(part.name), part, wanted & (pc.field("kind") == "event"))

    def live_windows(self, row: Values) -> list[dict[str, Any]] | None:
        """The live run's rows of a window result, by our column names; None where there is no such table."""
        ours = {ours: theirs for theirs, ours in self.job.stream_columns}
        return self._of_key(self._rows(self.job.stream_windows, _end_us(row), ours), row)

    def replayed_windows(self, end_us: int) -> list[dict[str, Any]]:
        """The rows of ``windows/<job>`` of one window end."""
        return self._rows(f"windows/{self.job.name}", end_us, {}) or []

    def reconciled(self, row: Values) -> list[dict[str, Any]]:
        """The rows of ``reconciliations/<job>`` of a window result."""
        return self._of_key(self._rows(f"reconciliations/{self.job.name}", _end_us(row), {}), row) or []

    def live_verdict(self, one: Arrival) -> tuple[bool, dict[str, Any] | None]:
        """Whether the live run has a table of verdicts, and its row for that event."""
        table = self._lakehouse.open(f"stream_verdicts/{self.job.name}")
        if table is None:
            return False, None
        wanted = (pc.field("arrival_date") == day_scalar(one.arrival_time_us)) & (pc.field("input") == one.input)
        wanted &= (pc.field("input_partition") == one.input_partition) & (pc.field("sequence") == one.sequence)
        rows = table.to_pyarrow_dataset().to_table(filter=wanted).to_pylist()
        return True, None if not rows else plain(rows[0])

    def note(self, text: str) -> None:
        """Add what a reader should know about the answer, once."""
        if text not in self.notes:
            self.notes.append(text)

    def _of_key(self, rows: list[dict[str, Any]] | None, key: Values) -> list[dict[str, Any]] | None:
        """Those of the rows that are of one key, as far as they have its columns."""
        if rows is None:
            return None
        names = key_names(self.job)
        return [row for row in rows if same_values(row, key, [name for name in names if name in row])]

    def _rows(self, name: str, end_us: int, theirs: Mapping[str, str]) -> list[dict[str, Any]] | None:
        """The rows of one window end; ``theirs``: our name of a column -> the table's."""
        if "." in name and "/" not in name:
            self.note(f"{name} is a catalog's table, which is not read here; 'tailrace reconcile' reads it")
            return None
        table = self._lakehouse.open(name)
        if table is None:
            return None
        data = table.to_pyarrow_dataset()
        end = theirs.get("window_end", "window_end")
        if end not in data.schema.names or not pa.types.is_timestamp(data.schema.field(end).type):
            self.note(f"{name} has no TIMESTAMP column {end}")
            return None
        wanted = pc.field(end) == pa.scalar(end_us, data.schema.field(end).type)
        if "output_date" in data.schema.names:
            wanted &= pc.field("output_date") == day_scalar(end_us)
        rows = data.to_table(filter=wanted)
        ours = {their_name: name for name, their_name in theirs.items()}
        return row_values(rows.rename_columns([ours.get(column, column) for column in rows.column_names]))


@dataclass(frozen=True)
class RecomputedRange:
    """A range of the log, the windows of the output range with their events, and every event's decision there."""

    arrivals: list[Arrival]
    windows: Sequence[RecomputedWindow]
    decisions: Mapping[ArrivalId, Decision]

    def decision_of(self, one: Arrival) -> Decision | None:
        """What became of an event of the range; None of a punctuation, or an arrival outside of it."""
        return self.decisions.get(id_of(one))

    def with_member(self, one: Arrival) -> list[RecomputedWindow]:
        """The windows that an event counts in."""
        return [window for window in self.windows if id_of(one) in map(id_of, window.members)]


def windows_after(job: Job, decision: Decision) -> OutputRange:
    """The ends of all windows that an event can count in."""
    time_us = decision.system_timestamp_us
    assert time_us is not None, "the event counts"
    back_us = None if job.profile == "stream_insight" else job_extent(job).back_us
    return OutputRange(time_us, None if back_us is None else time_us + back_us + 1)


def _event_id(job: Job, text: str) -> tuple[str, int, int]:
    parts = text.split("/")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts[1:]):
        raise UsageError(
            f"'{text}' names no event", key="--event", hint="write INPUT/PARTITION/SEQUENCE, like cars/0/17"
        )
    names = [part.name for part in job.inputs]
    if parts[0] not in names:
        raise UsageError(f"job {job.name} has no input '{parts[0]}'; {did_you_mean(parts[0], names)}", key="--event")
    return parts[0], int(parts[1]), int(parts[2])


def _end_us(row: Values) -> int:
    return int(str(row["window_end"]))
