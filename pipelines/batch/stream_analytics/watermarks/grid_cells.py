"""Windows of a grid by the cell that a watermark is in: where each cell is first reached, and which one is in force.

Assigning a cell is monotone, so the cell of ``max(time, watermark)`` is the greater of the two cells. A partition's
watermark is in cell ``j`` or above from just after the first event whose time minus the tolerance is in ``j`` or above.
The least position of each cell, and its minimum over all higher cells, give that for the whole log.

With ``over`` a timeline is a part of a partition, so its watermark is in the partition's cell or below. An event whose
own cell is not below that is settled. Each of the few others asks which cells, from its own to the partition's, its
timeline had reached before it; the first event that reached them is found among that timeline's events alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch.columns import ARRIVAL_US, PARTITION, SEQUENCE, SYSTEM_US, TIME_US
from pipelines.batch.grids import end_at_or_after
from pipelines.batch.spark.local_rows import local_frame
from pipelines.batch.stream_analytics.input_events import InputEvents
from pipelines.batch.stream_analytics.watermarks.judged import EveryEvent, ExactlyJudged
from pipelines.batch.stream_analytics.watermarks.statistics import LogStatistics
from pipelines.plan.watermark_strategy import CellGrid

_OWN_US = "__own_us"
_FOUND_US = "__found_us"
_FROM_SEQUENCE = "__from_sequence"
_TO_SEQUENCE = "__to_sequence"
_KEY = "__key"
_STEP_KEY = "__step_key"
_STEP_PARTITION = "__step_partition"
_STEP_SLOT = "__step_slot"
_STEPS = (
    (_STEP_PARTITION, "int"),
    (_FOUND_US, "bigint"),
    (_FROM_SEQUENCE, "bigint"),
    (_TO_SEQUENCE, "bigint"),
    (_STEP_SLOT, "bigint"),
)

MOST_STEPS = 500_000
"""More would not fit a table that every task holds."""
MOST_ASKED = 3_000_000
"""So many cells that events ask their timelines for; with more, sorting costs less."""


@dataclass(frozen=True)
class ByCells:
    """``counting`` is right to the cell of a grid; ``exactly`` judges the same events exactly, if verdicts are asked.

    A :class:`~pipelines.batch.stream_analytics.watermarks.judged.JudgedEvents`.
    """

    counting: DataFrame
    exactly: Callable[[], ExactlyJudged]
    rows_in_range: int | None

    @property
    def verdicts(self) -> DataFrame:
        """Those that are kept, and no others."""
        return self.exactly().kept_verdicts

    @property
    def events_in_range(self) -> int | None:
        """Counted by the statistics, unless all verdicts are kept."""
        return self.rows_in_range

    @property
    def shared(self) -> DataFrame | None:
        """None: verdicts and counting events are made apart."""
        return None


def by_cells(
    events: InputEvents, grid: CellGrid, statistics: LogStatistics, exactly: Callable[[], ExactlyJudged]
) -> ByCells | None:
    """``statistics`` were grouped by :func:`cell_reached`; None where the cells to look up are too many."""
    counting = _counting(events, grid, statistics, exactly)
    if counting is None:
        return None
    return ByCells(counting, exactly, None if events.keep_all else statistics.rows_in_range)


def _counting(
    events: InputEvents, grid: CellGrid, statistics: LogStatistics, exactly: Callable[[], ExactlyJudged]
) -> DataFrame | None:
    """The events that count, with SYSTEM_US at the end of the cell in which they do."""
    tolerance_us, over = events.policy.out_of_order_us, events.log.source.over
    if over and events.log.slices is not None:
        in_order = exactly()
        if isinstance(in_order, EveryEvent):
            # of many timelines the watermark itself is cheaper in file order than its cell is to look for
            return in_order.counting
    steps = _steps(events, grid, statistics)
    if steps is None:
        return None
    bound_us = statistics.greatest_time_at(F.col(ARRIVAL_US), None) - tolerance_us
    rows = _with_cell_in_force(events.timed, steps, grid, bound_us)
    return _with_cell_of_timeline(rows, events, grid) if over else rows


def cell_reached(grid: CellGrid, out_of_order_us: int) -> Column:
    """The cell that an event of TIME_US takes the watermark to."""
    return _cell_at(grid, F.col(TIME_US) - out_of_order_us)


def _cell_at(grid: CellGrid, instant_us: Column) -> Column:
    return end_at_or_after(instant_us, grid.width_us, grid.origin_us)


def _steps(events: InputEvents, grid: CellGrid, statistics: LogStatistics) -> DataFrame | None:
    """One row per partition, cell and slot of arrival: the cell is in force there for positions ``(from, to]``.

    None if there would be too many rows.
    """
    rows: list[tuple[int, int, int, int | None, int]] = []
    width_us = grid.width_us
    for partition, reached in _reached(statistics).items():
        before: tuple[int, int] | None = None
        for cell_us in sorted(reached, reverse=True):
            sequence, arrival_us = reached[cell_us]
            if before is not None and sequence >= before[0]:
                continue
            to_sequence, to_us = (None, statistics.end_us) if before is None else before
            first, last = arrival_us // width_us, to_us // width_us
            if len(rows) + last - first >= MOST_STEPS:
                return None
            rows += [(partition, cell_us, sequence, to_sequence, slot * width_us) for slot in range(first, last + 1)]
            before = sequence, arrival_us
    made = local_frame(events.timed.sparkSession, _STEPS, rows)
    return made.withColumn(_STEP_KEY, F.xxhash64(F.col(_STEP_PARTITION), F.col(_STEP_SLOT)))


def _reached(statistics: LogStatistics) -> dict[int, dict[int, tuple[int, int]]]:
    """By partition and cell: the least position, and the least arrival, of an event that takes the watermark there."""
    found: dict[int, dict[int, tuple[int, int]]] = {}
    for one in statistics.buckets:
        if one.cell_us is not None:
            here = (one.least_sequence, one.least_arrival_us)
            of_partition = found.setdefault(one.partition, {})
            of_partition[one.cell_us] = min(here, of_partition.get(one.cell_us, here))
    return found


def _with_cell_in_force(timed: DataFrame, steps: DataFrame, grid: CellGrid, bound_us: Column) -> DataFrame:
    """The rows of ``timed`` that have a TIME_US, with _OWN_US, the end of the cell of that, and SYSTEM_US: the end of
    the later one of it and the cell in force in the row's partition.

    ``bound_us`` bounds every watermark of the row from above: a row that none can have reached is not looked up.
    """
    own = _cell_at(grid, F.col(TIME_US))
    slot = F.col(ARRIVAL_US) - F.pmod(ARRIVAL_US, F.lit(grid.width_us))
    key = F.when(F.col(_OWN_US) < _cell_at(grid, bound_us), F.xxhash64(F.col(PARTITION), slot))
    rows = timed.filter(F.col(TIME_US).isNotNull()).withColumn(_OWN_US, own).withColumn(_KEY, key)
    # one key of one BIGINT finds a step; the rest is compared, because another may have the same hash
    found = (
        (F.col(_KEY) == F.col(_STEP_KEY))
        & (F.col(_STEP_PARTITION) - F.col(PARTITION) == 0)
        & (F.col(_STEP_SLOT) - slot == 0)
        & (F.col(SEQUENCE) > F.col(_FROM_SEQUENCE))
        & (F.col(_TO_SEQUENCE).isNull() | (F.col(SEQUENCE) <= F.col(_TO_SEQUENCE)))
    )
    joined = rows.join(F.broadcast(steps), found, "left")
    return joined.withColumn(SYSTEM_US, F.greatest(F.col(_OWN_US), F.col(_FOUND_US))).drop(_KEY, *steps.columns)


def _with_cell_of_timeline(rows: DataFrame, events: InputEvents, grid: CellGrid) -> DataFrame | None:
    """``rows`` with SYSTEM_US as for their own timelines, where it was as for their partition.

    Asking rows are those with SYSTEM_US above _OWN_US; what they ask is counted now, and None if that is too much. An
    asking event counts in the highest of the cells ``(own, partition's]`` that its timeline had reached before it: so
    these cells of asking timelines are all that is looked up.
    """
    timeline, step_us = events.timeline, F.lit(grid.width_us).cast("bigint")
    asking = rows.filter(F.col(SYSTEM_US) > F.col(_OWN_US))
    few = asking.select(*timeline, SEQUENCE, _OWN_US, SYSTEM_US).localCheckpoint(eager=True)
    ((asked_cells,),) = few.agg(F.sum((F.col(SYSTEM_US) - F.col(_OWN_US)) / grid.width_us)).collect()
    if asked_cells is not None and asked_cells > MOST_ASKED:
        return None
    asked_us = F.sequence(F.col(_OWN_US) + grid.width_us, SYSTEM_US, step_us)
    asked = few.select(*timeline, SEQUENCE, F.explode(asked_us).alias(_FOUND_US))
    places = [*timeline, _FOUND_US]
    keys = asked.select(_hash(asked, places).alias(_KEY)).distinct()
    reached_us = cell_reached(grid, events.policy.out_of_order_us).alias(_FOUND_US)
    near = events.timed.filter(F.col(TIME_US).isNotNull()).select(*timeline, SEQUENCE, reached_us)
    near = near.withColumn(_KEY, _hash(near, places)).join(F.broadcast(keys), _KEY, "left_semi")
    reached = near.groupBy(*places).agg(F.min(SEQUENCE).alias(_FROM_SEQUENCE))
    found = asked.join(reached, places).filter(F.col(_FROM_SEQUENCE) < F.col(SEQUENCE))
    cell = found.groupBy(PARTITION, SEQUENCE).agg(F.max(_FOUND_US))
    cell = cell.toDF(_STEP_PARTITION, _FROM_SEQUENCE, _FOUND_US)
    cell = cell.withColumn(_STEP_KEY, F.xxhash64(_STEP_PARTITION, _FROM_SEQUENCE))
    key = F.when(F.col(SYSTEM_US) > F.col(_OWN_US), F.xxhash64(PARTITION, SEQUENCE))
    same = (
        (F.col(_KEY) == F.col(_STEP_KEY))
        & (F.col(_STEP_PARTITION) - F.col(PARTITION) == 0)
        & (F.col(_FROM_SEQUENCE) - F.col(SEQUENCE) == 0)
    )
    joined = rows.withColumn(_KEY, key).join(F.broadcast(cell), same, "left")
    return joined.withColumn(SYSTEM_US, F.greatest(F.col(_OWN_US), F.col(_FOUND_US))).drop(_KEY, *cell.columns)


def _hash(frame: DataFrame, names: Sequence[str]) -> Column:
    """A hash that is equal where all values are, the two zeros of a double included."""
    fractional = (T.FloatType, T.DoubleType)
    values = [
        F.col(name) + F.lit(0.0) if isinstance(frame.schema[name].dataType, fractional) else name for name in names
    ]
    return F.xxhash64(*values)
