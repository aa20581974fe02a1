"""Where the live run was stopped: neighbouring window ends at which the replay has rows and the live run none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.batch.spark.local_rows import local_frame, local_rows
from pipelines.core.time import format_instant
from pipelines.reconcile.causes.names import STOPPED, Cause
from pipelines.reconcile.compare import MISSING_IN_STREAM, runs_without_stream

_STOPS = 500


@dataclass(frozen=True)
class Stop:
    """A run of window ends without any live row; ``before_us`` and ``after_us`` are its neighbours that have some."""

    window_id: str | None
    first_us: int
    last_us: int
    ends: int
    rows: int
    before_us: int | None
    after_us: int | None


def stops_of(compared: DataFrame) -> list[Stop]:
    """Runs of at least two missing rows at neighbouring ends without any live row, earliest first."""
    found = runs_without_stream(compared).filter("rows >= 2").orderBy("first_end").limit(_STOPS)
    return [
        Stop(
            window_id=row["window_id"],  # type: ignore[arg-type]
            first_us=row["first_end"],  # type: ignore[arg-type]
            last_us=row["last_end"],  # type: ignore[arg-type]
            ends=row["ends"],  # type: ignore[arg-type]
            rows=row["rows"],  # type: ignore[arg-type]
            before_us=row["before"],  # type: ignore[arg-type]
            after_us=row["after"],  # type: ignore[arg-type]
        )
        for row in local_rows(found)
    ]


def in_stop(spark: SparkSession, differing: DataFrame, stops: Sequence[Stop]) -> DataFrame:
    """``differing`` with ``__stop``, the evidence of the stop that a missing row lies in."""
    if not stops:
        return differing.withColumn("__stop", F.lit(None).cast("string"))
    columns = [("__id", "string"), ("__first", "bigint"), ("__last", "bigint"), ("__stop", "string")]
    rows = [(stop.window_id, stop.first_us, stop.last_us, _stop_cause(stop).evidence) for stop in stops]
    ranges = F.broadcast(local_frame(spark, columns, rows))
    end = F.unix_micros("window_end")
    inside = (
        F.col("window_id").eqNullSafe(F.col("__id"))
        & (end >= F.col("__first"))
        & (end <= F.col("__last"))
        & (F.col("status") == MISSING_IN_STREAM)
    )
    return differing.join(ranges, inside, "left").drop("__id", "__first", "__last")


def stop_facts(stop: Stop) -> dict[str, object]:
    """The range of a stop as evidence."""
    neighbours = {"live_before": stop.before_us, "live_after": stop.after_us}
    return {
        "first_missing_end": format_instant(stop.first_us),
        "last_missing_end": format_instant(stop.last_us),
        "window_ends_missing": stop.ends,
        "rows_missing": stop.rows,
        **{name: None if us is None else format_instant(us) for name, us in neighbours.items()},
    }


def _stop_cause(stop: Stop) -> Cause:
    facts = stop_facts(stop)
    resumed = "" if stop.after_us is not None else "; it has none after that"
    return Cause(
        STOPPED,
        f"The live run has no row at any of the {stop.ends} window end(s) from {facts['first_missing_end']} to"
        f" {facts['last_missing_end']}, where the replay has {stop.rows}: it was stopped"
        f" {'and restarted' if stop.after_us is not None and stop.before_us is not None else 'there'}{resumed}.",
        facts,
    )
