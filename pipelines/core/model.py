"""The job as frozen data, and the rows that engines take and give.

A :class:`Job` is a job file with checked names, durations in microseconds and defaults filled in.
Nothing here reads files or uses Spark.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.core.columns import is_called
from pipelines.core.query import (
    AGGREGATE_FUNCTIONS,
    Aggregate,
    AnyOf,
    Column,
    Count,
    Grid,
    Join,
    Query,
    Session,
    SimpleWindow,
    Sliding,
    Snapshot,
    SortKey,
    Window,
    output_name,
)
from pipelines.core.sources import Source
from pipelines.core.steps import Steps, first_window
from pipelines.core.time import MINUTE, SECOND

__all__ = [
    "AGGREGATE_FUNCTIONS",
    "EVERYTHING",
    "FINGERPRINTED",
    "REASONS",
    "Action",
    "Aggregate",
    "AnyOf",
    "Arrival",
    "AtlasOrdering",
    "Column",
    "Count",
    "Decision",
    "EndOfLog",
    "Grid",
    "Input",
    "Job",
    "Join",
    "Ordering",
    "OutputRange",
    "Profile",
    "Query",
    "Reference",
    "Session",
    "SimpleWindow",
    "Sliding",
    "Snapshot",
    "StreamAnalyticsOrdering",
    "StreamInsightOrdering",
    "Verdict",
    "Window",
    "WindowRow",
    "output_name",
]

Profile = Literal["stream_analytics", "atlas", "stream_insight"]
Action = Literal["adjust", "drop"]
EndOfLog = Literal["flush", "hold"]


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a job, as section ``inputs`` of the job file describes it.

    ``match_on`` of an edge is the job file's list, or every column that start, end and edge kind are not read from.
    ``same_log_as`` is the input whose arrivals it reads in another way, with verdicts of its own (Q5).
    ``arrival_regression`` is what ingest does with a record that lies before its predecessor's arrival time.
    ``complete``: CREATE TABLE names its columns, so that a record without one of them is no event (Q29).
    """

    name: str
    columns: tuple[Column, ...]
    timestamp_by: str | None = None
    over: tuple[str, ...] = ()
    sub_microsecond: Literal["reject", "truncate"] = "reject"
    partitions: int | None = None
    shape: Literal["point", "interval", "edge"] = "point"
    end_by: str | None = None
    edge_by: str | None = None
    match_on: tuple[str, ...] = ()
    same_log_as: str | None = None
    arrival_regression: Literal["quarantine", "hold_at_last"] = "quarantine"
    source: Source | None = None
    complete: bool = False

    @property
    def log(self) -> str:
        """The input whose arrival log it reads: itself, or the one that it names."""
        return self.same_log_as or self.name

    def column(self, name: str) -> Column | None:
        """The column of that name in any case, or of the name that it is stored under; or None."""
        return next((column for column in self.columns if is_called(column.name, name)), None)


@dataclass(frozen=True, slots=True)
class StreamAnalyticsOrdering:
    """Tolerances of Azure Stream Analytics. ``early_arrival_us`` None: off. ``late_arrival_us`` None: unbounded."""

    early_arrival_us: int | None = 5 * MINUTE
    late_arrival_us: int | None = 5 * SECOND
    out_of_order_us: int = 0
    action: Action = "adjust"


@dataclass(frozen=True, slots=True)
class AtlasOrdering:
    """Allowed lateness and idleness of Atlas Stream Processing."""

    allowed_lateness_us: int = 3 * SECOND
    idle_timeout_us: int | None = None
    idle_rule: Literal["after_window_end", "max_remaining"] = "after_window_end"
    partition_idle_timeout_us: int | None = None
    boundary: Literal["event_time", "processing_time"] = "event_time"


