"""The cause of every differing row: its own values', a changed policy's, an output gap's, or the one found for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.spark.local_rows import local_frame, local_rows
from pipelines.core.model import Job
from pipelines.lakehouse.arrival_rows import row_values
from pipelines.reconcile.causes import duplicate_emission, floating_point_only
from pipelines.reconcile.causes.another_policy.prove import Policy, proved_policy
from pipelines.reconcile.causes.budget import ROWS
from pipelines.reconcile.causes.cause import UNEXPLAINED, Cause
from pipelines.reconcile.causes.late_arrivals_after_output import AppendedBatches
from pipelines.reconcile.causes.rebuilt_window import Difference, Rebuilder
from pipelines.reconcile.causes.row_by_row import RowByRow
from pipelines.reconcile.causes.scope import Scope
from pipelines.reconcile.causes.stream_stopped_or_restarted import Interruptions, OutputGap, output_gaps, with_gaps
from pipelines.reconcile.compare import EQUAL
from pipelines.replay.collect import to_arrow

_FEW = 2
"""Rows that are recomputed before another policy is searched for; more are likelier to have one cause in common."""
_MANY_EQUAL = 50
"""Equal rows by which a policy that explains even a few others is worth proving."""


def with_causes(scope: Scope, compared: DataFrame, equal: int, recorded: set[str]) -> DataFrame:
    """The differing rows with ``cause`` and ``evidence``.

    ``equal`` rows agree; ``recorded`` are fingerprints that the live run was recorded under, other than the job's.
    """
    differing = compared.filter(F.col("status") != EQUAL)
    gaps = output_gaps(compared)
    alone = _first_rows(scope, scope.unexplained(differing, gaps))
    few = len(alone) <= _FEW and not recorded
    found = _row_by_row(scope, scope.job, alone, gaps) if few else {}
    unexplained = any(cause.name == UNEXPLAINED for cause in found.values())
    policy: Policy | None = None
    if not few or unexplained or (alone and equal >= _MANY_EQUAL):
        policy = proved_policy(scope, compared, gaps, recorded, thorough=unexplained or not few)
    if policy is not None:
        found = _row_by_row(scope, policy.job, _first_rows(scope, policy.rest), policy.gaps)
    elif not few:
        found = _row_by_row(scope, scope.job, alone, gaps)
    scope.progress("assigning causes")
    return scope.persist(_assigned(scope, differing, gaps, policy, found))


def _assigned(
    scope: Scope, differing: DataFrame, gaps: Sequence[OutputGap], policy: Policy | None, found: Mapping[str, Cause]
) -> DataFrame:
    """``differing`` with its causes: of several the first of the order below."""
    columns = [("id", "string"), ("__cause", "string"), ("__evidence", "string")]
    causes = [(row_id, cause.name, cause.evidence) for row_id, cause in found.items()]
    rows = differing.join(F.broadcast(local_frame(scope.spark, columns, causes)), "id", "left")
    by_policy, policy_evidence = F.lit(False), F.lit("")
    if policy is not None:
        gaps, policy_evidence = policy.gaps, F.lit(policy.cause.evidence)
        rows = rows.join(policy.left.select("id", F.lit(True).alias("__left")), "id", "left")
        by_policy = F.col("__left").isNull()
    rows = with_gaps(scope.spark, rows, gaps)
    not_examined = Cause(UNEXPLAINED, f"Not examined: the first {ROWS} such rows were.", {"examined": False})
    rounding = floating_point_only.CAUSE
    order: list[tuple[Column, Column, Column]] = [
        (duplicate_emission.is_duplicate(), F.lit("duplicate_emission"), duplicate_emission.evidence()),
        (floating_point_only.is_rounding(), F.lit(rounding.name), F.lit(rounding.evidence)),
        (by_policy, F.lit("another_policy"), policy_evidence),
        (F.col("__cause").isNotNull(), F.col("__cause"), F.col("__evidence")),
        (F.col("__gap").isNotNull(), F.lit("stream_stopped_or_restarted"), F.col("__gap")),
    ]
    cause, evidence = F.lit(not_examined.name), F.lit(not_examined.evidence)
    for condition, name, details in reversed(order):
        cause, evidence = F.when(condition, name).otherwise(cause), F.when(condition, details).otherwise(evidence)
    return rows.withColumns({"cause": cause, "evidence": evidence})


def _first_rows(scope: Scope, differing: DataFrame) -> dict[str, Difference]:
    """The first rows in output order, by their id."""
    keys = scope.shape.keys
    first = differing.orderBy("window_end", *keys).limit(ROWS)
    rows = row_values(to_arrow(first.select("id", *keys, "replay", "all_copies", "emitted_at")))
    return {
        row["id"]: Difference(
            {name: row[name] for name in keys}, row["replay"], tuple(row["all_copies"]), row["emitted_at"]
        )
        for row in rows
    }


def _row_by_row(scope: Scope, job: Job, rows: Mapping[str, Difference], gaps: Sequence[OutputGap]) -> dict[str, Cause]:
    """Causes by row id."""
    if not rows:
        return {}
    ends = scope.live.rows.agg(F.min("window_end"), F.max("window_end"), F.max("emitted_at"))
    first_end_us, last_end_us, last_emitted_us = local_rows(ends.toDF("a", "b", "c"))[0].values()
    finder = RowByRow(
        Rebuilder(job, scope.logs, scope.evaluate, scope.shape.keys, scope.shape.values),
        Interruptions(gaps, first_end_us, last_end_us),  # type: ignore[arg-type]
        AppendedBatches(scope.logs, last_emitted_us),  # type: ignore[arg-type]
    )
    return finder.causes(rows)
