"""Several policies over one scan: the events of an input, and the windows of a query, decided under each at once.

What late events were moved to does not matter to the watermark ``max(M, a - L) - O`` (S7): an earlier event was moved
to its own arrival minus L at most, and arrival times never fall. So M is the same for every L and O, and one running
maximum for each early guard serves all policies. Windows of a grid need only the cell that a time is in
(:func:`~pipelines.plan.watermark_strategy.cell_grid_of`), and most events are in one cell under all policies: these are
aggregated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.aggregates import aggregate
from pipelines.batch.columns import (
    ARRIVAL_US,
    EVENT_US,
    IS_PUNCTUATION,
    KEY_VALID,
    PARTITION,
    SEQUENCE,
    SYSTEM_US,
    WINDOW_END_US,
    within,
)
from pipelines.batch.grids import end_at_or_after
from pipelines.batch.logs import Log
from pipelines.batch.normalise import condition
from pipelines.batch.spark.prefix_max import prefix_max
from pipelines.batch.stream_analytics.policy import (
    Outcome,
    counts_at_us,
    is_valid,
    outcome,
    outcomes,
    time_us,
    watermark_us,
)
from pipelines.batch.stream_analytics.windows import windowed
from pipelines.core.expressions import quoted
from pipelines.core.model import OutputRange, Query, StreamAnalyticsOrdering
from pipelines.plan.watermark_strategy import CellGrid

SETTING = "__setting"
"""The number of a policy, from 1; 0 is the complete truth: every event at its own time."""
MOST = 62
"""So many policies fit into the bits of a BIGINT, with the truth."""

_CELLS = "__cells"


@dataclass(frozen=True)
class SeveralPolicies:
    """One input under ``policies``; ``payload``: the columns that the query reads. Timelines begin empty."""

    log: Log
    policies: tuple[StreamAnalyticsOrdering, ...]
    payload: tuple[str, ...]

    @cached_property
    def scanned(self) -> DataFrame:
        """The events, with the greatest time of the timeline before each for every early guard; worth keeping."""
        rows = self.log.rows().filter(~F.col(IS_PUNCTUATION))
        columns = [EVENT_US, ARRIVAL_US, KEY_VALID]
        if self.log.source.timestamp_by is not None:
            times = {f"{name}_time": time_us(guard) for name, guard in self._guards.items()}
            rows = rows.withColumns(times)
            for name in self._guards:
                rows = prefix_max(rows, (PARTITION, *self.log.source.over), (SEQUENCE,), f"{name}_time", name)
            columns += self._guards
        return rows.select(*columns, *map(quoted, self.payload))

    def decided(self) -> DataFrame:
        """:attr:`scanned` with outcome and SYSTEM_US of each policy (:func:`outcome_of`, :func:`counts_of`)."""
        if self.log.source.timestamp_by is None:
            # events count when they arrive (S8)
            numbers = range(1, len(self.policies) + 1)
            outcome_columns = {outcome_of(number): F.lit(0) for number in numbers}
            return self.scanned.withColumns(outcome_columns | {counts_of(one): F.col(EVENT_US) for one in numbers})
        found: list[dict[str, Column]] = [{}, {}, {}]
        for number, policy in enumerate(self.policies, 1):
            time, watermark = F.col(f"__time{number}"), F.col(f"__watermark{number}")
            max_before = _guard_name(policy)
            found[0][f"__time{number}"] = time_us(policy)
            found[0][f"__watermark{number}"] = F.when(is_valid(), watermark_us(policy, max_before))
            found[1][outcome_of(number)] = outcome(policy, time, watermark)
            found[2][counts_of(number)] = counts_at_us(policy, F.col(outcome_of(number)), time, watermark)
        return reduce(DataFrame.withColumns, found, self.scanned)

    def decisions(self, output: OutputRange) -> list[list[tuple[Outcome, int, int, int]]]:
        """Of each policy the events that arrived in the range: groups of outcome, number of events, and the sum and the
        maximum of how far they were moved. One aggregation by the outcomes under all policies together."""
        numbers = range(1, len(self.policies) + 1)
        moved = {number: F.col(counts_of(number)) - F.col(EVENT_US) for number in numbers}
        low = F.lit(2**32 - 1).cast("bigint")
        groups = (
            self.decided()
            .filter(within(ARRIVAL_US, output))
            .groupBy(*map(outcome_of, numbers))
            .agg(
                F.count(F.lit(1)).alias("events"),
                # two halves that cannot overflow
                *(F.sum(F.shiftright(moved[number], 32)).alias(f"high{number}") for number in numbers),
                *(F.sum(moved[number].bitwiseAND(low)).alias(f"low{number}") for number in numbers),
                *(F.max(moved[number]).alias(f"max{number}") for number in numbers),
            )
            .collect()
        )
        return [
            [
                (
                    known[row[outcome_of(number)]],
                    row["events"],
                    ((row[f"high{number}"] or 0) << 32) + (row[f"low{number}"] or 0),
                    row[f"max{number}"] or 0,
                )
                for row in groups
            ]
            for number, known in enumerate(map(outcomes, self.policies), 1)
        ]

    @property
    def _guards(self) -> Mapping[str, StreamAnalyticsOrdering]:
        """A policy of each early guard, without a late tolerance, by the column of its greatest time."""
        return {_guard_name(one): replace(one, late_arrival_us=None) for one in self.policies}


def outcome_of(number: int) -> str:
    """The column of an event's outcome under a policy."""
    return f"__outcome{number}"


