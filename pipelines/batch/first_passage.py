"""Where in the log each cell of a grid is first reached by a watermark, and which cell holds at an event.

Assigning a cell is monotone, so the cell of ``max(time, watermark)`` is the greater of the two cells. A timeline's
watermark lies in cell ``j`` or above from just after the first event whose time minus the tolerance lies in ``j`` or
above: least positions per cell, and their minimum over all higher cells, say it for the whole log.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.batch.bounds import LEAST_ARRIVAL_US, LEAST_SEQUENCE, Facts
from pipelines.batch.columns import ARRIVAL_US, PARTITION, SEQUENCE, SYSTEM_US, TIME_US
from pipelines.batch.grids import end_at_or_after

CELL = "__cell_us"
_FROM_SEQUENCE = "__from_sequence"
_TO_SEQUENCE = "__to_sequence"
_FROM_ARRIVAL_US = "__from_arrival_us"
_TO_ARRIVAL_US = "__to_arrival_us"
_KEY = "__key"
_STEP_KEY = "__step_key"
_STEP_PARTITION = "__step_partition"
_STEP_SLOT = "__step_slot"

MOST_STEPS = 500_000
"""More would not fit a table that every task holds."""


def cell(instant_us: Column, cell_us: int, origin_us: int) -> Column:
    """The end of the cell ``(end - cell, end]`` that holds the instant."""
    return end_at_or_after(instant_us, cell_us, origin_us)


def fits(facts: Facts, cell_us: int) -> bool:
    """Whether the steps of the log are few enough for a table that every task holds."""
    slots = (facts.last_arrival_us - facts.first_arrival_us) // cell_us
    partitions = facts.table.select(PARTITION).distinct().count()
    return facts.table_rows + slots * partitions <= MOST_STEPS


def with_cell_in_force(
    timed: DataFrame, facts: Facts, cell_us: int, origin_us: int, out_of_order_us: int, highest_us: Column
) -> DataFrame:
    """The rows of ``timed`` that have a TIME_US, and SYSTEM_US: the end of the cell that each one counts in.

    ``facts`` was grouped by CELL, of TIME_US minus ``out_of_order_us``; ``highest_us`` bounds every watermark of the
    row from above, so that a row which no watermark can have reached is not looked up.
    """
    own = cell(F.col(TIME_US), cell_us, origin_us)
    reachable = cell(highest_us - out_of_order_us, cell_us, origin_us)
    slot = F.col(ARRIVAL_US) - F.pmod(F.col(ARRIVAL_US), F.lit(cell_us))
    key = F.when(own < reachable, F.xxhash64(F.col(PARTITION), slot))
    rows = timed.filter(F.col(TIME_US).isNotNull()).withColumn(_KEY, key)
    steps = F.broadcast(_steps(facts, cell_us))
    # one key of one BIGINT finds a step; the rest is compared, lest another one has the same hash
    found = (
        (F.col(_KEY) == F.col(_STEP_KEY))
        & (F.col(_STEP_PARTITION) - F.col(PARTITION) == 0)
        & (F.col(_STEP_SLOT) - slot == 0)
        & (F.col(SEQUENCE) > F.col(_FROM_SEQUENCE))
        & (F.col(_TO_SEQUENCE).isNull() | (F.col(SEQUENCE) <= F.col(_TO_SEQUENCE)))
    )
    joined = rows.join(steps, found, "left").withColumn(SYSTEM_US, F.greatest(own, F.col(CELL)))
    return joined.drop(_KEY, *steps.columns)


def _steps(facts: Facts, cell_us: int) -> DataFrame:
    """One row per partition, cell and slot of arrival: the cell is in force there for positions ``(from, to]``."""
    reached = (
        facts.table.filter(F.col(CELL).isNotNull())
        .groupBy(PARTITION, CELL)
        .agg(F.min(LEAST_SEQUENCE).alias(_FROM_SEQUENCE), F.min(LEAST_ARRIVAL_US).alias(_FROM_ARRIVAL_US))
    )
    higher = Window.partitionBy(PARTITION).orderBy(F.desc(CELL)).rowsBetween(Window.unboundedPreceding, -1)
    steps = reached.withColumns(
        {
            _TO_SEQUENCE: F.min(_FROM_SEQUENCE).over(higher),
            _TO_ARRIVAL_US: F.coalesce(F.min(_FROM_ARRIVAL_US).over(higher), F.lit(facts.last_arrival_us)),
        }
    ).filter(F.col(_TO_SEQUENCE).isNull() | (F.col(_FROM_SEQUENCE) < F.col(_TO_SEQUENCE)))
    first, last = (F.col(at) - F.pmod(F.col(at), F.lit(cell_us)) for at in (_FROM_ARRIVAL_US, _TO_ARRIVAL_US))
    spread = steps.select(
        F.col(PARTITION).alias(_STEP_PARTITION),
        CELL,
        _FROM_SEQUENCE,
        _TO_SEQUENCE,
        F.explode(F.sequence(first, last, F.lit(cell_us).cast("bigint"))).alias(_STEP_SLOT),
    )
    return spread.withColumn(_STEP_KEY, F.xxhash64(F.col(_STEP_PARTITION), F.col(_STEP_SLOT)))
