"""The differing rows that nothing explains as a whole, examined one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch.spark.local_rows import local_rows, micros
from pipelines.core.model import Job
from pipelines.reconcile.causes.evidence import EXAMINED
from pipelines.reconcile.causes.gaps import Stop
from pipelines.reconcile.causes.interruption import Interruptions
from pipelines.reconcile.causes.late_arrivals import Appended
from pipelines.reconcile.causes.lost_events import Losses
from pipelines.reconcile.causes.names import Cause
from pipelines.reconcile.causes.rebuilt_window import Difference, Workbench
from pipelines.reconcile.causes.scope import Scope
from pipelines.reconcile.causes.single_row import Examiner
from pipelines.reconcile.compare import Shape

ARRIVALS_OF_ALL_ROWS = 10_000_000
"""Arrivals recomputed at most for all rows together."""


def examined(scope: Scope, job: Job, rest: DataFrame, stops: Sequence[Stop]) -> dict[str, Cause]:
    """Causes by row id, of the first rows in output order."""
    ends = scope.live.rows.agg(F.min("window_end"), F.max("window_end"), F.max("emitted_at")).toDF("a", "b", "c")
    edges = local_rows(ends)[0]
    work = Workbench(job, scope.logs, scope.evaluate, scope.shape.keys, scope.shape.values)
    examiner = Examiner(
        work,
        Interruptions(work, stops, first_end_us=edges["a"], last_end_us=edges["b"]),  # type: ignore[arg-type]
        Appended(work, scope.lakehouse, last_emitted_us=edges["c"]),  # type: ignore[arg-type]
        Losses(work),
    )
    rows = _differences(scope.shape, rest.orderBy(*scope.shape.keys[1:2], *scope.shape.keys).limit(EXAMINED))
    # what is missing can follow from events that other rows show to be lost
    ordered = sorted(rows, key=lambda row: not row[1].copies)
    decided: dict[str, Cause] = {}
    for row_id, one in ordered:
        if work.recomputed >= ARRIVALS_OF_ALL_ROWS:
            break
        decided[row_id] = examiner.cause(one)
    # and which of several events one row lost, a later row may tell
    for row_id, one in ordered:
        if work.recomputed < ARRIVALS_OF_ALL_ROWS and row_id in decided and examiner.losses.is_open(decided[row_id]):
            decided[row_id] = examiner.cause(one)
    return decided


def _differences(shape: Shape, frame: DataFrame) -> list[tuple[str, Difference]]:
    def values(column: Column, kind: T.StructType) -> Column:
        return F.struct(*[micros(column[field.name], field.dataType).alias(field.name) for field in kind])

    replay, copies = frame.schema["replay"].dataType, frame.schema["all_copies"].dataType
    assert isinstance(replay, T.StructType)
    assert isinstance(copies, T.ArrayType)
    element = copies.elementType
    assert isinstance(element, T.StructType)
    rows = local_rows(
        frame.select(
            "id",
            *shape.keys,
            F.when(F.col("replay").isNotNull(), values(F.col("replay"), replay)).alias("__replay"),
            F.transform("all_copies", lambda one: values(one, element)).alias("__copies"),
            F.unix_micros("emitted_at").alias("__emitted"),
        )
    )
    return [(str(row["id"]), _difference(shape, row)) for row in rows]


def _difference(shape: Shape, row: dict[str, Any]) -> Difference:
    return Difference(
        key={name: row[name] for name in shape.keys},
        replay=row["__replay"],
        copies=tuple(one.asDict(recursive=True) for one in row["__copies"]),
        emitted_us=row["__emitted"],
    )
