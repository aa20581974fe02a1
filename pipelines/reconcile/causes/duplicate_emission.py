"""``duplicate_emission``: the live run wrote the same row several times."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.compare import DUPLICATED_IN_STREAM

_SAME, _OTHER = (
    Cause("duplicate_emission", f"The live run wrote this row more than once, each time the same, and {what}.")
    for what in ("as the replay has it", "with other values than the replay's")
)


def is_duplicate() -> Column:
    """Whether the rows themselves show it."""
    return (F.col("status") == DUPLICATED_IN_STREAM) & F.col("identical")


def evidence() -> Column:
    """Whether the copies are what the replay has."""
    return F.when(F.col("first_equal"), _SAME.evidence).otherwise(_OTHER.evidence)
