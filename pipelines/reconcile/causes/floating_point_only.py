"""``floating_point_only``: doubles alone differ, and only in their last bits."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.compare import DIFFERENT

CAUSE = Cause(
    "floating_point_only",
    "Doubles differ in their last bits only, by at most 1e-9 relative to max(1, |x|); all else is equal.",
)


def is_rounding() -> Column:
    """Whether the row itself shows it."""
    return (F.col("status") == DIFFERENT) & F.col("close")
