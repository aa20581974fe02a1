"""Session windows of Atlas: sessions that grow, merge and close in arrival order (A7).

Two events of one ``partition_by`` value share a session iff they lie strictly less than ``gap`` apart (in a chain); a
session is ``[first, last + gap)`` and is closed once its end is. An event that fits an open session always counts in
it; one that fits none opens a session, unless it lies before the watermark: then it is late (A8). The allowed lateness
keeps sessions open, it does not protect an event that would open one. Null is a ``partition_by`` value like any other.

That takes walking through events in arrival order, yet only where they can touch each other. Events more than a gap
apart in time never meet, whatever order they arrive in; and once everything that came before is closed, nothing of it
matters. The log is cut at both into *chunks*, with windows, and each chunk is walked by itself, inside the JVM.

Cost: one sort by time and one by arrival per ``partition_by`` value (one task, without ``partition_by``), and each
chunk must fit in memory as one row: a session that never pauses is one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.batch.atlas.watermark import CLOSED_US
from pipelines.batch.columns import ARRIVAL_US, PARTITION, SEQUENCE, WATERMARK_US, WINDOW_END_US, WINDOW_START_US
from pipelines.core.expressions import quoted
from pipelines.core.model import Session

_ORDER = (ARRIVAL_US, PARTITION, SEQUENCE)
_COMPONENT = "__component_us"
_CHUNK = "__chunk"
_POSITION = "__position"
_SESSION = "__session"
_COUNTS = "__counts"
_WALKED = "__walked"
_ROW = "__row"


IS_LATE = "__is_late"


def with_sessions(events: DataFrame, window: Session, at: str, counts: Column) -> DataFrame:
    """Each event with IS_LATE, and with WINDOW_START_US and WINDOW_END_US of its session, null where it is in none.

    ``events`` has WATERMARK_US and CLOSED_US as they stood before each arrived; column ``at`` is the time that counts,
    never null. An event for which ``counts`` is false is judged like any other, but is in no session and holds none
    together. The bounds are final ones: of the session as it closed, or as it stands at the end of the log.
    """
    keys = [f"__partition_by_{index}" for index in range(len(window.partition_by))]
    columns = events.columns
    keyed = events.withColumns(
        {
            **{name: F.col(quoted(column)) for name, column in zip(keys, window.partition_by, strict=True)},
            _COUNTS: counts,
        }
    )
    chunked = _chunks(keyed, keys, window.timeout_us, at)
    row = F.struct(*(F.col(quoted(name)) for name in (*columns, _COUNTS, _POSITION)))
    gathered = chunked.groupBy(*keys, _COMPONENT, _CHUNK).agg(F.collect_list(row).alias("__rows"))
    walked = gathered.select("__rows", _walk(F.col("__rows"), window.timeout_us, at).alias(_WALKED))
    each = walked.select(F.explode("__rows").alias(_ROW), _WALKED)
    late = F.array_contains(F.col(_WALKED)["late"], F.col(f"{_ROW}.{_POSITION}"))
    found = _session_of(F.col(f"{_ROW}.{at}"), F.col(f"{_ROW}.{_POSITION}"), F.col(_WALKED))
    inside = F.when(~late & F.col(f"{_ROW}.{_COUNTS}"), found)
    assigned = each.select(_ROW, late.alias(IS_LATE), inside.alias(_SESSION))
    return assigned.select(
        *(F.col(f"{_ROW}.`{name}`").alias(name) for name in columns),
        IS_LATE,
        F.col(f"{_SESSION}.first").alias(WINDOW_START_US),
        (F.col(f"{_SESSION}.last") + window.timeout_us).alias(WINDOW_END_US),
    )


def _chunks(events: DataFrame, keys: Sequence[str], gap_us: int, at: str) -> DataFrame:
    """``events`` with component (connected in time: its first instant), chunk of it and position in arrival order."""
    by_time = Window.partitionBy(*keys).orderBy(at)
    apart = F.col(at) - F.lag(at).over(by_time) >= gap_us
    first = events.withColumn("__first_us", F.when(F.coalesce(apart, F.lit(True)), F.col(at)))
    # rows of one instant are equal in this order: the frame by range takes them all, whatever order they lie in
    connected = first.withColumn(
        _COMPONENT, F.max("__first_us").over(by_time.rangeBetween(Window.unboundedPreceding, Window.currentRow))
    )
    by_arrival = Window.partitionBy(*keys, _COMPONENT).orderBy(*_ORDER)
    earlier = F.max(at).over(by_arrival.rowsBetween(Window.unboundedPreceding, -1))
    placed = connected.withColumns(
        {
            _POSITION: F.row_number().over(by_arrival),
            "__fresh": F.coalesce((earlier + gap_us <= F.col(CLOSED_US)).cast("int"), F.lit(0)),
        }
    )
    so_far = by_arrival.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return placed.withColumn(_CHUNK, F.sum("__fresh").over(so_far))


def _walk(rows: Column, gap_us: int, at: str) -> Column:
    """All sessions of a chunk and the positions of its late events, by walking through it in arrival order.

    A session is its first and last instant and ``closed_by``: the position of the event before which it closed.
    """
    steps = F.sort_array(
        F.transform(
            rows,
            lambda row: F.struct(
                row[_POSITION].alias("position"),
                row[at].alias("at"),
                row[WATERMARK_US].alias("watermark"),
                row[CLOSED_US].alias("closed"),
                row[_COUNTS].alias("counts"),
            ),
        )
    )
    no_sessions = F.array().cast("array<struct<first:bigint,last:bigint,closed_by:int>>")
    start = F.struct(no_sessions.alias("open"), no_sessions.alias("done"), F.array().cast("array<int>").alias("late"))

    def step(state: Column, event: Column) -> Column:
        def is_closed(session: Column) -> Column:
            return F.coalesce(session["last"] + gap_us <= event["closed"], F.lit(False))

        def fits(session: Column) -> Column:
            return (event["at"] > session["first"] - gap_us) & (event["at"] < session["last"] + gap_us)

        closing = F.exists(state["open"], is_closed)
        done = F.when(
            closing,
            F.concat(
                state["done"],
                F.transform(
                    F.filter(state["open"], is_closed),
                    lambda session: _a_session(session["first"], session["last"], event["position"]),
                ),
            ),
        ).otherwise(state["done"])
        met = F.filter(state["open"], lambda session: ~is_closed(session) & fits(session))
        others = F.filter(state["open"], lambda session: ~is_closed(session) & ~fits(session))
        behind = F.coalesce(event["at"] < event["watermark"], F.lit(False))
        late = behind & ~F.exists(state["open"], lambda session: ~is_closed(session) & fits(session))
        grown = F.aggregate(
            met,
            _a_session(event["at"], event["at"], F.lit(None)),
            lambda session, other: _a_session(
                F.least(session["first"], other["first"]), F.greatest(session["last"], other["last"]), F.lit(None)
            ),
        )
        return F.struct(
            F.when(late | ~event["counts"], F.concat(others, met))
            .otherwise(F.concat(others, F.array(grown)))
            .alias("open"),
            done.alias("done"),
            F.when(late, F.concat(state["late"], F.array(event["position"]))).otherwise(state["late"]).alias("late"),
        )

    def finish(state: Column) -> Column:
        return F.struct(F.concat(state["done"], state["open"]).alias("sessions"), state["late"].alias("late"))

    return F.aggregate(steps, start, step, finish)


def _a_session(first: Column, last: Column, closed_by: Column) -> Column:
    return F.struct(first.alias("first"), last.alias("last"), closed_by.cast("int").alias("closed_by"))


def _session_of(at: Column, position: Column, walked: Column) -> Column:
    """The session that took the event; means nothing for one that was late or does not count.

    While two sessions are open they are at least a gap apart. So if several cover the event's time, only the first of
    them to close was there when the event arrived, unless it had closed before.
    """
    never = F.lit(2**31 - 1)

    def covers(session: Column) -> Column:
        in_time = (session["first"] <= at) & (at <= session["last"])
        return in_time & (position < F.coalesce(session["closed_by"], never))

    candidates = F.filter(walked["sessions"], covers)
    by_closing = F.transform(
        candidates,
        lambda session: F.struct(
            F.coalesce(session["closed_by"], never).alias("closed_by"),
            session["first"].alias("first"),
            session["last"].alias("last"),
        ),
    )
    return F.array_min(by_closing)
