"""What ``why`` looks at: a stretch of the log recomputed, and what the tables hold about one event or window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import (
    EVERYTHING,
    AnyOf,
    Arrival,
    Fate,
    Grid,
    Input,
    Job,
    OutputRange,
    Session,
    Sliding,
    Window,
)
from pipelines.core.time import DAY, UNIT_US, format_instant, to_datetime
from pipelines.lakehouse.arrival_rows import arrivals_where, plain_values
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.lakehouse.show import plain
from pipelines.plan.read_range import ReadRange, read_range
from pipelines.recompute.reads import near
from pipelines.recompute.windows import Logs, Made, Remembering, recompute, same

_WHOLE = 150_000
"""Arrivals up to which a job that hangs on its whole log is recomputed from it."""


@dataclass
class Scene:
    """One job over one lakehouse, as it is now."""

    job: Job
    lakehouse: Lakehouse
    logs: Logs = field(init=False)
    evaluate: Remembering = field(init=False)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.logs = Logs(self.lakehouse)
        self.evaluate = Remembering()

    def around(self, output: OutputRange) -> RecomputedRange:
        """The arrivals that make ``output`` exact, recomputed; of a very long log a stretch around it, with a note."""
        exact = read_range(self.job, output)
        read = near(self.job, output, self.logs, _WHOLE)
        if read != exact:
            self._note(
                f"the job hangs on its whole log, which is long: recomputed from the arrivals of"
                f" {_span(read)}; 'tailrace replay' reads all"
            )
        arrivals = self.logs.of(self.job, read)
        found = recompute(self.job, arrivals, EVERYTHING, self.evaluate)
        fates: dict[tuple[str, int | None, int], Fate] = {
            (fate.input, fate.input_partition, fate.sequence): fate for fate in found.fates
        }
        windows = [made for made in found.windows if int(str(made.row["window_end"])) in output]
        return RecomputedRange(arrivals, windows, fates)

    def arrival(self, event: str) -> Arrival:
        """The event that ``INPUT/PARTITION/SEQUENCE`` names; :class:`UsageError` if there is none."""
        name, partition, sequence = _event_id(self.job, event)
        part = self.job.input(name)
        wanted = (pc.field("input_partition") == partition) & (pc.field("sequence") == sequence)
        found = arrivals_where(self.logs.table(name), part, wanted)
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
        """Arrivals at any time whose event time lies in ``[from_us, to_us]``; None where that is an expression."""
        column = None if part.timestamp_by is None else part.column(part.timestamp_by)
        if column is None or column.type != "timestamp":
            return None
        time = pc.field(column.name)
        wanted = (time >= pa.scalar(from_us, TIMESTAMP)) & (time <= pa.scalar(to_us, TIMESTAMP))
        return arrivals_where(self.logs.table(part.name), part, wanted & (pc.field("kind") == "event"))

    def live_windows(self, end_us: int) -> list[dict[str, Any]] | None:
        """The live run's rows of one window end by our column names; None where there is no such table."""
        return self._rows(self.job.stream_windows, end_us, {ours: theirs for theirs, ours in self.job.stream_columns})

    def replayed_windows(self, end_us: int) -> list[dict[str, Any]] | None:
        """The rows of ``windows/<job>`` of one window end; None where there is no such table."""
        return self._rows(f"windows/{self.job.name}", end_us, {})

    def reconciled(self, end_us: int) -> list[dict[str, Any]] | None:
        """The rows of ``reconciliations/<job>`` of one window end."""
        return self._rows(f"reconciliations/{self.job.name}", end_us, {})

    def live_verdict(self, one: Arrival) -> tuple[bool, dict[str, Any] | None]:
        """Whether the live run has a table of verdicts, and its row for that event."""
        table = self.lakehouse.open(f"stream_verdicts/{self.job.name}")
        if table is None:
            return False, None
        day = pa.scalar(one.arrival_time_us // DAY, pa.int32()).cast(pa.date32())
        wanted = (pc.field("arrival_date") == day) & (pc.field("input") == one.input)
        wanted &= (pc.field("input_partition") == one.input_partition) & (pc.field("sequence") == one.sequence)
        rows = table.to_pyarrow_dataset().to_table(filter=wanted).to_pylist()
        return True, None if not rows else plain(rows[0])

    def _rows(self, name: str, end_us: int, mapping: Mapping[str, str]) -> list[dict[str, Any]] | None:
        if "." in name and "/" not in name:
            self._note(f"{name} is a catalog's table, which is not looked into here; 'tailrace reconcile' is")
            return None
        table = self.lakehouse.open(name)
        if table is None:
            return None
        data = table.to_pyarrow_dataset()
        end = mapping.get("window_end", "window_end")
        if end not in data.schema.names or not pa.types.is_timestamp(data.schema.field(end).type):
            self._note(f"{name} has no TIMESTAMP column {end}")
            return None
        wanted = pc.field(end) == pa.scalar(end_us, data.schema.field(end).type)
        if "output_date" in data.schema.names:
            wanted &= pc.field("output_date") == pa.scalar(end_us // DAY, pa.int32()).cast(pa.date32())
        rows = data.to_table(filter=wanted)
        back = {theirs: ours for ours, theirs in mapping.items()}
        columns = {back.get(column, column): plain_values(rows[column]) for column in rows.column_names}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True)
class RecomputedRange:
    """A stretch of the log, the windows of the output range with their events, and every event's fate there."""

    arrivals: list[Arrival]
    windows: Sequence[Made]
    fates: Mapping[tuple[str, int | None, int], Fate]

    def fate_of(self, one: Arrival) -> Fate | None:
        """What became of an event of the stretch."""
        return self.fates.get((one.input, one.input_partition, one.sequence))

    def with_member(self, one: Arrival) -> list[Made]:
        """The windows that an event counts in."""
        name = (one.input, one.input_partition, one.sequence)
        places = {
            place
            for place, other in enumerate(self.arrivals)
            if (other.input, other.input_partition, other.sequence) == name
        }
        return [made for made in self.windows if places & set(made.members)]


def windows_after(job: Job, time_us: int) -> OutputRange:
    """The ends of all windows that something which counts at ``time_us`` can be in."""
    reach = _reach_us(job, job.query.window)
    if reach is None:
        return OutputRange()
    join = job.query.join
    if join is not None:
        reach += (max(abs(join.from_units), abs(join.to_units)) + 1) * UNIT_US[join.unit]
    return OutputRange(time_us, time_us + reach + 1)


def matches(row: Mapping[str, object], key: Mapping[str, object], names: Sequence[str]) -> bool:
    """Is it the row of that key?"""
    return all(same(row.get(name), key[name]) for name in names if name in row)


def shown_row(row: Mapping[str, object]) -> dict[str, object]:
    """A window row as JSON-ready data, its bounds as instants."""
    instants = ("window_start", "window_end", "emitted_at")
    return {
        name: format_instant(value) if name in instants and isinstance(value, int) else plain(value)
        for name, value in row.items()
        if name != "output_date"
    }


def shown_payload(part: Input, payload: Mapping[str, object]) -> dict[str, object]:
    """A payload as JSON-ready data."""
    kinds = {column.name: column.type for column in part.columns}
    return {
        name: plain(
            to_datetime(value) if kinds.get(name, "").startswith("timestamp") and isinstance(value, int) else value
        )
        for name, value in payload.items()
    }


def _reach_us(job: Job, window: Window) -> int | None:
    if job.profile == "stream_insight":
        return None
    match window:
        case Grid(size_us=size_us) | Sliding(size_us=size_us):
            return size_us
        case Session(timeout_us=timeout_us, max_duration_us=longest_us):
            return None if longest_us is None else 2 * longest_us + timeout_us
        case AnyOf(members=members):
            reaches = [_reach_us(job, member) for _, member in members]
            known = [reach for reach in reaches if reach is not None]
            return max(known) if len(known) == len(reaches) else None
    return 0


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


def _span(read: ReadRange) -> str:
    first = "the beginning" if read.from_us is None else format_instant(read.from_us)
    last = "the end" if read.to_us is None else format_instant(read.to_us)
    return f"[{first}, {last}]"
