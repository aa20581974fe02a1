"""The job as frozen data, and the rows that engines take and give.

A :class:`Job` is a job file with checked names, durations in microseconds and defaults filled in.
Nothing here reads files or uses Spark.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from pipelines.core.time import MINUTE, ORIGIN_0001_US, SECOND

Profile = Literal["stream_analytics", "atlas", "stream_insight"]
Action = Literal["adjust", "drop"]
EndOfLog = Literal["flush", "hold"]


@dataclass(frozen=True, slots=True)
class Column:
    """One payload column: its name and its Spark SQL type in lower case, ``decimal(10,2)``."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a job, as section ``inputs`` of the job file describes it.

    ``match_on`` of an edge is the job file's list, or every column that start, end and edge kind are not read from.
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

    def column(self, name: str) -> Column | None:
        """The column of that name in any case, or None."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)


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
class Grid:
    """Tumbling (``hop_us == size_us``) and hopping windows; ``hop_us > size_us`` leaves gaps.

    stream_analytics puts window *ends* at ``align_us + offset_us + k * hop_us``, the other profiles *starts*.
    """

    size_us: int
    hop_us: int
    offset_us: int = 0
    align_us: int = ORIGIN_0001_US


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window ends whenever its content changes (stream_analytics)."""

    size_us: int


@dataclass(frozen=True, slots=True)
class Session:
    """Sessions. stream_analytics: ``timeout_us`` and ``max_duration_us``; atlas: ``timeout_us`` is the gap.

    ``align_us`` is the origin of the check points at multiples of ``max_duration_us``.
    """

    timeout_us: int
    max_duration_us: int | None = None
    partition_by: tuple[str, ...] = ()
    align_us: int = ORIGIN_0001_US


@dataclass(frozen=True, slots=True)
class Snapshot:
    """stream_analytics: rows of one system timestamp. stream_insight: between two neighbouring starts and ends."""


@dataclass(frozen=True, slots=True)
class Count:
    """``n`` consecutive distinct start times (stream_insight)."""

    n: int


SimpleWindow = Grid | Sliding | Session | Snapshot | Count


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The union of several windows' results; each row names its window in ``window_id``."""

    members: tuple[tuple[str, SimpleWindow], ...]


Window = SimpleWindow | AnyOf


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: ``function`` over the row-local SQL expression ``argument`` (None for ``count(*)``).

    ``function`` is one of :data:`AGGREGATE_FUNCTIONS`; ``parameter`` is the fraction of a percentile.
    """

    name: str
    function: str
    argument: str | None = None
    distinct: bool = False
    parameter: float | None = None


AGGREGATE_FUNCTIONS = frozenset(
    {
        *("count", "sum", "avg", "min", "max", "stddev_samp", "stddev_pop", "var_samp", "var_pop"),
        *("percentile_cont", "percentile_disc", "first", "last", "collect"),
    }
)


@dataclass(frozen=True, slots=True)
class Join:
    """A stream join: ``DATEDIFF(unit, left, right) BETWEEN from_units AND to_units`` and equal ``on`` columns."""

    left: str
    right: str
    on: tuple[str, ...]
    unit: Literal["microsecond", "millisecond", "second", "minute", "hour", "day"]
    from_units: int
    to_units: int
    kind: Literal["inner", "left"] = "inner"


@dataclass(frozen=True, slots=True)
class Query:
    """What is computed: exactly one of ``sources`` (one input, or a union) and ``join`` is set.

    ``group_by`` lists columns as the job file writes them (``a.plate`` in a join); :func:`output_name` gives the name
    in the result.
    """

    window: Window
    aggregates: tuple[Aggregate, ...]
    sources: tuple[str, ...] = ()
    join: Join | None = None
    where: str | None = None
    group_by: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs that the query reads."""
        return self.sources if self.join is None else (self.join.left, self.join.right)

    @property
    def windows(self) -> tuple[tuple[str | None, SimpleWindow], ...]:
        """Each window with its ``window_id``, which is None unless the query has ``any_of`` (S13)."""
        return self.window.members if isinstance(self.window, AnyOf) else ((None, self.window),)


@dataclass(frozen=True, slots=True)
class Job:
    """One validated job."""

    name: str
    profile: Profile
    inputs: tuple[Input, ...]
    orderings: tuple[tuple[str, Ordering], ...]
    query: Query
    end_of_log: EndOfLog
    strict_limits: bool = False
    keep_verdicts: Literal["exceptions", "all"] = "exceptions"
    stream_windows: str = ""
    stream_columns: tuple[tuple[str, str], ...] = ()
    """Columns of the live run's table that have another name there: (name there, name in ``windows/<job>``)."""

    def input(self, name: str) -> Input:
        """The input of that name; KeyError if there is none."""
        return {source.name: source for source in self.inputs}[name]

    def ordering(self, name: str) -> Ordering:
        """The ordering policy of that input."""
        return dict(self.orderings)[name]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what engines read of the job (:data:`FINGERPRINTED`), 64 hex digits.

        Layout, comments and spelled-out defaults of the job file do not change it.
        """
        text = json.dumps(_fingerprinted(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


FINGERPRINTED: dict[type, tuple[str, ...]] = {
    Job: ("profile", "inputs", "orderings", "query", "end_of_log", "keep_verdicts"),
    Input: ("name", "columns", "timestamp_by", "over", "partitions", "shape", "end_by", "edge_by", "match_on"),
    Column: ("name", "type"),
    StreamAnalyticsOrdering: ("early_arrival_us", "late_arrival_us", "out_of_order_us", "action"),
    AtlasOrdering: ("allowed_lateness_us", "boundary"),
    StreamInsightOrdering: ("action", "every_events", "every_us", "delay_us", "import_from"),
    Query: ("window", "aggregates", "sources", "join", "where", "group_by"),
    Join: ("left", "right", "on", "unit", "from_units", "to_units", "kind"),
    Aggregate: ("name", "function", "argument", "distinct", "parameter"),
    Grid: ("size_us", "hop_us", "offset_us", "align_us"),
    Sliding: ("size_us",),
    Session: ("timeout_us", "max_duration_us", "partition_by", "align_us"),
    Snapshot: (),
    Count: ("n",),
    AnyOf: ("members",),
}
"""The fields that engines read. The others describe the live job, bound what is accepted, or say where tables are."""


def _fingerprinted(value: object) -> object:
    """JSON-ready data in which each dataclass names its class, so that windows of different kinds differ."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {name: _fingerprinted(getattr(value, name)) for name in FINGERPRINTED[type(value)]}
        return {"is": type(value).__name__, **fields}
    if isinstance(value, tuple):
        return [_fingerprinted(item) for item in value]
    return value


def output_name(column: str) -> str:
    """The result's name of a grouping column: ``a.plate`` becomes ``a_plate``."""
    return column.replace(".", "_")


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
class Fate:
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
