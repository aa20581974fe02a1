"""What executed queries opened of the arrival logs, as Spark itself counted it: the other half of a plan's promise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame

from pipelines.core.plan import ReadTable
from pipelines.lakehouse.root import Lakehouse

_FILE = re.compile(r"path: (?P<path>.*?), range: (?P<first>\d+)-(?P<last>\d+), partition values:")


@dataclass(frozen=True, slots=True)
class Scanned:
    """What was opened of one log: different files, their bytes, and how often it was gone through."""

    files: int
    size_bytes: int
    scans: int

    def differs_from(self, planned: ReadTable) -> str | None:
        """A sentence if the plan said otherwise."""
        if (self.files, self.size_bytes) == (planned.files, planned.size_bytes):
            return None
        return (
            f"{planned.table}: the plan named {planned.files} file(s) of {planned.size_bytes} bytes,"
            f" the run opened {self.files} of {self.size_bytes}"
        )


def scanned(frames: Iterable[DataFrame], house: Lakehouse, tables: Sequence[ReadTable]) -> dict[str, Scanned]:
    """By table, what the executed queries behind ``frames`` opened; frames that were persisted, once computed."""
    roots = {table.table: _path(house.uri(table.table)).rstrip("/") + "/" for table in tables}
    sizes: dict[str, dict[str, int]] = {name: {} for name in roots}
    scans = dict.fromkeys(roots, 0)
    seen: set[int] = set()
    for frame in frames:
        for scan in _file_scans(frame._jdf.queryExecution().executedPlan()):
            if scan.id() in seen:
                continue  # two frames out of one that was persisted
            seen.add(scan.id())
            files = _files(frame, scan)
            for name, root in roots.items():
                mine = {path: size for path, size in files.items() if path.startswith(root)}
                sizes[name] |= mine
                scans[name] += bool(mine)
    return {name: Scanned(len(sizes[name]), sum(sizes[name].values()), scans[name]) for name in roots}


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


def _files(frame: DataFrame, scan: Any) -> dict[str, int]:
    """Sizes by path. One text for all: a call for each file of a long log would take minutes."""
    context = frame.sparkSession.sparkContext
    gateway: Any = context._gateway
    jvm: Any = context._jvm
    opened = scan.selectedPartitions().toPartitionArray()
    # the gateway passes an array on only as what it was declared to be
    plain = gateway.new_array(jvm.java.lang.Object, len(opened))
    jvm.System.arraycopy(opened, 0, plain, 0, len(opened))
    told = jvm.java.util.Arrays.toString(plain)
    return {_path(found["path"]): int(found["last"]) - int(found["first"]) for found in _FILE.finditer(told)}


def _path(uri: str) -> str:
    return unquote(urlparse(uri).path) if "://" in uri else uri.removeprefix("file:")
