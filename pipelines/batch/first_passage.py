"""Where in the log each cell of a grid is first reached by a watermark, and which cell holds at an event.

Assigning a cell is monotone, so the cell of ``max(time, watermark)`` is the greater of the two cells. A partition's
watermark lies in cell ``j`` or above from just after the first event whose time minus the tolerance lies in ``j`` or
above: least positions per cell, and their minimum over all higher cells, say it for the whole log.

With ``over`` a timeline is a part of a partition, so its watermark lies in the partition's cell or below. An event
whose own cell is not below that is settled. For each of the few others its timeline's recent events are looked at:
the watermark's cell is above the event's own only through an event that arrived no longer ago than ``late_arrival``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch.bounds import Facts
from pipelines.batch.columns import ARRIVAL_US, PARTITION, SEQUENCE, SYSTEM_US, TIME_US
from pipelines.batch.grids import end_at_or_after
from pipelines.batch.local_rows import local_frame

OWN_US = "__own_us"
_FOUND_US = "__found_us"
_FROM_SEQUENCE = "__from_sequence"
_TO_SEQUENCE = "__to_sequence"
_KEY = "__key"
_STEP_KEY = "__step_key"
_STEP_PARTITION = "__step_partition"
_STEP_SLOT = "__step_slot"
_SLOT = "__slot"
_STEPS = (
    (_STEP_PARTITION, "int"),
    (_FOUND_US, "bigint"),
    (_FROM_SEQUENCE, "bigint"),
    (_TO_SEQUENCE, "bigint"),
    (_STEP_SLOT, "bigint"),
)

MOST_STEPS = 500_000
"""More would not fit a table that every task holds."""
MOST_ASKING = 2_000_000
"""So many events whose timelines have to be looked at; of more, sorting costs less."""
_MOST_SLOTS = 8
"""Into so many slots of arrival an asking event looks, at most two more."""


@dataclass(frozen=True)
class Cells:
    """A grid of cells ``(end - width, end]``, named by their ends."""

    width_us: int
    origin_us: int

    def at(self, instant_us: Column) -> Column:
        """The cell that holds the instant."""
        return end_at_or_after(instant_us, self.width_us, self.origin_us)


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
    slot = _slot(cells.width_us)
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
    reach_us: int,
) -> DataFrame | None:
    """``rows`` with SYSTEM_US as for their own timelines, where it was as for their partition; None if too many ask.

    ``asking``, some of ``rows``, are those with SYSTEM_US above OWN_US; they are counted now. ``timed`` is the whole
    log. An event that takes the watermark of an asking one above that one's own cell arrived at most ``reach_us``
    before it: so far back slots of arrival are searched.
    """
    few = asking.select(*timeline, SEQUENCE, ARRIVAL_US, OWN_US).localCheckpoint(eager=True)
    if few.count() > MOST_ASKING:
        return None
    width_us = max(cells.width_us, -(-reach_us // _MOST_SLOTS))
    slots = F.sequence(_floor(F.col(ARRIVAL_US) - reach_us, width_us), _slot(width_us), F.lit(width_us).cast("bigint"))
    asked = few.select(*timeline, SEQUENCE, OWN_US, F.explode(slots).alias(_SLOT))
    places = [*timeline, _SLOT]
    keys = asked.select(_hash(asked, places).alias(_KEY)).distinct()
    later = cells.at(F.col(TIME_US) - out_of_order_us)
    near = timed.filter(F.col(TIME_US).isNotNull()).select(
        *timeline, SEQUENCE, later.alias(_FOUND_US), _slot(width_us).alias(_SLOT)
    )
    near = near.withColumn(_KEY, _hash(near, places)).join(F.broadcast(keys), _KEY, "left_semi")
    reached = near.groupBy(*places, _FOUND_US).agg(F.min(SEQUENCE).alias(_FROM_SEQUENCE))
    before = (F.col(_FROM_SEQUENCE) < F.col(SEQUENCE)) & (F.col(_FOUND_US) > F.col(OWN_US))
    found = asked.join(reached, places).filter(before).groupBy(PARTITION, SEQUENCE).agg(F.max(_FOUND_US))
    cell = found.toDF(_STEP_PARTITION, _FROM_SEQUENCE, _FOUND_US)
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


def _slot(width_us: int) -> Column:
    return _floor(F.col(ARRIVAL_US), width_us)


def _floor(instant_us: Column, width_us: int) -> Column:
    return instant_us - F.pmod(instant_us, F.lit(width_us))
