"""What one reconciliation works on: a range of a job, both sides of it, and the logs to recompute it from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.root import Lakehouse
from pipelines.recompute.logs import Logs
from pipelines.recompute.windows import CachedEvaluator
from pipelines.reconcile.causes.duplicate_emission import is_duplicate
from pipelines.reconcile.causes.floating_point_only import is_rounding
from pipelines.reconcile.causes.stream_stopped_or_restarted import OutputGap, with_gaps
from pipelines.reconcile.compare import Shape
from pipelines.reconcile.live_table import LiveTable

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Scope:
    """``persisted`` forgets persisted frames in the end; ``progress`` shows what is being done."""

    spark: SparkSession
    lakehouse: Lakehouse
    job: Job
    output: OutputRange
    live: LiveTable
    shape: Shape
    logs: Logs
    evaluate: CachedEvaluator
    persisted: ExitStack
    progress: Progress

    def persist(self, frame: DataFrame) -> DataFrame:
        """The frame, computed once."""
        self.persisted.callback(frame.unpersist)
        return frame.persist()

    def unexplained(self, differing: DataFrame, gaps: Sequence[OutputGap]) -> DataFrame:
        """What neither the rows' own values nor an output gap explains."""
        rest = differing.filter(~(is_duplicate() | is_rounding()))
        return with_gaps(self.spark, rest, gaps).filter("__gap IS NULL")
