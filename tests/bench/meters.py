"""What one run cost beside its time: processor seconds, memory, and what Spark says it read and moved."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class SparkCost:
    """Sums over the run's jobs. ``largest_over_median``: of the tasks of the stage that ran longest."""

    bytes_read: int
    files_read: int
    shuffle_bytes: int
    spilled_bytes: int
    tasks: int
    largest_over_median: float


class Process:
    """Processor time and peak resident memory of one process; None where the system has no /proc."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    def cpu_seconds(self) -> float | None:
        """User and system time of all its threads so far."""
        try:
            fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def forget_peak(self) -> None:
        """Let :meth:`peak_bytes` speak of what comes from now on."""
        try:
            (self._folder / "clear_refs").write_text("5")
        except OSError:
            return

    def peak_bytes(self) -> int | None:
        """The most memory that was resident."""
        try:
            lines = (self._folder / "status").read_text().splitlines()
        except OSError:
            return None
        kilobytes = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(kilobytes[0]) * 1024 if kilobytes else None


class SparkMeter:
    """Reads Spark's own status store; ``begin`` before a run, ``end`` after it."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
        self._jvm: Any = spark.sparkContext._jvm
        self._statements: Any = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
        self._last_job = -1
        self._last_statement = -1

    @property
    def pid(self) -> int:
        """The JVM's process."""
        return int(self._jvm.java.lang.ProcessHandle.current().pid())

    def begin(self) -> None:
        """Forget what was; collect garbage, so that the heap's peak is this run's."""
        self._jvm.java.lang.System.gc()
        for pool in self._pools():
            pool.resetPeakUsage()
        self._settle()
        self._last_job = max((job.jobId() for job in self._jobs()), default=-1)
        self._last_statement = max((one.executionId() for one in self._executions()), default=-1)

    def heap_peak_bytes(self) -> int:
        """The sum of the heap pools' peaks since ``begin``: an upper bound, for they need not coincide."""
        return sum(int(pool.getPeakUsage().getUsed()) for pool in self._pools())

    def end(self) -> SparkCost:
        """The cost of all jobs since ``begin``."""
        self._settle()
        stages: dict[int, Any] = {}
        for job in self._jobs():
            if job.jobId() > self._last_job:
                for stage_id in _each(job.stageIds()):
                    stage = self._store().lastStageAttempt(stage_id)
                    if stage.numCompleteTasks() > 0:
                        stages[stage_id] = stage
        longest = max(stages.values(), key=lambda stage: stage.executorRunTime(), default=None)
        return SparkCost(
            bytes_read=sum(stage.inputBytes() for stage in stages.values()),
            files_read=self._files_read(),
            shuffle_bytes=sum(stage.shuffleWriteBytes() for stage in stages.values()),
            spilled_bytes=sum(stage.diskBytesSpilled() for stage in stages.values()),
            tasks=sum(stage.numCompleteTasks() for stage in stages.values()),
            largest_over_median=1.0 if longest is None else self._imbalance(longest),
        )

    def _imbalance(self, stage: Any) -> float:
        tasks = self._store().taskList(stage.stageId(), stage.attemptId(), 100_000)
        times_ms = [task.duration().get() for task in _each(tasks) if task.duration().isDefined()]
        return max(times_ms) / max(1.0, statistics.median(times_ms)) if times_ms else 1.0

    def _files_read(self) -> int:
        total = 0
        for execution in self._executions():
            number = execution.executionId()
            if number <= self._last_statement:
                continue
            values = self._statements.executionMetrics(number)
            names = {metric.accumulatorId() for metric in _each(execution.metrics()) if _counts_files(metric)}
            for accumulator in names:
                value = values.get(accumulator)
                total += int(value.get().replace(",", "")) if value.isDefined() else 0
        return total

    def _jobs(self) -> list[Any]:
        return list(_each(self._store().jobsList(None)))

    def _executions(self) -> list[Any]:
        return list(_each(self._statements.executionsList()))

    def _store(self) -> Any:
        return self._context.statusStore()

    def _settle(self) -> None:
        """Spark tells its status store in the background."""
        self._context.listenerBus().waitUntilEmpty()

    def _pools(self) -> list[Any]:
        factory = self._jvm.java.lang.management.ManagementFactory
        return [pool for pool in factory.getMemoryPoolMXBeans() if str(pool.getType().name()) == "HEAP"]


def _counts_files(metric: Any) -> bool:
    return str(metric.name()) == "number of files read"


def _each(sequence: Any) -> Any:
    """The items of a Scala sequence."""
    items = sequence.iterator()
    while items.hasNext():
        yield items.next()
