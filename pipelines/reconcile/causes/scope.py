"""What one reconciliation works on: a range of a job, both sides of it, and the logs to recompute it from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.root import Lakehouse
from pipelines.recompute.windows import Logs, Remembering
from pipelines.reconcile.causes.evidence import own_cause
from pipelines.reconcile.causes.gaps import Stop, in_stop
from pipelines.reconcile.compare import Shape
from pipelines.reconcile.live_table import LiveTable

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Scope:
    """``held`` forgets persisted frames in the end; ``tell`` shows progress."""

    spark: SparkSession
    lakehouse: Lakehouse
    job: Job
    output: OutputRange
    live: LiveTable
    shape: Shape
    logs: Logs
    evaluate: Remembering
    held: ExitStack
    tell: Progress

    def keep(self, frame: DataFrame) -> DataFrame:
        """The frame, computed once."""
        return kept(frame, self.held)

    def standing_alone(self, differing: DataFrame, stops: Sequence[Stop]) -> DataFrame:
        """What neither its own values nor a stop explains."""
        return in_stop(self.spark, differing.filter(own_cause().isNull()), stops).filter("__stop IS NULL")


def kept(frame: DataFrame, held: ExitStack) -> DataFrame:
    """The frame, computed once and forgotten when ``held`` is closed."""
    held.callback(frame.unpersist)
    return frame.persist()
