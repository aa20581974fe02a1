"""Sessions of stream_analytics, without walking through the events one by one.

Rule S11 as arithmetic. Check points, the multiples of ``max_duration`` counted from the alignment origin, cut time into
segments ``(c - max_duration, c]``. A *run* is a sequence of events without a pause longer than ``timeout``. Its first
session opens at its first event, so the check point that closes it is the end of the next segment: it contains two
segments. The next session opens at that check point, so the check point after it closes it: every later segment of the
run is a session of its own, also after empty segments. So the run and the closing check point identify a session. It
ends at that check point, or at its last event plus ``timeout`` if that comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipelines.batch.columns import SYSTEM_US, WINDOW_END_US, WINDOW_START_US
from pipelines.batch.grids import end_at_or_after, floor_to
from pipelines.core.model import Session

_CHECK = "__check_us"
_CELL = "__cell_us"
_FIRST = "__first_us"
_LAST = "__last_us"
_BEGINS = "__begins_us"
_RUN = "__run_us"
_CLOSING = "__closing_us"


def with_sessions(frame: DataFrame, window: Session) -> DataFrame:
    """Each row of ``frame`` with WINDOW_START_US and WINDOW_END_US of the session its SYSTEM_US falls in.

    Sessions are formed per ``partition_by``, and grouped later (G5). Without it all rows are one chain, which is first
    reduced to the first and last event of each cell of time no wider than ``timeout`` (which contains no pause), so
    that one task has to sort cells, not events; the price is that ``frame`` is computed twice.
    """
    assert window.max_duration_us is not None, "a stream_analytics session has a maximal duration"
    chain = [f"__chain_{index}" for index in range(len(window.partition_by))]
    at = F.col(SYSTEM_US)
    keyed = frame.select(
        "*",
        *(F.col(column).alias(name) for column, name in zip(window.partition_by, chain, strict=True)),
        end_at_or_after(at, window.max_duration_us, window.align_us).alias(_CHECK),
    )
    out = [*frame.columns, WINDOW_START_US, WINDOW_END_US]
    if chain:
        each = keyed.withColumns({_FIRST: at, _LAST: at})
        return _bounded(each, window, window.max_duration_us, chain).select(*out)
    cells = keyed.withColumn(_CELL, floor_to(at, window.timeout_us))
    summary = cells.groupBy(_CHECK, _CELL).agg(F.min(at).alias(_FIRST), F.max(at).alias(_LAST))
    bounded = _bounded(summary, window, window.max_duration_us, chain)
    return cells.join(bounded.select(_CHECK, _CELL, WINDOW_START_US, WINDOW_END_US), [_CHECK, _CELL]).select(*out)


def _bounded(cells: DataFrame, window: Session, max_duration_us: int, chain: Sequence[str]) -> DataFrame:
    """``cells`` (rows with _CHECK, and _FIRST .. _LAST without a pause between) with the bounds of their sessions."""
    ordered = Window.partitionBy(*chain).orderBy(_FIRST)
    pause = F.col(_FIRST) - F.lag(_LAST).over(ordered) > window.timeout_us
    begins = F.when(F.coalesce(pause, F.lit(True)), F.col(_FIRST))
    # the first event of the run: cells are in ascending order, so the latest beginning so far is the greatest
    runs = cells.withColumn(_BEGINS, begins).withColumn(_RUN, F.max(_BEGINS).over(ordered))
    first_closing = end_at_or_after(F.col(_RUN), max_duration_us, window.align_us) + max_duration_us
    closed = runs.withColumn(_CLOSING, F.greatest(first_closing, F.col(_CHECK)))
    session = Window.partitionBy(*chain, _RUN, _CLOSING)
    return closed.withColumns(
        {
            WINDOW_START_US: F.min(_FIRST).over(session),
            WINDOW_END_US: F.least(F.max(_LAST).over(session) + window.timeout_us, F.col(_CLOSING)),
        }
    )