@dataclass(frozen=True, slots=True)
class StreamInsightOrdering:
    """AdvanceTimeSettings of StreamInsight: at most one of ``every_events`` and ``every_us`` is set."""

    action: Action
    every_events: int | None = None
    every_us: int | None = None
    delay_us: int = 0
    to_infinity_on_shutdown: bool = False
    import_from: str | None = None


Ordering = StreamAnalyticsOrdering | AtlasOrdering | StreamInsightOrdering


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference data of a job (Q79 to Q90).

    ``effective`` None: one static data set. Else the TIMESTAMP column from whose value on a snapshot holds; the rows
    of one value are one snapshot. ``time`` is what a stream's row is looked up by (Q85).
    """

    name: str
    columns: tuple[Column, ...]
    effective: str | None = None
    time: Literal["system_timestamp", "arrival"] = "system_timestamp"


@dataclass(frozen=True, slots=True)
class Job:
    """One validated job. ``query`` is one step with one window, or :class:`~pipelines.core.steps.Steps`."""

    name: str
    profile: Profile
    inputs: tuple[Input, ...]
    orderings: tuple[tuple[str, Ordering], ...]
    query: Query | Steps
    end_of_log: EndOfLog
    strict_limits: bool = False
    keep_verdicts: Literal["exceptions", "all"] = "exceptions"
    stream_windows: str = ""
    stream_columns: tuple[tuple[str, str], ...] = ()
    """Columns of the live run's table that have another name there: (name there, name in ``windows/<job>``)."""
    references: tuple[Reference, ...] = ()
    stream_outputs: tuple[tuple[str, str], ...] = ()
    """The live run's table of each output of steps: (output, table)."""

    @property
    def window_query(self) -> Query:
        """The query of a job of one step with one window."""
        assert isinstance(self.query, Query), f"job '{self.name}' has steps"
        return self.query

    @property
    def steps(self) -> Steps | None:
        """The query, if it is more than one step with one window."""
        return self.query if isinstance(self.query, Steps) else None

    @property
    def sources(self) -> tuple[str, ...]:
        """The inputs that the query reads; of a join the left one first."""
        if isinstance(self.query, Query):
            return self.query.inputs
        read = self.query.inputs()
        return tuple(part.name for part in self.inputs if part.name in read)

    @property
    def first_window(self) -> Window | None:
        """The window that rows of inputs meet first; None if they meet none."""
        if isinstance(self.query, Query):
            return self.query.window
        first = first_window(self.query)
        return None if first is None else first.window

    @property
    def logs(self) -> tuple[Input, ...]:
        """The inputs that have an arrival log of their own."""
        return tuple(part for part in self.inputs if part.same_log_as is None)

    def input(self, name: str) -> Input:
        """The input of that name; KeyError if there is none."""
        return {source.name: source for source in self.inputs}[name]

    def reference(self, name: str) -> Reference:
        """The reference data of that name; KeyError if there is none."""
        return {one.name: one for one in self.references}[name]

    def ordering(self, name: str) -> Ordering:
        """The ordering policy of that input."""
        return dict(self.orderings)[name]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what engines read of the job (:data:`FINGERPRINTED`), 64 hex digits.

        Layout, comments and spelled-out defaults of the job file do not change it.
        """
        return _sha256(_fingerprinted(self))

    @property
    def part_fingerprints(self) -> dict[str, str]:
        """The fingerprint in two parts: ``policy`` (when events count), ``query`` (all else, columns included)."""
        fields = _fingerprinted(self)
        policy = {name: fields.pop(name) for name in ("orderings", "end_of_log")}
        return {"policy": _sha256(policy), "query": _sha256(fields)}


FINGERPRINTED: dict[type, tuple[str, ...]] = {
    Job: ("profile", "inputs", "orderings", "query", "end_of_log", "keep_verdicts", "references"),
    Reference: ("name", "columns", "effective", "time"),
    Input: (
        "name",
        "same_log_as",
        "columns",
        "timestamp_by",
        "over",
        "partitions",
        "shape",
        "end_by",
        "edge_by",
        "match_on",
    ),
    Column: ("name", "type"),
    StreamAnalyticsOrdering: ("early_arrival_us", "late_arrival_us", "out_of_order_us", "action"),
    AtlasOrdering: ("allowed_lateness_us", "boundary"),
    StreamInsightOrdering: ("action", "every_events", "every_us", "delay_us", "import_from"),
    Query: ("window", "aggregates", "sources", "join", "where", "group_by"),
    Join: ("left", "right", "on", "unit", "from_units", "to_units", "kind"),
    Aggregate: ("name", "function", "argument", "distinct", "parameter", "order_by", "limit"),
    SortKey: ("expression", "descending"),
    Grid: ("size_us", "hop_us", "offset_us", "align_us"),
    Sliding: ("size_us",),
    Session: ("timeout_us", "max_duration_us", "partition_by", "align_us"),
    Snapshot: (),
    Count: ("n",),
    AnyOf: ("members",),
}
"""The fields that engines read; of the classes in :mod:`pipelines.core.steps` they are all.

