"""The rows that count, kept for as long as steps look back, and given slice by slice as time advances.

Each of a query's rows depends on rows at most ``back_us`` before it and ``ahead_us`` after it (:class:`Extent`). Once
no row of an input can count before an instant any more, everything less ``ahead_us`` is complete. So a batch gives the
outputs of ``[low, high)``, whole and once, and what is needed to compute them: the rows from ``low - back_us`` on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from pipelines.core.model import Input
from pipelines.core.steps import Analysed, Joined, Windowed
from pipelines.lakehouse.schema import arrow_type
from pipelines.live.ordering import OrderingPolicy
from pipelines.live.state.arrivals import LogOutOfOrder
from pipelines.live.state.columns import whole
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import MISSED, Output, Slice
from pipelines.live.state.rows import FOREVER, NEVER, Counted, CountedBatch
from pipelines.plan.paths import extents


class Reach(NamedTuple):
    """How far an output looks back and ahead in one input, in microseconds."""

    back_us: int
    ahead_us: int


@dataclass(slots=True)
class SlicedRows:
    """The rows of each input that outputs at ``low`` or later may need; the outputs before it were given.

    Where outputs look at one row at a time nothing has to wait: each row is given at once, and none is kept.
    """

    compiled: CompiledJob
    reaches: dict[str, Reach]
    one_by_one: bool
    low: int = NEVER
    rows: dict[str, pa.Table] = field(default_factory=dict)

    @classmethod
    def new(cls, compiled: CompiledJob) -> SlicedRows:
        """No row has come yet."""
        reaches = {}
        for name, extent in extents(compiled.job).items():
            if name in compiled.sources:
                assert extent.back_us is not None, "refused before"
                reaches[name] = Reach(extent.back_us, extent.ahead_us)
        assert compiled.job.steps is not None
        several = (Analysed, Windowed, Joined)
        one_by_one = not any(isinstance(rows, several) for _, rows in compiled.job.steps.relations())
        return cls(compiled, reaches, one_by_one)

    def add(self, name: str, counted: Counted) -> None:
        """Keep rows of one input that count."""
        if not len(counted):
            return
        rows = _by_column(self.compiled.job.input(name), counted)
        # a document of atlas may be late for some of its windows alone
        is_moved = self.compiled.job.profile == "stream_analytics"
        if is_moved and not self.one_by_one and int(whole(rows["start"], NEVER).min()) < self.low:
            raise LogOutOfOrder("a row came that counts in outputs already given")
        self.rows[name] = pa.concat_tables([self.rows[name], rows]) if name in self.rows else rows

    def emit(self, policy: OrderingPolicy, output: Output) -> None:
        """Give the outputs that are complete now, and remove the rows that no later one needs."""
        if self.one_by_one:
            output.slice, self.rows = self._slice(FOREVER), {}
            return
        high = min(policy.bound(name) - reach.ahead_us for name, reach in self.reaches.items())
        if self.compiled.job.end_of_log == "hold":
            high = min(high, policy.released())
        if high <= self.low:
            return
        output.slice = self._slice(high)
        self.low = high
        for name, reach in self.reaches.items():
            if name in self.rows:
                start = whole(self.rows[name]["start"], NEVER)
                self.rows[name] = self.rows[name].filter(start >= high - reach.back_us)

    def finish(self, policy: OrderingPolicy, output: Output) -> None:
        """Give what the end of the log makes complete."""
        rest = self._slice(FOREVER)
        if rest is not None and self.compiled.job.end_of_log == "hold":
            rest = rest._replace(settled_by=policy)
        output.provisional_slice = rest

    def _slice(self, high: int) -> Slice | None:
        rows = {}
        for name, table in self.rows.items():
            start = whole(table["start"], NEVER)
            rows[name] = table.filter(start < high + self.reaches[name].ahead_us)
        return Slice(self.low, high, rows) if high > self.low and any(map(len, rows.values())) else None


def _by_column(part: Input, counted: Counted) -> pa.Table:
    """The columns of :class:`Slice`."""
    if isinstance(counted, CountedBatch):
        return counted.columns.append_column(MISSED, pa.nulls(len(counted), pa.list_(pa.int64())))
    rows = counted.rows
    places = zip(*(row.arrived for row in rows), strict=True)
    values = zip(*(row.values for row in rows), strict=True)
    return pa.table(
        {
            "start": [row.start for row in rows],
            **{f"arrived{index}": list(column) for index, column in enumerate(places)},
            **{
                f"v{index}": pa.array(mine, arrow_type(column.type))
                for index, (mine, column) in enumerate(zip(values, part.columns, strict=True))
            },
            MISSED: pa.array([row.missed or None for row in rows], pa.list_(pa.int64())),
        }
    )
