"""What passes between the steps of the reference engine: a log's events, and the rows that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.core.expressions import Reading
from pipelines.core.model import Arrival, Decision, Job, Query, SimpleWindow
from pipelines.plan.initial_state import InitialStates

Span = tuple[int, int]
"""A window's start and end in microseconds; which of the two belongs to it is the profile's to say."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log with what the job's expressions say about it.

    ``position`` is its place in the arrival order over all inputs. ``key`` is the tuple of ``over`` values, None where
    one of them is null. ``end_us``, ``edge`` and ``match`` are set for the shapes of stream_insight only.
    ``passes``: no filter removes it before the first window; ``chain`` are the values that sessions are chained by.
    """

    arrival: Arrival
    position: int
    read: Reading
    event_time_us: int | None = None
    key: tuple[object, ...] | None = ()
    end_us: int | None = None
    edge: str | None = None
    match: tuple[object, ...] = ()
    passes: bool = True
    chain: tuple[object, ...] = ()

    @property
    def place(self) -> tuple[int, int, int]:
        """The arrival order ``(arrival_time, input_partition, sequence)``; see :func:`place_of`."""
        return place_of(self.arrival)

    def decision(self, **decided: Any) -> Decision:
        """The event's decision with what the policy decided."""
        one = self.arrival
        assert one.input_partition is not None
        who = (one.input, one.input_partition, one.sequence, one.arrival_time_us, self.event_time_us)
        return Decision(*who, **decided)


def place_of(arrival: Arrival) -> tuple[int, int, int]:
    """Where a row stands in the arrival order; what speaks for all partitions precedes the partitions of its time."""
    partition = -1 if arrival.input_partition is None else arrival.input_partition
    return arrival.arrival_time_us, partition, arrival.sequence


def passes(query: Query, reading: Reading) -> bool:
    """Does ``where`` keep the row? Null does not."""
    return query.where is None or reading[query.where] is True


@dataclass(frozen=True, slots=True)
class Row:
    """One row that counts: an event the policy let through, or a joined pair.

    It counts at ``start_us``, its system timestamp; ``end_us`` ends its lifetime (None: it never ends) and matters to
    stream_insight alone. ``arrived`` orders rows of equal time. ``missed_us`` are starts of windows that were closed
    already; ``session`` numbers the session that the ordering put it in (both atlas).
    """

    start_us: int
    arrived: tuple[int, ...]
    payload: Mapping[str, object]
    read: Reading
    end_us: int | None = None
    missed_us: tuple[int, ...] = ()
    session: int | None = None
    input: str = ""

    @property
    def order(self) -> tuple[int, tuple[int, ...]]:
        """System timestamp, then arrival order (G6)."""
        return (self.start_us, self.arrived)


Settled = Callable[[int, Mapping[str, object]], bool]
"""(window end, group keys by job-file name) -> was that window closed before the log ended?"""


@dataclass(frozen=True, slots=True)
class Ordered:
    """What a profile's policy made of a log.

    ``decisions`` has one for each event, ``rows`` what counts, both in arrival order. ``settled``: which windows had
    closed when the log ended. ``horizon_us`` bounds the windows of rows that never end.
    """

    decisions: tuple[Decision, ...]
    rows: tuple[Row, ...]
    settled: Settled
    horizon_us: int | None = None
    dead_letters: tuple[tuple[Event, Decision, str, str], ...] = field(default=())


Assign = Callable[[SimpleWindow, Sequence[Row], Ordered], "list[tuple[Span, list[Row]]]"]
"""(window, rows of one group or chain, what the ordering said) -> each window that has rows, with its rows."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One row of the table of profiles: the ordering policy, and how rows fall into each kind of window."""

    order: Callable[[Job, Sequence[Event], InitialStates | None], Ordered]
    assign: Mapping[type[SimpleWindow], Assign]
