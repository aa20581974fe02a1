"""Each differing row with its cause and evidence: its own values', a changed policy's, a stop's, or the one found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.batch.spark.local_rows import local_frame
from pipelines.reconcile.causes.gaps import Stop, in_stop
from pipelines.reconcile.causes.names import ANOTHER_POLICY, DUPLICATE, FLOATING_POINT, STOPPED, UNEXPLAINED, Cause
from pipelines.reconcile.compare import DIFFERENT, DUPLICATED_IN_STREAM

EXAMINED = 400
"""Differing rows whose cause is looked for one by one; what is explained as a whole does not count."""
_FLOATING = Cause(
    FLOATING_POINT,
    "Doubles differ in their last bits only, by at most 1e-9 relative to max(1, |x|); all else is equal.",
)


def own_cause() -> Column:
    """The cause that a row's own values show, or null."""
    duplicate = (F.col("status") == DUPLICATED_IN_STREAM) & F.col("identical")
    return F.when(duplicate, DUPLICATE).when((F.col("status") == DIFFERENT) & F.col("close"), FLOATING_POINT)


def with_causes(
    spark: SparkSession,
    differing: DataFrame,
    left: DataFrame | None,
    policy: Cause | None,
    stops: Sequence[Stop],
    decided: Mapping[str, Cause],
) -> DataFrame:
    """Every differing row with its cause: its own values', the policy's, the stop's, or the one found for it."""
    rows = in_stop(spark, differing, stops)
    causes = [("id", "string"), ("__cause", "string"), ("__evidence", "string")]
    told = [(row_id, cause.name, cause.evidence) for row_id, cause in decided.items()]
    rows = rows.join(F.broadcast(local_frame(spark, causes, told)), "id", "left")
    if left is not None:
        rows = rows.join(left.select("id", F.lit(True).alias("__left")), "id", "left")
        by_policy = F.col("__left").isNull()
    else:
        by_policy = F.lit(False)
    unexamined = Cause(
        UNEXPLAINED, f"Not examined: the first {EXAMINED} rows that stood alone were.", {"examined": False}
    )
    flag = own_cause()
    cause = (
        F.when(flag.isNotNull(), flag)
        .when(by_policy, ANOTHER_POLICY)
        .when(F.col("__cause").isNotNull(), F.col("__cause"))
        .when(F.col("__stop").isNotNull(), STOPPED)
        .otherwise(UNEXPLAINED)
    )
    evidence = (
        F.when(flag == DUPLICATE, _duplicate_evidence())
        .when(flag == FLOATING_POINT, F.lit(_FLOATING.evidence))
        .when(by_policy, F.lit("" if policy is None else policy.evidence))
        .when(F.col("__evidence").isNotNull(), F.col("__evidence"))
        .when(F.col("__stop").isNotNull(), F.col("__stop"))
        .otherwise(unexamined.evidence)
    )
    return rows.withColumns({"cause": cause, "evidence": evidence})


def _duplicate_evidence() -> Column:
    same, other = (
        json.dumps({"says": f"The live run wrote this row more than once, each time the same, and {what}."})
        for what in ("as the replay has it", "with other values than the replay's")
    )
    return F.when(F.col("first_equal"), same).otherwise(other)
