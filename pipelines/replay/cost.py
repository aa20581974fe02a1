"""What Spark spent on a run, by its own account of the stages that it ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

_PATIENCE_MS = 10_000
_SUMS = {
    "tasks": "numCompleteTasks",
    "task_ms": "executorRunTime",
    "input_bytes": "inputBytes",
    "shuffle_bytes": "shuffleWriteBytes",
    "spilled_bytes": "diskBytesSpilled",
}
"""A name in ``cost`` of the ledger, and that of Spark's figure of a stage."""


@contextmanager
def measured(spark: SparkSession, cost: dict[str, int]) -> Iterator[None]:
    """Fill ``cost`` with what Spark spends in the block, where the block succeeds.

    It has the sums of ``tasks``, ``task_ms``, ``input_bytes``, ``shuffle_bytes`` and ``spilled_bytes`` over all stages,
    and ``task_memory_bytes``: the most that one task took of Spark's execution memory.
    """
    newest = max((stage.stageId() for stage in _stages(spark)), default=-1)
    # of a block that fails nothing is asked: its error may be that Spark is gone
    yield
    ended = [stage for stage in _stages(spark) if stage.stageId() > newest and stage.numCompleteTasks()]
    cost |= {name: sum(int(getattr(stage, figure)()) for stage in ended) for name, figure in _SUMS.items()}
    cost["task_memory_bytes"] = max((_task_memory(spark, stage) for stage in ended), default=0)


def _stages(spark: SparkSession) -> Iterator[Any]:
    """The stages that Spark remembers, which are the newest thousand."""
    jvm: Any = spark.sparkContext._jvm
    context = _context(spark)
    # the account is kept by another thread
    context.listenerBus().waitUntilEmpty(_PATIENCE_MS)
    nothing, no_quantiles = jvm.java.util.ArrayList(), _doubles(spark, 0)
    stages = context.statusStore().stageList(nothing, False, False, no_quantiles, nothing)
    return (stages.apply(index) for index in range(stages.size()))


def _task_memory(spark: SparkSession, stage: Any) -> int:
    """The most execution memory that a task of the stage took."""
    most = _doubles(spark, 1)
    most[0] = 1.0
    summary = _context(spark).statusStore().taskSummary(stage.stageId(), stage.attemptId(), most)
    return int(summary.get().peakExecutionMemory().apply(0)) if summary.isDefined() else 0


def _doubles(spark: SparkSession, length: int) -> Any:
    """An array of the JVM."""
    gateway: Any = spark.sparkContext._gateway
    return gateway.new_array(gateway.jvm.double, length)


def _context(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc()
