"""Counts of events by arrival time and lag.

If an input's event time is a plain TIMESTAMP column, its files are read directly; otherwise Spark evaluates it, as a
replay would. Both give the same counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.model import Input, OutputRange
from pipelines.core.time import MAX_INSTANT_US, MIN_INSTANT_US
from pipelines.job.expressions import instant_sql
from pipelines.lakehouse.layout import ARRIVALS, arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.report.axes import Bands, Bins
from pipelines.report.scan import within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLAIN = frozenset({"timestamp", "timestamp_ltz"})


@dataclass(frozen=True, slots=True)
class Extent:
    """First and last arrival of the events in a range."""

    events: int
    first_us: int
    last_us: int


@dataclass
class Cells:
    """Events by bin and band, those without an event time by bin, and those that a replay has decided, by bin."""

    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    without_time: dict[int, int] = field(default_factory=dict)
    decided: dict[int, int] = field(default_factory=dict)


class Events(Protocol):
    """The events of one input in a range."""

    def extent(self) -> Extent | None:
        """Their number, first and last arrival; None if there are none."""

    def cells(self, bins: Bins, bands: Bands, decided: Sequence[OutputRange]) -> Cells:
        """The number in each cell; ``decided`` are the ranges of arrival time that a replay has written."""


def events_of(lakehouse: Lakehouse, part: Input, output: OutputRange) -> Events | None:
    """The events of ``part`` that arrived in ``output``, or None where its log is not written."""
    table = lakehouse.open(arrivals_table(part.name))
    if table is None:
        return None
    column = None if part.timestamp_by is None else part.column(part.timestamp_by.strip("` "))
    if part.timestamp_by is None or (column is not None and column.type in _PLAIN):
        return FileEvents(table.to_pyarrow_dataset(), None if column is None else column.name, output)
    return SparkEvents(lakehouse.uri(arrivals_table(part.name)), part.timestamp_by, output)


class FileEvents:
    """Events whose time is a TIMESTAMP column (None: the arrival time itself), read batch by batch."""

    def __init__(self, data: Any, time_column: str | None, output: OutputRange) -> None:
        self._data = data
        self._time = time_column or "arrival_time"
        self._output = output

    def extent(self) -> Extent | None:
        events, first_us, last_us = 0, MAX_INSTANT_US, MIN_INSTANT_US
        for arrival_us, _, _ in self._batches():
            events += len(arrival_us)
            first_us, last_us = min(first_us, int(arrival_us.min())), max(last_us, int(arrival_us.max()))
        return Extent(events, first_us, last_us) if events else None

    def cells(self, bins: Bins, bands: Bands, decided: Sequence[OutputRange]) -> Cells:
        found = Cells()
        edges = np.array(bands.lags_us, dtype=np.int64)
        for arrival_us, event_us, known in self._batches():
            bin_of = (arrival_us - bins.first_us) // bins.width_us
            # band 0 has lags <= edges[0]: the first edge that is not below the lag
            band_of = np.searchsorted(edges, arrival_us[known] - event_us[known], side="left")
            _add(found.counts, bin_of[known] * bands.count + band_of, lambda cell: divmod(cell, bands.count))
            _add(found.without_time, bin_of[~known], int)
            _add(found.decided, bin_of[_inside(arrival_us, decided)], int)
        return found

    def _batches(self) -> Iterator[tuple[Any, Any, Any]]:
        """Arrival times, event times (0 where there is none), and where there is one; never an empty batch."""
        columns = {"arrival": pc.field("arrival_time"), "event": pc.field(self._time)}
        for batch in self._data.to_batches(
            columns=columns, filter=within(ARRIVALS, self._output, pc.field("kind") == "event")
        ):
            if batch.num_rows:
                known = np.asarray(batch.column("event").is_valid())
                yield _micros(batch.column("arrival")), _micros(batch.column("event")), known


class SparkEvents:
    """Events whose time is an SQL expression, counted by Spark."""

    def __init__(self, uri: str, expression: str, output: OutputRange) -> None:
        self._uri = uri
        self._expression = expression
        self._output = output

    def extent(self) -> Extent | None:
        row = self._rows().selectExpr("count(*)", "min(arrival_us)", "max(arrival_us)").collect()[0]
        return Extent(row[0], row[1], row[2]) if row[0] else None

    def cells(self, bins: Bins, bands: Bands, decided: Sequence[OutputRange]) -> Cells:
        band = " + ".join(f"int(arrival_us - event_us > {lag_us})" for lag_us in bands.lags_us)
        within = " OR ".join(f"({ARRIVALS.condition(one) or 'true'})" for one in decided) or "false"
        rows = self._rows().selectExpr(
            f"(arrival_us - {bins.first_us}) div {bins.width_us} AS bin", f"{band} AS band", f"{within} AS decided"
        )
        found = Cells()
        for row in rows.groupBy("bin", "band", "decided").count().collect():
            if row["band"] is None:
                found.without_time[row["bin"]] = found.without_time.get(row["bin"], 0) + row["count"]
            else:
                cell = (row["bin"], row["band"])
                found.counts[cell] = found.counts.get(cell, 0) + row["count"]
            if row["decided"]:
                found.decided[row["bin"]] = found.decided.get(row["bin"], 0) + row["count"]
        return found

    def _rows(self) -> DataFrame:
        from pipelines.runtime.session import session

        rows = session().read.format("delta").load(self._uri).filter("kind = 'event'")
        condition = ARRIVALS.condition(self._output)
        rows = rows if condition is None else rows.filter(condition)
        event_us = f"unix_micros({instant_sql(self._expression)})"
        return rows.selectExpr("*", "unix_micros(arrival_time) AS arrival_us", f"{event_us} AS event_us")


def _micros(column: pa.Array) -> Any:
    return np.asarray(column.cast(TIMESTAMP).cast(pa.int64()).fill_null(0))


def _inside(arrival_us: Any, parts: Sequence[OutputRange]) -> Any:
    inside = np.zeros(len(arrival_us), dtype=bool)
    for part in parts:
        begin_us = MIN_INSTANT_US if part.from_us is None else part.from_us
        end_us = MAX_INSTANT_US + 1 if part.to_us is None else part.to_us
        inside |= (arrival_us >= begin_us) & (arrival_us < end_us)
    return inside


def _add(counts: dict[Any, int], numbers: Any, key: Any) -> None:
    for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
        place = key(int(number))
        counts[place] = counts.get(place, 0) + int(count)
