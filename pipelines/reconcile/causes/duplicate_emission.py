"""``duplicate_emission``: the live run wrote the same row several times."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.reconcile.causes.cause import DUPLICATE, Cause
from pipelines.reconcile.compare import DUPLICATED_IN_STREAM


def is_duplicate() -> Column:
    """Whether the rows themselves show it."""
    return (F.col("status") == DUPLICATED_IN_STREAM) & F.col("identical")


def evidence() -> Column:
    """Whether the copies are what the replay has."""
    same, other = (
        Cause(DUPLICATE, f"The live run wrote this row more than once, each time the same, and {what}.").evidence
        for what in ("as the replay has it", "with other values than the replay's")
    )
    return F.when(F.col("first_equal"), same).otherwise(other)
