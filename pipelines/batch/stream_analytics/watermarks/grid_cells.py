"""Where in the log each cell of a grid is first reached by a watermark, and which cell holds at an event.

Assigning a cell is monotone, so the cell of ``max(time, watermark)`` is the greater of the two cells. A partition's
watermark lies in cell ``j`` or above from just after the first event whose time minus the tolerance lies in ``j`` or
above: least positions per cell, and their minimum over all higher cells, say it for the whole log.

With ``over`` a timeline is a part of a partition, so its watermark lies in the partition's cell or below. An event
whose own cell is not below that is settled. Each of the few others asks of the cells from its own to the partition's
which ones its timeline had reached before it; what first reached them is found among that timeline's events alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch.columns import ARRIVAL_US, PARTITION, SEQUENCE, SYSTEM_US, TIME_US
from pipelines.batch.grids import end_at_or_after
from pipelines.batch.spark.local_rows import local_frame
from pipelines.batch.stream_analytics.watermarks.statistics import Facts

OWN_US = "__own_us"
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
class Cells:
    """A grid of cells ``(end - width, end]``, named by their ends."""

    width_us: int
    origin_us: int

    def at(self, instant_us: Column) -> Column:
        """The cell that holds the instant."""
        return end_at_or_after(instant_us, self.width_us, self.origin_us)

    def reached(self, out_of_order_us: int) -> Column:
        """The cell that an event of TIME_US takes the watermark to."""
        return self.at(F.col(TIME_US) - out_of_order_us)


def steps(spark: SparkSession, facts: Facts, cells: Cells) -> DataFrame | None:
    """One row per partition, cell and slot of arrival: the cell is in force there for positions ``(from, to]``.

    ``facts`` were grouped by the cell of TIME_US minus the tolerance. None if there would be too many rows.
    """
    rows: list[tuple[int, int, int, int | None, int]] = []
    width_us = cells.width_us
    for partition, reached in _reached(facts).items():
        before: tuple[int, int] | None = None
        for cell_us in sorted(reached, reverse=True):
            sequence, arrival_us = reached[cell_us]
            if before is not None and sequence >= before[0]:
                continue
            to_sequence, to_us = (None, facts.end_us) if before is None else before
            first, last = arrival_us // width_us, to_us // width_us
            if len(rows) + last - first >= MOST_STEPS:
                return None
            rows += [(partition, cell_us, sequence, to_sequence, slot * width_us) for slot in range(first, last + 1)]
            before = sequence, arrival_us
    made = local_frame(spark, _STEPS, rows)
    return made.withColumn(_STEP_KEY, F.xxhash64(F.col(_STEP_PARTITION), F.col(_STEP_SLOT)))


def _reached(facts: Facts) -> dict[int, dict[int, tuple[int, int]]]:
    """By partition and cell: the least position, and the least arrival, of an event that takes the watermark there."""
    found: dict[int, dict[int, tuple[int, int]]] = {}
    for fact in facts.each:
        if fact.cell_us is not None:
            here = (fact.least_sequence, fact.least_arrival_us)
            of_partition = found.setdefault(fact.partition, {})
            of_partition[fact.cell_us] = min(here, of_partition.get(fact.cell_us, here))
    return found


def with_cell_in_force(timed: DataFrame, steps: DataFrame, cells: Cells, bound_us: Column) -> DataFrame:
    """The rows of ``timed`` that have a TIME_US, with OWN_US, the end of the cell of that, and SYSTEM_US: the end of
    the later one of it and the cell in force in the row's partition.

    ``bound_us`` bounds every watermark of the row from above: a row that none can have reached is not looked up.
    """
    own = cells.at(F.col(TIME_US))
    slot = F.col(ARRIVAL_US) - F.pmod(ARRIVAL_US, F.lit(cells.width_us))
    key = F.when(F.col(OWN_US) < cells.at(bound_us), F.xxhash64(F.col(PARTITION), slot))
    rows = timed.filter(F.col(TIME_US).isNotNull()).withColumn(OWN_US, own).withColumn(_KEY, key)
    # one key of one BIGINT finds a step; the rest is compared, lest another one has the same hash
    found = (
        (F.col(_KEY) == F.col(_STEP_KEY))
        & (F.col(_STEP_PARTITION) - F.col(PARTITION) == 0)
        & (F.col(_STEP_SLOT) - slot == 0)
        & (F.col(SEQUENCE) > F.col(_FROM_SEQUENCE))
        & (F.col(_TO_SEQUENCE).isNull() | (F.col(SEQUENCE) <= F.col(_TO_SEQUENCE)))
    )
    joined = rows.join(F.broadcast(steps), found, "left")
    return joined.withColumn(SYSTEM_US, F.greatest(F.col(OWN_US), F.col(_FOUND_US))).drop(_KEY, *steps.columns)


def with_cell_of_timeline(
    rows: DataFrame,
    asking: DataFrame,
    timed: DataFrame,
    timeline: Sequence[str],
    cells: Cells,
    out_of_order_us: int,
) -> DataFrame | None:
    """``rows`` with SYSTEM_US as for their own timelines, where it was as for their partition; None if that asks for
    too much.

    ``asking``, some of ``rows``, are those with SYSTEM_US above OWN_US; what they ask is counted now. ``timed`` is
    the whole log. An asking event counts in the highest of the cells ``(own, partition's]`` that its timeline had
    reached before it: so these cells of asking timelines are all that is looked up.
    """
    few = asking.select(*timeline, SEQUENCE, OWN_US, SYSTEM_US).localCheckpoint(eager=True)
    ((asked_cells,),) = few.agg(F.sum((F.col(SYSTEM_US) - F.col(OWN_US)) / cells.width_us)).collect()
    if asked_cells is not None and asked_cells > MOST_ASKED:
        return None
    asked_us = F.sequence(F.col(OWN_US) + cells.width_us, SYSTEM_US, F.lit(cells.width_us).cast("bigint"))
    asked = few.select(*timeline, SEQUENCE, F.explode(asked_us).alias(_FOUND_US))
    places = [*timeline, _FOUND_US]
    keys = asked.select(_hash(asked, places).alias(_KEY)).distinct()
    reached_us = cells.reached(out_of_order_us).alias(_FOUND_US)
    near = timed.filter(F.col(TIME_US).isNotNull()).select(*timeline, SEQUENCE, reached_us)
    near = near.withColumn(_KEY, _hash(near, places)).join(F.broadcast(keys), _KEY, "left_semi")
    reached = near.groupBy(*places).agg(F.min(SEQUENCE).alias(_FROM_SEQUENCE))
    found = asked.join(reached, places).filter(F.col(_FROM_SEQUENCE) < F.col(SEQUENCE))
    cell = found.groupBy(PARTITION, SEQUENCE).agg(F.max(_FOUND_US))
    cell = cell.toDF(_STEP_PARTITION, _FROM_SEQUENCE, _FOUND_US)
    cell = cell.withColumn(_STEP_KEY, F.xxhash64(_STEP_PARTITION, _FROM_SEQUENCE))
    key = F.when(F.col(SYSTEM_US) > F.col(OWN_US), F.xxhash64(PARTITION, SEQUENCE))
    same = (
        (F.col(_KEY) == F.col(_STEP_KEY))
        & (F.col(_STEP_PARTITION) - F.col(PARTITION) == 0)
        & (F.col(_FROM_SEQUENCE) - F.col(SEQUENCE) == 0)
    )
    joined = rows.withColumn(_KEY, key).join(F.broadcast(cell), same, "left")
    return joined.withColumn(SYSTEM_US, F.greatest(F.col(OWN_US), F.col(_FOUND_US))).drop(_KEY, *cell.columns)


def _hash(frame: DataFrame, names: Sequence[str]) -> Column:
    """A hash that is equal where all values are, the two zeros of a double included."""
    fractional = (T.FloatType, T.DoubleType)
    values = [
        F.col(name) + F.lit(0.0) if isinstance(frame.schema[name].dataType, fractional) else name for name in names
    ]
    return F.xxhash64(*values)
