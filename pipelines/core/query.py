"""What a query is made of: columns, windows, aggregates, and the query of one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipelines.core.time import ORIGIN_0001_US


@dataclass(frozen=True, slots=True)
class Column:
    """One payload column: its name and its Spark SQL type in lower case, ``decimal(10,2)``."""

    name: str
    type: str


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
    """stream_analytics: equal system timestamps. stream_insight: between neighbouring endpoints."""


@dataclass(frozen=True, slots=True)
class Count:
    """Runs of ``n`` consecutive distinct start times (stream_insight)."""

    n: int


SimpleWindow = Grid | Sliding | Session | Snapshot | Count


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The union of several windows' results; each row names its window in ``window_id``."""

    members: tuple[tuple[str, SimpleWindow], ...]


Window = SimpleWindow | AnyOf


@dataclass(frozen=True, slots=True)
class SortKey:
    """A row-local SQL expression to sort by; null is the lowest value (Q56)."""

    expression: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: ``function`` over the row-local SQL expression ``argument`` (None for ``count(*)``).

    ``function`` is one of :data:`AGGREGATE_FUNCTIONS`, or ``top_one`` or ``collect_top``; ``parameter`` is the fraction
    of a percentile. ``order_by`` says which row ``top_one`` takes, in which order ``collect_top`` takes ``limit`` of
    them (Q56), and whether a percentile counts from the greatest value (Q55). Where it leaves rows equal, the earlier
    one by system timestamp and order comes first.
    """

    name: str
    function: str
    argument: str | None = None
    distinct: bool = False
    parameter: float | None = None
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None


AGGREGATE_FUNCTIONS = frozenset(
    {
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "stddev_samp",
        "stddev_pop",
        "var_samp",
        "var_pop",
        "percentile_cont",
        "percentile_disc",
        "first",
        "last",
        "collect",
    }
)
"""What a job file may name; steps have ``top_one`` and ``collect_top`` too, which need ``order_by``."""


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
    """What is computed: exactly one of ``sources`` (one input, or a union) and ``join`` is filled.

    ``group_by`` contains column names as the job file writes them (``a.plate`` in a join); :func:`output_name` gives
    the name in the result.
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
        return members_of(self.window)


def members_of(window: Window) -> tuple[tuple[str | None, SimpleWindow], ...]:
    """The windows of ``any_of`` with their ids; a single window has none."""
    return window.members if isinstance(window, AnyOf) else ((None, window),)


def output_name(column: str) -> str:
    """The result's name of a grouping column: ``a.plate`` becomes ``a_plate``."""
    return column.replace(".", "_")
