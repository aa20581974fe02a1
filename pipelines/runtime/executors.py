"""What the executors of a cluster are like, asked of the executors themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_A_CORE = 4
_SLEEP_MS = 250
"""A task sleeps, so that each executor gets some."""


@dataclass(frozen=True)
class Executor:
    """One executor's JVM. ``clock_ms``: by how many milliseconds, at least, its clock differs from the driver's."""

    process: str
    java: str
    zone: str
    clock_ms: int


@dataclass(frozen=True)
class Worker:
    """The Python of one executor's machine; ``absent``: modules that it cannot import, with the reason."""

    host: str
    python: str
    absent: tuple[str, ...]


def wait_for_executors(spark: SparkSession, seconds: float) -> int:
    """The number of executors; waits for the first one, and for more as long as they come every few seconds."""
    tracker: Any = spark.sparkContext._jsc.sc().statusTracker()
    deadline, count = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        # the driver is one of them
        now = len(tracker.getExecutorInfos()) - 1
        if now == count > 0:
            break
        count = now
        time.sleep(3)
    return count


def executors(spark: SparkSession) -> list[Executor]:
    """The JVMs that run tasks. No Python runs on them for this."""
    java = {
        "host": "java_method('java.net.InetAddress', 'getLocalHost')",
        "pid": "java_method('java.lang.ProcessHandle', 'current')",
        "java": "java_method('java.lang.System', 'getProperty', 'java.version')",
        "zone": "java_method('java.time.ZoneId', 'systemDefault')",
        "slept": f"java_method('java.lang.Thread', 'sleep', {_SLEEP_MS}L)",
        "clock": "java_method('java.lang.System', 'currentTimeMillis')",
    }
    tasks = _tasks(spark)
    begun_ms = time.time() * 1000
    rows = spark.range(0, tasks, 1, tasks).selectExpr(*(f"{call} AS {name}" for name, call in java.items())).collect()
    ended_ms = time.time() * 1000
    found = {}
    for row in rows:
        clock_ms = max(begun_ms - int(row["clock"]), int(row["clock"]) - ended_ms, 0)
        process = f"{row['host'].partition('/')[0]}/{row['pid']}"
        found[process] = Executor(process, row["java"], row["zone"], int(clock_ms))
    return sorted(found.values(), key=lambda one: one.process)


def workers(spark: SparkSession, modules: Iterable[str]) -> list[Worker]:
    """The Pythons that executors start; raises what Spark raises where there is none, or one of another version."""
    names, pause = tuple(modules), _SLEEP_MS / 1000

    def look(_: Iterable[int]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        # sent as code: executors may lack this package
        import importlib
        import platform
        import time

        time.sleep(pause)
        absent = []
        for name in names:
            try:
                importlib.import_module(name)
            except Exception as error:
                absent.append(f"{name} ({error})")
        yield platform.node(), platform.python_version(), tuple(absent)

    tasks = _tasks(spark)
    found = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    return [Worker(*one) for one in sorted(set(found))]


@contextmanager
def written_table(spark: SparkSession, uri: str) -> Iterator[int]:
    """A small Delta table at ``uri`` that executors have written, with so many rows; removed when the block ends."""
    jvm: Any = spark.sparkContext._jvm
    folder, tasks = jvm.org.apache.hadoop.fs.Path(uri), _tasks(spark)
    try:
        spark.range(0, tasks, 1, tasks).write.format("delta").mode("overwrite").save(uri)
        yield tasks
    finally:
        configuration: Any = spark.sparkContext._jsc
        folder.getFileSystem(configuration.hadoopConfiguration()).delete(folder, True)


def _tasks(spark: SparkSession) -> int:
    return _TASKS_A_CORE * spark.sparkContext.defaultParallelism
