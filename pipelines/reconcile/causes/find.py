"""The cause of every differing row: its own values', a changed policy's, an output gap's, or the one found for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch.spark.local_rows import local_frame, local_rows, micros
from pipelines.core.model import Job
from pipelines.reconcile.causes import duplicate_emission, floating_point_only
from pipelines.reconcile.causes.another_policy.prove import Policy, proved_policy
from pipelines.reconcile.causes.cause import ANOTHER_POLICY, DUPLICATE, STOPPED, UNEXPLAINED, Cause
from pipelines.reconcile.causes.late_arrivals_after_output import AppendedBatches
from pipelines.reconcile.causes.rebuilt_window import Difference, Rebuilder
from pipelines.reconcile.causes.row_by_row import ROWS, RowByRow
from pipelines.reconcile.causes.scope import Scope
from pipelines.reconcile.causes.stream_stopped_or_restarted import Interruptions, OutputGap, output_gaps, with_gaps
from pipelines.reconcile.compare import EQUAL

_FEW = 2
"""Rows that are examined before another policy is looked for; more are likelier to have one cause in common."""
_MANY_EQUAL = 50
"""Equal rows by which a policy that explains even a few others is worth proving."""


def with_causes(scope: Scope, compared: DataFrame, equal: int, recorded: set[str]) -> DataFrame:
    """The differing rows with ``cause`` and ``evidence``.

    ``equal`` rows agree; ``recorded`` are fingerprints that the live run was recorded under, other than the job's.
    """
    differing = compared.filter(F.col("status") != EQUAL)
    gaps = output_gaps(compared)
    rest = scope.unexplained(differing, gaps)
    few = rest.limit(_FEW + 1).count() <= _FEW
    found: dict[str, Cause] = {}
    policy: Policy | None = None
    left: DataFrame | None = None
    if few and not recorded:
        found = _row_by_row(scope, scope.job, rest, gaps)
        all_explained = all(cause.name != UNEXPLAINED for cause in found.values())
        if not all_explained or equal >= _MANY_EQUAL:
            policy = proved_policy(scope, compared, gaps, recorded, thorough=not all_explained)
    else:
        policy = proved_policy(scope, compared, gaps, recorded, thorough=True)
    if policy is not None:
        gaps = output_gaps(policy.compared)
        left = policy.compared.filter(F.col("status") != EQUAL)
        rest = scope.unexplained(left.join(differing.select("id"), "id", "left_semi"), gaps)
        found = _row_by_row(scope, policy.job, rest, gaps)
    elif not found:
        found = _row_by_row(scope, scope.job, rest, gaps)
    scope.progress("assigning causes")
    rows = with_gaps(scope.spark, differing, gaps)
    if policy is None or left is None:
        rows = rows.withColumn("__policy", F.lit(None).cast("string"))
    else:
        rows = rows.join(left.select("id", F.lit(True).alias("__left")), "id", "left")
        rows = rows.withColumn("__policy", F.when(F.col("__left").isNull(), policy.cause.evidence))
    return scope.persist(_assigned(scope, rows, found))


def _assigned(scope: Scope, rows: DataFrame, found: Mapping[str, Cause]) -> DataFrame:
    """``rows`` with their causes: of several the first of the order below."""
    columns = [("id", "string"), ("__cause", "string"), ("__evidence", "string")]
    causes = [(row_id, cause.name, cause.evidence) for row_id, cause in found.items()]
    rows = rows.join(F.broadcast(local_frame(scope.spark, columns, causes)), "id", "left")
    not_examined = Cause(UNEXPLAINED, f"Not examined: the first {ROWS} such rows were.", {"examined": False})
    rounding = floating_point_only.CAUSE
    order: list[tuple[Column, Column, Column]] = [
        (duplicate_emission.is_duplicate(), F.lit(DUPLICATE), duplicate_emission.evidence()),
        (floating_point_only.is_rounding(), F.lit(rounding.name), F.lit(rounding.evidence)),
        (F.col("__policy").isNotNull(), F.lit(ANOTHER_POLICY), F.col("__policy")),
        (F.col("__cause").isNotNull(), F.col("__cause"), F.col("__evidence")),
        (F.col("__gap").isNotNull(), F.lit(STOPPED), F.col("__gap")),
    ]
    cause, evidence = F.lit(not_examined.name), F.lit(not_examined.evidence)
    for condition, name, facts in reversed(order):
        cause, evidence = F.when(condition, name).otherwise(cause), F.when(condition, facts).otherwise(evidence)
    return rows.withColumns({"cause": cause, "evidence": evidence})


def _row_by_row(scope: Scope, job: Job, rest: DataFrame, gaps: Sequence[OutputGap]) -> dict[str, Cause]:
    """Causes by row id, of the first rows in output order."""
    ends = scope.live.rows.agg(F.min("window_end"), F.max("window_end"), F.max("emitted_at"))
    first_end_us, last_end_us, last_emitted_us = local_rows(ends.toDF("a", "b", "c"))[0].values()
    finder = RowByRow(
        Rebuilder(job, scope.logs, scope.evaluate, scope.shape.keys, scope.shape.values),
        Interruptions(gaps, first_end_us, last_end_us),  # type: ignore[arg-type]
        AppendedBatches(scope.logs, last_emitted_us),  # type: ignore[arg-type]
    )
    keys = scope.shape.keys
    return finder.causes(_differences(keys, rest.orderBy("window_end", *keys).limit(ROWS)))


def _differences(keys: Sequence[str], frame: DataFrame) -> list[tuple[str, Difference]]:
    def values(column: Column, kind: T.StructType) -> Column:
        return F.struct(*[micros(column[field.name], field.dataType).alias(field.name) for field in kind])

    replay, copies = frame.schema["replay"].dataType, frame.schema["all_copies"].dataType
    assert isinstance(replay, T.StructType)
    assert isinstance(copies, T.ArrayType)
    element = copies.elementType
    assert isinstance(element, T.StructType)
    rows = frame.select(
        "id",
        *keys,
        F.when(F.col("replay").isNotNull(), values(F.col("replay"), replay)).alias("__replay"),
        F.transform("all_copies", lambda one: values(one, element)).alias("__copies"),
        F.unix_micros("emitted_at").alias("__emitted"),
    )
    return [
        (
            str(row["id"]),
            Difference(
                key={name: row[name] for name in keys},
                replay=row["__replay"],  # type: ignore[arg-type]
                copies=tuple(one.asDict(recursive=True) for one in row["__copies"]),  # type: ignore[attr-defined]
                emitted_us=row["__emitted"],  # type: ignore[arg-type]
            ),
        )
        for row in local_rows(rows)
    ]
