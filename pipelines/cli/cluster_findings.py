"""What ``tailrace doctor`` checks of a cluster, by small jobs on its executors."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipelines.cli.findings import Finding
from pipelines.core.errors import EnvironmentUnfit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.runtime.executors import Executor

WORKERS_IMPORT = ("numpy", "pandas", "pyarrow", "google.protobuf", "sqlglot", "pipelines.live.engine")
_WAIT_SECONDS = 60
_CLOCK_MS = 1000
_PROBE = "_doctor"


def cluster_findings(lakehouse: str) -> Iterator[Finding]:
    """Starts a session on the cluster of ``TAILRACE_SPARK_MASTER``; nothing where that is this machine alone."""
    from pipelines.runtime.cluster import is_cluster, master_of_environment

    try:
        master = master_of_environment()
        if not is_cluster(master):
            return
        from pipelines.runtime.session import session

        spark = session("tailrace-doctor")
    except EnvironmentUnfit as unfit:
        yield Finding("Spark master", False, str(unfit), "see docs/cluster.md")
        return
    from pipelines.runtime.executors import executors, wait_for_executors

    if not wait_for_executors(spark, _WAIT_SECONDS):
        remedy = "look at the master's own page: are there workers, with memory and cores left for an executor?"
        yield Finding("Spark master", False, f"{master} gave no executor within {_WAIT_SECONDS} seconds", remedy)
        return
    found = executors(spark)
    yield Finding("Spark master", True, f"{master}, {len(found)} executor(s), application {_application(spark)}")
    yield from _of_their_java(found)
    yield _python(spark)
    yield _jars_and_lakehouse(spark, lakehouse)


def _application(spark: SparkSession) -> str:
    return str(spark.sparkContext.applicationId)


def _of_their_java(found: list[Executor]) -> Iterator[Finding]:
    other = [f"{one.process}: {one.zone}" for one in found if one.zone not in ("UTC", "GMT", "Etc/UTC")]
    yield Finding(
        "executors' time zone", not other, ", ".join(other) or "UTC", "remove -Duser.timezone from their Java options"
    )
    versions = ", ".join(sorted({one.java for one in found}))
    major = {one.java.split(".")[0] for one in found}
    yield Finding("executors' Java", major <= {"17", "21"}, versions, "install Java 17 or 21 on the workers")
    late = [f"{one.process}: {one.clock_ms} ms" for one in found if one.clock_ms > _CLOCK_MS]
    seen = ", ".join(late) or f"within {_CLOCK_MS} ms of the driver's"
    yield Finding("executors' clocks", not late, seen, "synchronise the clocks: times of runs mix them", required=False)


def _python(spark: SparkSession) -> Finding:
    """Replays need none, so this is not required of every cluster."""
    from pipelines.runtime.cluster import PACKAGES_VARIABLE, provide_packages
    from pipelines.runtime.executors import workers

    name = "executors' Python"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    remedy = f"for the live run: install Python {version} there, run 'tailrace pack' and set {PACKAGES_VARIABLE}"
    try:
        provide_packages(spark)
        found = workers(spark, WORKERS_IMPORT)
    except Exception as error:
        return Finding(name, False, _reason(str(error)), remedy, required=False)
    absent = [f"{one.host} cannot import {module}" for one in found for module in one.absent]
    others = [f"{one.host} has Python {one.python}" for one in found if one.python != platform.python_version()]
    seen = "; ".join([*absent, *others]) or f"{platform.python_version()}, with all that the live run imports"
    return Finding(name, not absent, seen, remedy, required=False)


def _reason(text: str) -> str:
    """Of a failed task's long report the line with the reason."""
    lines = [line.strip() for line in text.splitlines()]
    reasons = [line for line in lines if "Cannot run program" in line or "PYTHON_VERSION_MISMATCH" in line]
    return (reasons or [line for line in lines if line])[0][:300]


def _jars_and_lakehouse(spark: SparkSession, root: str) -> Finding:
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.runtime.executors import written_table

    lakehouse = Lakehouse.at(root)
    name, remedy = "executors write Delta tables", "choose a place that driver and executors share: --lakehouse"
    try:
        with written_table(spark, lakehouse.uri(_PROBE)) as rows:
            table = lakehouse.open(_PROBE)
            read = 0 if table is None else table.to_pyarrow_table().num_rows
    except Exception as error:
        return Finding(name, False, _reason(str(error)), remedy)
    seen = f"{lakehouse.root}: the driver reads {read} of {rows} rows that executors wrote"
    return Finding(name, read == rows, seen, remedy)
