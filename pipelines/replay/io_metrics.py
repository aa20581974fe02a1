"""What executed queries opened of the arrival logs, as Spark itself counted it: the other half of a plan's promise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession

from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import ReadTable

_FILE = re.compile(r"path: (?P<path>.*?), range: (?P<first>\d+)-(?P<last>\d+), partition values:")
_LOCATION = re.compile(r"Location: \w+\(\d+ paths\)\[(?P<first>.*?)(?:, |\]|$)")
_TEXT_LENGTH = "spark.sql.maxMetadataStringLength"
_OPENED = "number of files read"
_PATIENCE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Scanned:
    """What was opened of one log: different files, their bytes, and how often they were, on average, rounded up."""

    files: int
    size_bytes: int
    scans: int

    def difference_from(self, planned: ReadTable) -> str | None:
        """A sentence if the plan predicted otherwise."""
        if (self.files, self.size_bytes) == (planned.files, planned.size_bytes):
            return None
        return (
            f"{planned.table}: the plan named {planned.files} file(s) of {planned.size_bytes} bytes,"
            f" the run opened {self.files} of {self.size_bytes}"
        )


@dataclass(frozen=True, slots=True)
class Pass:
    """One executed scan of files: the first of them, or their folder, and the number of the metric that counts them."""

    path: str
    metric: int


@contextmanager
def watched(spark: SparkSession) -> Iterator[list[Pass]]:
    """A list that holds, once the block is left, the scans of all queries that the session's Spark ran meanwhile.

    For queries that leave no frame behind: those that are run while frames are only being built.
    """
    found: list[Pass] = []
    before = _last_execution(spark)
    usual = spark.conf.get(_TEXT_LENGTH)
    # Spark gives the files of a scan as a text that it cuts to this length
    spark.conf.set(_TEXT_LENGTH, "10000")
    try:
        yield found
    finally:
        spark.conf.set(_TEXT_LENGTH, str(usual))
    if _last_execution(spark) > before:
        found += _passes_after(spark, before)


def scanned(
    frames: Iterable[DataFrame], lakehouse: Lakehouse, tables: Sequence[ReadTable], passes: Iterable[Pass] = ()
) -> dict[str, Scanned]:
    """By table, what the executed queries behind ``frames`` opened; frames that were persisted, once computed.

    ``passes`` over the same files that no frame shows are counted as well.
    """
    roots = {table.table: _path(lakehouse.uri(table.table)).rstrip("/") + "/" for table in tables}
    sizes: dict[str, dict[str, int]] = {name: {} for name in roots}
    scans, opened = dict.fromkeys(roots, 0), dict.fromkeys(roots, 0)
    seen: set[int] = set()
    for one in passes:
        seen.add(one.metric)
        for name, root in roots.items():
            scans[name] += f"{one.path}/".startswith(root) and not one.path.startswith(f"{root}_delta_log/")
    for frame in frames:
        for scan in _file_scans(frame._jdf.queryExecution().executedPlan()):
            metric = scan.metrics().apply("numFiles").id()
            if metric in seen:
                continue  # two frames out of one that was persisted
            seen.add(metric)
            files = _files(frame, scan)
            for name, root in roots.items():
                mine = {path: size for path, size in files.items() if path.startswith(root)}
                sizes[name] |= mine
                opened[name] += len(mine)
    return {
        name: Scanned(len(each), sum(each.values()), scans[name] + -(-opened[name] // max(len(each), 1)))
        for name, each in sizes.items()
    }


def _file_scans(plan: Any) -> Iterator[Any]:
    """The scans of files that were executed, in a physical plan and in the plans inside it."""
    kind = plan.getClass().getSimpleName()
    match kind:
        case "FileSourceScanExec":
            if plan.metrics().apply("numFiles").value() > 0:
                yield plan
        case "AdaptiveSparkPlanExec":
            yield from _file_scans(plan.executedPlan())
        case "InMemoryTableScanExec":
            yield from _file_scans(plan.relation().cachedPlan())
        case "ReusedExchangeExec":
            return
        case _ if kind.endswith("QueryStageExec"):
            yield from _file_scans(plan.plan())
        case _:
            for inner in (plan.children(), plan.subqueries()):
                for index in range(inner.size()):
                    yield from _file_scans(inner.apply(index))


def _last_execution(spark: SparkSession) -> int:
    """The number of the newest query; -1 before the first."""
    context: Any = spark.sparkContext._jsc
    # what has happened is written down by another thread
    context.sc().listenerBus().waitUntilEmpty(_PATIENCE_MS)
    store = _store(spark)
    count = store.executionsCount()
    return -1 if count == 0 else int(store.executionsList(count - 1, 1).apply(0).executionId())


def _passes_after(spark: SparkSession, before: int) -> list[Pass]:
    store = _store(spark)
    executions = store.executionsList()
    found: dict[int, Pass] = {}
    for index in range(executions.size() - 1, -1, -1):
        number = executions.apply(index).executionId()
        if number <= before:
            break
        values = store.executionMetrics(number)
        nodes = store.planGraph(number).allNodes()
        for node in (nodes.apply(place) for place in range(nodes.size())):
            if not node.name().startswith("Scan ") or (place := _LOCATION.search(node.desc())) is None:
                continue
            metrics = (node.metrics().apply(each) for each in range(node.metrics().size()))
            metric = next((one.accumulatorId() for one in metrics if one.name() == _OPENED), None)
            opened = None if metric is None else values.get(metric)
            if metric is not None and opened is not None and opened.isDefined() and opened.get() != "0":
                found[metric] = Pass(_path(place["first"]), metric)
    return list(found.values())


def _store(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sharedState().statusStore()


def _files(frame: DataFrame, scan: Any) -> dict[str, int]:
    """Sizes by path. One text for all: a call for each file of a long log would take minutes."""
    context = frame.sparkSession.sparkContext
    gateway: Any = context._gateway
    jvm: Any = context._jvm
    opened = scan.selectedPartitions().toPartitionArray()
    # the gateway passes an array on only as what it was declared to be
    plain = gateway.new_array(jvm.java.lang.Object, len(opened))
    jvm.System.arraycopy(opened, 0, plain, 0, len(opened))
    text = jvm.java.util.Arrays.toString(plain)
    return {_path(found["path"]): int(found["last"]) - int(found["first"]) for found in _FILE.finditer(text)}


def _path(uri: str) -> str:
    return unquote(urlparse(uri).path) if "://" in uri else uri.removeprefix("file:")
