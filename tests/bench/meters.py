"""What one run cost besides its time: processor seconds, memory, bytes read, and what Spark reports of its stages."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_PROC = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError)
"""What reading of a process that has ended raises."""


@dataclass(frozen=True, slots=True)
class SparkCost:
    """Of one run: sums over its stages. ``largest_over_median``: tasks of the stage that ran longest, by duration."""

    files_read: int
    shuffle_bytes: int
    spilled_bytes: int
    tasks: int
    largest_over_median: float
    heap_peak_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """Of one run, over its processes: ``read_bytes`` counts all that they asked files for, their own spills too.

    ``peak_bytes`` is the sum of the processes' peaks of resident memory.
    """

    cpu_seconds: float
    read_bytes: int
    peak_bytes: int


class ProcessMeter:
    """Meters processes, descendants included, through /proc; where there is none, :meth:`end` gives None."""

    def __init__(self, pids: Sequence[int], *, with_descendants: Sequence[int] = ()) -> None:
        self._alone = tuple(pids)
        self._roots = tuple(with_descendants)
        self._begun: dict[int, tuple[float, int]] = {}

    def begin(self) -> None:
        """What comes from now on counts."""
        self._begun = {}
        for pid in self._pids():
            with suppress(*_GONE):
                (_PROC / str(pid) / "clear_refs").write_text("5")
            self._begun[pid] = _cpu_seconds(pid), _read_bytes(pid)

    def end(self) -> ProcessCost | None:
        """The cost since ``begin``, of the processes that still run."""
        pids = self._pids()
        if not pids:
            return None
        before = {pid: self._begun.get(pid, (0.0, 0)) for pid in pids}
        return ProcessCost(
            cpu_seconds=sum(_cpu_seconds(pid) - before[pid][0] for pid in pids),
            read_bytes=sum(_read_bytes(pid) - before[pid][1] for pid in pids),
            peak_bytes=sum(map(_peak_bytes, pids)),
        )

    def _pids(self) -> list[int]:
        if not (_PROC / "self" / "clear_refs").exists():
            return []
        return [*self._alone, *self._roots, *_descendants(self._roots)]


def _descendants(roots: Sequence[int]) -> list[int]:
    if not roots:
        return []
    children: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with suppress(*_GONE):
                children.setdefault(int(_stat(int(folder.name))[1]), []).append(int(folder.name))
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        waiting += (here := children.get(waiting.pop(), []))
        found += here
    return found


def _stat(pid: int) -> list[str]:
    """State, parent and so on: the fields of /proc/PID/stat from the third on."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _cpu_seconds(pid: int) -> float:
    """User and system time of all its threads; 0 if it ended."""
    with suppress(*_GONE):
        return sum(map(int, _stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _read_bytes(pid: int) -> int:
    return _field(pid, "io", "rchar:")


def _peak_bytes(pid: int) -> int:
    return _field(pid, "status", "VmHWM:") * 1024


def _field(pid: int, file: str, name: str) -> int:
    """A number from one of the process's files; 0 if it ended."""
    with suppress(*_GONE):
        lines = (_PROC / str(pid) / file).read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
    return 0


class SparkMeter:
    """Reads Spark's own status store and the JVM's memory pools: ``begin`` before a run, ``end`` after it."""

    def __init__(self, spark: SparkSession) -> None:
        # none of this is in PySpark's own interface
        self._jvm: Any = spark.sparkContext._jvm
        self._context: Any = spark.sparkContext._jsc.sc()
        self._statements: Any = spark._jsparkSession.sharedState().statusStore()
        self._last_job = -1
        self._last_statement = -1

    @property
    def pid(self) -> int:
        """The JVM's process."""
        return int(self._jvm.java.lang.ProcessHandle.current().pid())

    def begin(self) -> None:
        """Forget what was; collect garbage first, so that the heap's peak is the run's own."""
        self._jvm.java.lang.System.gc()
        self._settle()
        self._last_job = max((job.jobId() for job in self._jobs()), default=-1)
        self._last_statement = max((one.executionId() for one in self._executions()), default=-1)
        for pool in self._heap_pools():
            pool.resetPeakUsage()

    def end(self) -> SparkCost:
        """The cost of everything since ``begin``."""
        heap_peak_bytes = sum(int(pool.getPeakUsage().getUsed()) for pool in self._heap_pools())
        self._settle()
        stages = list(self._stages())
        longest = max(stages, key=lambda stage: int(stage.executorRunTime()), default=None)
        return SparkCost(
            files_read=self._files_read(),
            shuffle_bytes=sum(int(stage.shuffleWriteBytes()) for stage in stages),
            spilled_bytes=sum(int(stage.diskBytesSpilled()) for stage in stages),
            tasks=sum(int(stage.numCompleteTasks()) for stage in stages),
            largest_over_median=1.0 if longest is None else self._imbalance(longest),
            heap_peak_bytes=heap_peak_bytes,
        )

    def _stages(self) -> Iterator[Any]:
        """The stages that ran since ``begin``; those that were skipped did nothing."""
        numbers = {number for job in self._jobs() if job.jobId() > self._last_job for number in _each(job.stageIds())}
        for number in sorted(numbers):
            try:
                stage = self._store().lastStageAttempt(number)
            except Py4JJavaError:
                continue  # skipped, and forgotten by Spark
            if stage.numCompleteTasks() > 0:
                yield stage

    def _imbalance(self, stage: Any) -> float:
        tasks = _each(self._store().taskList(stage.stageId(), stage.attemptId(), stage.numTasks()))
        times_ms = [float(task.duration().get()) for task in tasks if task.duration().isDefined()]
        return max(times_ms) / max(1.0, statistics.median(times_ms)) if times_ms else 1.0

    def _files_read(self) -> int:
        total = 0
        for execution in self._executions():
            if execution.executionId() > self._last_statement:
                values = self._statements.executionMetrics(execution.executionId())
                metrics = [one for one in _each(execution.metrics()) if one.name() == "number of files read"]
                for accumulator in {int(one.accumulatorId()) for one in metrics}:
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
        """Spark updates its status store in the background."""
        self._context.listenerBus().waitUntilEmpty()

    def _heap_pools(self) -> list[Any]:
        pools = self._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        return [pool for pool in pools if str(pool.getType().name()) == "HEAP"]


def _each(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    items = sequence.iterator()
    while items.hasNext():
        yield items.next()
