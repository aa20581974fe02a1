"""The cause of every differing row: which of the ways to look for one is taken, and in which order."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.reconcile.causes.evidence import with_causes
from pipelines.reconcile.causes.gaps import stops_of
from pipelines.reconcile.causes.names import UNEXPLAINED, Cause
from pipelines.reconcile.causes.proof import Policy, proved_policy
from pipelines.reconcile.causes.row_by_row import examined
from pipelines.reconcile.causes.scope import Scope
from pipelines.reconcile.compare import EQUAL

_FEW = 2
_MANY_EQUAL = 50


def explained(scope: Scope, compared: DataFrame, equal: int, recorded: set[str]) -> DataFrame:
    """The differing rows with ``cause`` and ``evidence``.

    ``equal`` rows agree; ``recorded`` are fingerprints that the live run was recorded under, other than the job's.
    """
    differing = compared.filter(F.col("status") != EQUAL)
    stops = stops_of(compared)
    rest = scope.standing_alone(differing, stops)
    few = rest.limit(_FEW + 1).count() <= _FEW
    decided: dict[str, Cause] = {}
    policy: Policy | None = None
    if few and not recorded:
        decided = examined(scope, scope.job, rest, stops)
        if not _all_explained(decided) or equal >= _MANY_EQUAL:
            policy = proved_policy(scope, compared, stops, recorded, thorough=not _all_explained(decided))
    else:
        policy = proved_policy(scope, compared, stops, recorded, thorough=True)
    left: DataFrame | None = None
    if policy is not None:
        stops = stops_of(policy.compared)
        left = policy.compared.filter(F.col("status") != EQUAL)
        rest = scope.standing_alone(left.join(differing.select("id"), "id", "left_semi"), stops)
        decided = examined(scope, policy.found.change.job, rest, stops)
    elif not decided:
        decided = examined(scope, scope.job, rest, stops)
    scope.tell("telling causes")
    cause = None if policy is None else policy.cause
    return scope.keep(with_causes(scope.spark, differing, left, cause, stops, decided))


def _all_explained(decided: dict[str, Cause]) -> bool:
    return all(cause.name != UNEXPLAINED for cause in decided.values())