The others describe the live job, bound what is accepted, or say where tables are.
"""


def _sha256(data: object) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _fingerprinted(value: object) -> Any:
    """JSON-ready data in which each dataclass names its class, so that windows of different kinds differ."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = FINGERPRINTED.get(type(value)) or tuple(field.name for field in dataclasses.fields(value))
        fields = {name: _fingerprinted(getattr(value, name)) for name in names}
        return {"is": type(value).__name__, **fields}
    if isinstance(value, tuple):
        return [_fingerprinted(item) for item in value]
    return _PLACE.sub(r"\1", value) if isinstance(value, str) else value


_PLACE = re.compile(r"(raise_error\(concat\(')(?:[^'\\]|\\.)*?:\d+:\d+: ")
"""Where a script says what an expression stops the run for: another layout of a script has the same meaning."""


@dataclass(frozen=True, slots=True)
class OutputRange:
    """Half-open range ``[from_us, to_us)`` on ``window_end`` and on verdicts' arrival time; None leaves a side open."""

    from_us: int | None = None
    to_us: int | None = None

    def __contains__(self, instant_us: int) -> bool:
        return (self.from_us is None or instant_us >= self.from_us) and (self.to_us is None or instant_us < self.to_us)


EVERYTHING = OutputRange()


@dataclass(frozen=True, slots=True)
class Arrival:
    """One row of an arrival log: an event, or a punctuation when ``punctuation_us`` is set.

    ``payload`` maps every column of the input to its value; instants are microseconds as ``int``.
    ``input_partition`` is None only on a punctuation that applies to all partitions.
    """

    input: str
    input_partition: int | None
    sequence: int
    arrival_time_us: int
    payload: dict[str, object]
    punctuation_us: int | None = None
    cause: str | None = None


Verdict = Literal["accepted", "adjusted", "dropped", "partial"]
REASONS = (
    *("invalid_time", "invalid_key", "early", "before_current_time"),
    *("late", "out_of_order", "orphan_end", "cancelled"),
)
"""Every reason that a verdict can have, in the order in which a verdict lists them."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one event: one row of ``verdicts/<job>``."""

    input: str
    input_partition: int
    sequence: int
    arrival_time_us: int
    event_time_us: int | None
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    system_timestamp_us: int | None = None
    lifetime_end_us: int | None = None
    watermark_us: int | None = None
    missed_windows_us: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One window result: ``values`` are group keys and aggregates by output name."""

    window_start_us: int
    window_end_us: int
    window_id: str | None
    values: dict[str, object]

    def as_row(self) -> dict[str, object]:
        """The row by the column names of table ``windows/<job>``, with instants as microseconds."""
        bounds = {"window_start": self.window_start_us, "window_end": self.window_end_us}
        return {**bounds, "window_id": self.window_id, **self.values}