def counts_of(number: int) -> str:
    """The column of the time at which an event counts under a policy."""
    return f"__counts{number}_us"


def _guard_name(policy: StreamAnalyticsOrdering) -> str:
    guard = "off" if policy.early_arrival_us is None else policy.early_arrival_us
    return f"__max_before_{guard}"


def windows_of_each(inputs: Sequence[SeveralPolicies], query: Query, grid: CellGrid, output: OutputRange) -> DataFrame:
    """The windows of the range under each policy, in column SETTING, and of the truth: WINDOW columns, group keys and
    aggregates. ``grid``: its cells are all that the windows need to know of a time."""
    count = len(inputs[0].policies)
    assert count <= MOST, count
    parts = []
    for one in inputs:
        decided = one.decided()
        payload = [*map(quoted, one.payload)]
        times = [F.when(is_valid(), F.col(EVENT_US)), *(F.col(counts_of(number)) for number in range(1, count + 1))]
        cells = [end_at_or_after(time, grid.width_us, grid.origin_us) for time in times]
        rows = decided if query.where is None else decided.filter(condition(decided, query.where, "query.where"))
        names = [f"__cell{number}" for number in range(count + 1)]
        celled = rows.select(*payload, *(cell.alias(name) for cell, name in zip(cells, names, strict=True)))
        # made once a row: lambdas would make it again at each step
        celled = celled.withColumn(_CELLS, F.array(*names))
        parts.append(celled.select(*payload, F.explode(_cells(names)).alias(_CELLS)))
    rows = reduce(DataFrame.unionByName, parts)
    rows = rows.select("*", f"{_CELLS}.*").drop(_CELLS).filter(F.col(SYSTEM_US).isNotNull())
    members = windowed(rows, query.window, query.group_by).filter(within(WINDOW_END_US, output))
    by_setting = replace(query, group_by=(*query.group_by, SETTING))
    return aggregate(members, by_setting, regroup=lambda groups: groups.withColumn(SETTING, _numbers(count)))


def _cells(names: Sequence[str]) -> Column:
    """The cells of an event, as SYSTEM_US, each with the policies under which it is there, as bits of SETTING; column
    _CELLS has them all in an array."""
    first = F.col(names[0])
    everywhere = reduce(Column.__and__, (F.col(name).eqNullSafe(first) for name in names[1:]))

    def cell(at: Column, bits: Column) -> Column:
        return F.struct(at.alias(SYSTEM_US), bits.alias(SETTING))

    def bits_at(at: Column) -> Column:
        bits = F.array(*(F.lit(1 << number).cast("bigint") for number in range(len(names))))
        here = F.zip_with(_CELLS, bits, lambda one, bit: F.when(one.eqNullSafe(at), bit).otherwise(0))
        return F.aggregate(here, F.lit(0).cast("bigint"), lambda sum_so_far, bit: sum_so_far + bit)

    every_bit = F.lit((1 << len(names)) - 1).cast("bigint")
    apart = F.transform(F.array_distinct(_CELLS), lambda at: cell(at, bits_at(at)))
    return F.when(everywhere, F.array(cell(first, every_bit))).otherwise(apart)


def _numbers(count: int) -> Column:
    """The numbers of the bits that are set in SETTING, one a row."""
    return F.explode(F.expr(f"filter(sequence(0, {count}), one -> (shiftright({SETTING}, one) & 1) = 1)"))
