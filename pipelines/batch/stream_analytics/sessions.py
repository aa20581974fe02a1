"""Sessions of stream_analytics, without walking through the events one by one.

A session opens at its first event's system timestamp, goes on while events follow each other within ``timeout``
(exactly ``timeout`` still extends it) and is closed at a check point: a multiple ``c`` of ``max_duration``, counted
from the alignment origin, with ``c - opened >= max_duration``. An event exactly on the closing check point belongs to
the session that closes there. The next session opens at its own first event. A session ends at the closing check
point or at its last event plus ``timeout``, whichever comes first.

Check points cut time into segments ``(c - max_duration, c]``. A session that opens in a segment is closed at the end
of the *next* one, wherever in its segment it opened. So inside a run of events that neither pause for longer than
``timeout`` nor skip a whole segment, sessions are pairs of segments counted from the run's first: arithmetic, not a
walk. A skipped segment begins a new run even without a pause, because no session reaches past it.
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
_BEGINS = "__begins"
_RUN = "__run_us"
_RUN_CHECK = "__run_check_us"
_PAIR = "__pair_us"


def with_sessions(frame: DataFrame, window: Session) -> DataFrame:
    """Each row of ``frame`` with WINDOW_START_US and WINDOW_END_US of the session its SYSTEM_US falls in.

    Sessions are formed per ``partition_by``; without it all rows are one chain. That chain is first reduced to the
    first and last event of each cell of time no wider than ``timeout`` (which holds no pause), so that one task has to
    sort cells, not events; the price is that ``frame`` is computed twice.
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
    skip = F.col(_CHECK) - F.lag(_CHECK).over(ordered) > max_duration_us
    begun = cells.withColumn(_BEGINS, F.coalesce(pause | skip, F.lit(True)))
    # rows are in ascending order, so the latest beginning so far is the largest
    run = F.max(F.when(F.col(_BEGINS), F.col(_FIRST))).over(ordered.rowsBetween(Window.unboundedPreceding, 0))
    runs = begun.withColumn(_RUN, run).withColumn(
        _RUN_CHECK, end_at_or_after(F.col(_RUN), max_duration_us, window.align_us)
    )
    paired = runs.withColumn(_PAIR, floor_to(F.col(_CHECK) - F.col(_RUN_CHECK), 2 * max_duration_us))
    session = Window.partitionBy(*chain, _RUN, _PAIR)
    closing = F.col(_RUN_CHECK) + F.col(_PAIR) + max_duration_us
    return paired.withColumns(
        {
            WINDOW_START_US: F.min(_FIRST).over(session),
            WINDOW_END_US: F.least(F.max(_LAST).over(session) + window.timeout_us, closing),
        }
    )
