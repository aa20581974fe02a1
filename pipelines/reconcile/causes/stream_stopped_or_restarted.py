"""``stream_stopped_or_restarted``: the live run has no row at neighbouring window ends, or its rows end in a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pipelines.batch.spark.local_rows import local_frame, local_rows
from pipelines.core.time import format_instant
from pipelines.recompute.reads import reach_us
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.rebuilt_window import RebuiltWindow
from pipelines.reconcile.causes.subsets import events_in
from pipelines.reconcile.compare import MISSING_IN_STREAM
from pipelines.reference.events import place_of

_GAPS = 500


@dataclass(frozen=True)
class OutputGap:
    """Neighbouring window ends without any live row; ``before_us`` and ``after_us`` are the nearest that have some."""

    window_id: str | None
    first_us: int
    last_us: int
    ends: int
    rows: int
    before_us: int | None
    after_us: int | None

    @property
    def details(self) -> dict[str, object]:
        """The range that is missing, as evidence."""
        neighbours = {"live_before": self.before_us, "live_after": self.after_us}
        return {
            "first_missing_end": format_instant(self.first_us),
            "last_missing_end": format_instant(self.last_us),
            "window_ends_missing": self.ends,
            "rows_missing": self.rows,
            **{name: None if us is None else format_instant(us) for name, us in neighbours.items()},
        }

    @property
    def cause(self) -> Cause:
        """The cause of each row that is missing in it."""
        restarted = self.after_us is not None and self.before_us is not None
        return Cause(
            "stream_stopped_or_restarted",
            f"The live run has no row at any of the {self.ends} window end(s) from {format_instant(self.first_us)} to"
            f" {format_instant(self.last_us)}, where the replay has {self.rows}: it was stopped"
            f" {'and restarted' if restarted else 'there'}{'' if self.after_us is not None else '; no row follows'}.",
            self.details,
        )

    def may_cut(self, window: RebuiltWindow) -> bool:
        """Whether events of the window may have come while the live run was stopped."""
        end_us, reach = window.difference.end_us, reach_us(window.job.window_query.window)
        if self.window_id != window.difference.key["window_id"]:
            return False
        before = self.first_us - reach <= end_us < self.first_us or end_us == self.before_us
        after = self.last_us < end_us <= self.last_us + reach or end_us == self.after_us
        return before or after


def output_gaps(compared: DataFrame) -> list[OutputGap]:
    """Neighbouring window ends at which the replay has rows, two at least, and the live run none, earliest first."""
    ends = compared.groupBy("window_id", "window_end").agg(
        F.max((F.col("copies") > 0).cast("int")).alias("__live"), F.count(F.lit(1)).alias("__rows")
    )
    order = Window.partitionBy("window_id").orderBy("window_end")
    live_end = F.when(F.col("__live") == 1, F.col("window_end"))
    before = F.last(live_end, ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))
    after = F.first(live_end, ignorenulls=True).over(order.rowsBetween(1, Window.unboundedFollowing))
    gaps = (
        ends.withColumns({"before_us": before, "after_us": after})
        .filter("__live = 0")
        .groupBy("window_id", "before_us", "after_us")
        .agg(
            F.min("window_end").alias("first_us"),
            F.max("window_end").alias("last_us"),
            F.count(F.lit(1)).alias("ends"),
            F.sum("__rows").alias("rows"),
        )
    )
    return [OutputGap(**row) for row in local_rows(gaps.filter("rows >= 2").orderBy("first_us").limit(_GAPS))]  # type: ignore[arg-type]


def with_gaps(spark: SparkSession, differing: DataFrame, gaps: Sequence[OutputGap]) -> DataFrame:
    """``differing`` with ``__gap``, the evidence of the output gap that a missing row is in."""
    if not gaps:
        return differing.withColumn("__gap", F.lit(None).cast("string"))
    columns = [("__id", "string"), ("__first", "bigint"), ("__last", "bigint"), ("__gap", "string")]
    rows = [(gap.window_id, gap.first_us, gap.last_us, gap.cause.evidence) for gap in gaps]
    end = F.unix_micros("window_end")
    inside = (
        F.col("window_id").eqNullSafe(F.col("__id"))
        & (end >= F.col("__first"))
        & (end <= F.col("__last"))
        & (F.col("status") == MISSING_IN_STREAM)
    )
    found = differing.join(F.broadcast(local_frame(spark, columns, rows)), inside, "left")
    return found.drop("__id", "__first", "__last")


@dataclass(frozen=True)
class Interruptions:
    """Windows that were cut: by ``gaps``, or by the first or the last window end at which the live run has rows."""

    gaps: Sequence[OutputGap]
    first_end_us: int | None
    last_end_us: int | None

    def cut_by_gap(self, window: RebuiltWindow) -> Cause | None:
        """The live run had the window's events up to the gap only, or those from its end on."""
        for gap in self.gaps:
            if gap.may_cut(window):
                found = _cut(window, before=window.difference.end_us < gap.first_us)
                if found is not None:
                    return Cause("stream_stopped_or_restarted", found.sentence, {**found.details, **gap.details})
        return None

    def cut_at_edge(self, window: RebuiltWindow) -> Cause | None:
        """The live run began or ended inside its first or its last window."""
        end_us = window.difference.end_us
        if end_us == self.last_end_us and (found := _cut(window, before=True)):
            return found
        return _cut(window, before=False) if end_us == self.first_end_us else None


def _cut(window: RebuiltWindow, *, before: bool) -> Cause | None:
    """The live run had only the arrivals up to some instant (``before``), or only those from some instant on."""
    if window.live is None:
        return None
    order = sorted(window.members, key=place_of)
    number = events_in(window.job, window.live)
    for index in range(1, len(order)):
        counted = index if before else len(order) - index
        if number not in (None, counted):
            continue
        border = place_of(order[index])
        if window.gives_live([one for one in window.arrivals if (place_of(one) < border) == before]):
            at = format_instant(order[index].arrival_time_us)
            which = f"before {at}" if before else f"from {at} on"
            return Cause(
                "stream_stopped_or_restarted",
                f"The live run {'stopped' if before else 'began'} inside this window: recomputed from the arrivals"
                f" {which} alone, the window is exactly what it wrote ({counted} of {len(order)} events).",
                {"counted_arrivals": which, "counted": counted, "of": len(order)},
            )
    return None
