"""The one Spark session of a process, set up so that results depend on the job alone."""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime import archive, jars, java, object_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE = "TAILRACE_SPARK_MASTER"
"""Environment variable that names the Spark master; left out: ``local[*]``."""

_SETTINGS = {
    # results must not depend on where the session runs
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # a value that cannot be converted is null, and then an ordering verdict, never a crash
    "spark.sql.ansi.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.caseSensitive": "false",
    # text of a job file never reads environment variables or settings, as in ${env:NAME}
    "spark.sql.variable.substitute": "false",
    # parts of a union that are one task each stay tasks of their own
    "spark.sql.unionOutputPartitioning": "false",
    # a range of arrivals is found by the row groups' bounds; their dictionaries would be unpacked in vain
    "spark.hadoop.parquet.filter.dictionary.enabled": "false",
    # each write is a commit of its own, also one that replaces no rows by no rows: runs record its version
    "spark.databricks.delta.skipRecordingEmptyCommits": "false",
    # the place in our own code where a column was made is of no use to a user, and costs half of the calls
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS = {
    # sized for one machine; a cluster brings its own
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.memory": "3g",
}
_LOGGING = f'"-Dlog4j2.configurationFile={Path(__file__).with_name("log4j2.properties")}"'
_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The light compiler and the plain collector: what runs for seconds never gets back what the others take to be fast."""
_LONG = "-XX:+UseParallelGC"
"""Sorts and hash maps hold arrays of tens of megabytes, which the default collector marks over and over, on cores
that should compute."""


def driver_options(*, short: bool, given: str | None = None) -> str:
    """Options of a JVM on this machine; see :func:`session`."""
    sharing = archive.java_options() if given is None else given
    return " ".join(filter(None, [_LOGGING, _SHORT if short else _LONG, sharing]))


def session(application: str = "tailrace", *, short: bool = False, java_options: str | None = None) -> SparkSession:
    """The process's session, started on first use; :class:`EnvironmentUnfit` if Java or the jars are missing.

    ``short`` says that the process ends after little data: a session that it starts, on this machine, begins fast and
    would be slow over much. A process that may do more must not say so. ``java_options`` stand in for the class-data
    archive. ``TAILRACE_SPARK_MASTER`` chooses the master. Settings given through Spark's own means
    (``spark-defaults.conf``) hold wherever Tailrace does not need its own.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ["JAVA_HOME"] = str(java.require_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # PySpark converts timestamps with the process's own zone
    os.environ["TZ"] = "UTC"
    time.tzset()
    master = os.environ.get(MASTER_VARIABLE, "local[*]")
    builder = SparkSession.builder.master(master).appName(application)
    settings = _SETTINGS | object_stores.settings()
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _LOCAL_SETTINGS
        settings["spark.driver.extraClassPath"] = f"{jars.directory()}/*"
        settings["spark.driver.extraJavaOptions"] = driver_options(short=short, given=java_options)
    else:
        settings["spark.jars"] = ",".join(str(path) for path in jars.require())
    jars.require()
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        started = builder.getOrCreate()
    except Exception as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EnvironmentUnfit(
            f"Spark did not start on {master}: {first_line}", hint="run 'tailrace doctor' to see what is missing"
        ) from error
    _look_up_once()
    return started


def _look_up_once() -> None:
    """PySpark asks the JVM for the place of a function whenever it makes a column: two calls before the one that does.

    A frame is made of hundreds of columns, and the places do not change while a context lives.
    """
    from pyspark.sql.functions import builtin

    known = vars(builtin)["_get_jvm_function"]
    if not hasattr(known, "cache_info"):
        vars(builtin)["_get_jvm_function"] = cache(known)
