"""The one Spark session of a process, set up so that results depend on the job alone."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime import archive, jars, java, object_stores
from pipelines.runtime.cluster import choose_python, executor_settings, is_cluster, master_of_environment
from pipelines.runtime.given import SUBMIT_VARIABLE, given_settings, joined, submit_with_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    "spark.ui.showConsoleProgress": "false",
}
_DEFAULTS = {
    # the least that a shuffle has; a replay of much data takes more
    "spark.sql.shuffle.partitions": "4",
    # Spark's 50 make reading a one-row table take seconds
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.memory": "3g",
}
"""What the user may set otherwise by Spark's own means."""
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
_LOGGING = f'"-Dlog4j2.configurationFile={Path(__file__).with_name("log4j2.properties")}"'
_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The light compiler and the plain collector: what runs for seconds never gets back what the others take to be fast."""
_LONG = "-XX:+UseParallelGC"
"""Sorts and hash maps hold arrays of tens of megabytes, which the default collector marks over and over, on cores
that should compute."""


def settings_for(
    master: str, given: Mapping[str, str], *, short: bool = False, java_options: str | None = None
) -> dict[str, str]:
    """The settings of a session on ``master``: Tailrace's own, defaults for what is not ``given``, and both joined."""
    class_path = "spark.driver.extraClassPath"
    sharing = archive.java_options() if java_options is None and class_path not in given else java_options
    options = driver_options(short=short, sharing=sharing, given=given.get("spark.driver.extraJavaOptions"))
    return {
        **_SETTINGS,
        **{key: value for key, value in _DEFAULTS.items() if key not in given},
        **object_stores.settings(given),
        **(executor_settings(given) if is_cluster(master) else _LOCAL),
        class_path: joined(os.pathsep, given.get(class_path), f"{jars.directory()}/*"),
        "spark.driver.extraJavaOptions": options,
    }


def driver_options(*, short: bool, sharing: str | None = None, given: str | None = None) -> str:
    """Options of the driver's JVM; see :func:`session`. The user's come last, and may choose another collector."""
    chosen = given is not None and re.search(r"-XX:\+Use\w+GC\b", given)
    return " ".join(filter(None, [_LOGGING, None if chosen else _SHORT if short else _LONG, sharing, given]))


def session(application: str = "tailrace", *, short: bool = False, java_options: str | None = None) -> SparkSession:
    """The process's session, started on first use; :class:`EnvironmentUnfit` if Java or the jars are missing.

    ``short`` says that the process ends after little data: a session that it starts, on this machine, begins fast and
    would be slow over much. A process that may do more must not say so. ``java_options`` stand in for the class-data
    archive. ``TAILRACE_SPARK_MASTER`` chooses the master. Settings given through Spark's own means
    (``spark-defaults.conf``, ``PYSPARK_SUBMIT_ARGS``) hold wherever Tailrace does not need its own.
    """
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        # the first session; the active one may be another, of other rules, that the live engine made for expressions
        return SparkSession.builder.getOrCreate()
    os.environ["JAVA_HOME"] = str(java.require_home())
    # PySpark converts timestamps with the process's own zone
    os.environ["TZ"] = "UTC"
    time.tzset()
    master, given, needed = master_of_environment(), given_settings(), jars.require()
    if is_cluster(master):
        choose_python(given)
        # an option of the launch, to which SparkSubmit adds what it resolves of spark.jars.packages
        os.environ[SUBMIT_VARIABLE] = submit_with_jars(joined(",", given.get("spark.jars"), *map(str, needed)))
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(application)
    for key, value in settings_for(master, given, short=short, java_options=java_options).items():
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
