"""Start edges and the end edges that close them (I12).

An end edge names its start edge by the start time it was sent with (whatever the policy made of it) and by the
columns of ``match_on``. Several open starts alike are closed in the order in which they arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipelines.batch.columns import EVENT_US, SYSTEM_US
from pipelines.batch.stream_insight.current_time import arrival_order
from pipelines.batch.stream_insight.items import END, END_US, KIND, START

LATE = "__late"
"""Input of the matching: the row lies before the current time."""
OPEN_BEFORE = "__edge_open_before"
"""Of an end edge: whether a start that it could close was open when it arrived."""
PAIR_END_US = "__edge_pair_end_us"
"""Of a start and of the end that closed it: the end; null for what was not closed and for what closed nothing."""
PAIR_START_US = "__edge_pair_start_us"
"""Of the same two: the start after the policy."""

_STARTS = "__edge_starts"
_ENDS = "__edge_ends"
_DEPTH = "__edge_depth"
_FLOOR = "__edge_floor"
_PAIR = "__edge_pair"


def match_edges(items: DataFrame, match_on: Sequence[str]) -> DataFrame:
    """``items`` with OPEN_BEFORE, PAIR_END_US and PAIR_START_US.

    ``items`` has KIND, END_US, LATE and SYSTEM_US (a start edge's start after the policy, null if it was dropped).
    Only starts that survived can be closed, and only ends that are not late close anything. Columns of ``match_on``
    match null with null.

    Per key it is a queue that never runs below empty. With ``depth`` the starts minus the ends so far, an end finds
    the queue empty iff ``depth`` falls below every value before it (and below 0); the running minimum counts those
    ends, so the ends that closed something number 1, 2, 3 .. as their starts do.
    """
    key = [*match_on, EVENT_US]
    so_far = Window.partitionBy(*key).orderBy(*arrival_order()).rowsBetween(Window.unboundedPreceding, 0)
    earlier = Window.partitionBy(*key).orderBy(*arrival_order()).rowsBetween(Window.unboundedPreceding, -1)
    zero = F.lit(0).cast("bigint")
    opens = F.coalesce((F.col(KIND) == START) & F.col(SYSTEM_US).isNotNull(), F.lit(False))
    closes = F.coalesce((F.col(KIND) == END) & ~F.col(LATE), F.lit(False))
    counted = items.withColumn(_STARTS, F.sum(opens.cast("bigint")).over(so_far))
    counted = counted.withColumn(_ENDS, F.sum(closes.cast("bigint")).over(so_far))
    counted = counted.withColumn(_DEPTH, F.col(_STARTS) - F.col(_ENDS))
    counted = counted.withColumn(_FLOOR, F.least(zero, F.min(_DEPTH).over(earlier)))
    own = F.when(closes, F.lit(1)).otherwise(F.lit(0))
    counted = counted.withColumn(OPEN_BEFORE, (F.col(KIND) == END) & (F.col(_DEPTH) + own > F.col(_FLOOR)))
    closed = closes & F.col(OPEN_BEFORE)
    counted = counted.withColumn(
        _PAIR, F.when(opens, F.col(_STARTS)).when(closed, F.col(_ENDS) + F.col(_FLOOR)).otherwise(F.lit(None))
    )
    pair = Window.partitionBy(*key, _PAIR)
    paired = F.col(_PAIR).isNotNull()
    end_us = F.max(F.when(closed, F.col(END_US))).over(pair)
    start_us = F.max(F.when(opens, F.col(SYSTEM_US))).over(pair)
    return (
        counted.withColumn(PAIR_END_US, F.when(paired, end_us))
        .withColumn(PAIR_START_US, F.when(paired, start_us))
        .drop(_STARTS, _ENDS, _DEPTH, _FLOOR, _PAIR)
    )
