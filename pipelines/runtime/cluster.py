"""What a session needs that runs on a cluster: Delta's jars on the executors, and for the live run Python packages.

A replay runs in the JVM alone. The live run has Python workers: each executor then needs the driver's version of
Python, and either an image with Tailrace's packages or the archive that ``tailrace pack`` writes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime.given import joined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE = "TAILRACE_SPARK_MASTER"
"""Environment variable that names the Spark master; left out: ``local[*]``."""
PACKAGES_VARIABLE = "TAILRACE_SPARK_PACKAGES"
"""Environment variable that names the archive of Python packages for executors; left out: they have the packages."""
_UNPACKED = "tailrace_packages"
"""The folder in which an executor unpacks the archive, relative to the folder that it runs in."""
_DEFAULTS = {
    "spark.executor.memory": "2g",
    # as on the driver: tasks sort and aggregate in large arrays
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
}


def master_of_environment() -> str:
    """The Spark master to use; :class:`EnvironmentUnfit` for one that Tailrace cannot use."""
    master = os.environ.get(MASTER_VARIABLE) or "local[*]"
    if master.startswith("sc://"):
        raise EnvironmentUnfit(
            f"{MASTER_VARIABLE}={master} names a Spark Connect server, and the exact sums and watermarks of a replay"
            " need a driver in this process",
            hint="name the cluster itself: spark://HOST:PORT, k8s://https://HOST:PORT or yarn",
        )
    return master


def is_cluster(master: str) -> bool:
    """Whether executors are other processes than the driver."""
    return not master.startswith("local") or master.startswith("local-cluster")


def executor_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Settings for executors: those of ``given`` hold, and paths are joined to them."""
    settings = {key: value for key, value in _DEFAULTS.items() if key not in given}
    # Java and Python have the zone of their process; a session's zone does not reach all of both
    settings["spark.executorEnv.TZ"] = "UTC"
    if packages_archive() is not None:
        path = "spark.executorEnv.PYTHONPATH"
        settings[path] = joined(":", _UNPACKED, given.get(path))
    return settings


def choose_python(given: Mapping[str, str]) -> None:
    """Name the Python that executors start: ``PYSPARK_PYTHON``, else ``spark.pyspark.python``, else the driver's
    version by its name, which each machine looks up on its own path."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    os.environ.setdefault("PYSPARK_PYTHON", given.get("spark.pyspark.python", name))
    # the driver's JVM starts Python by the same name, and must find the interpreter that runs here
    os.environ["PATH"] = joined(os.pathsep, str(Path(sys.executable).parent), os.environ.get("PATH"))


def packages_archive() -> Path | None:
    """The archive of ``TAILRACE_SPARK_PACKAGES``; :class:`EnvironmentUnfit` if it is not there."""
    chosen = os.environ.get(PACKAGES_VARIABLE)
    if not chosen:
        return None
    archive = Path(chosen).expanduser().absolute()
    if not archive.is_file():
        raise EnvironmentUnfit(
            f"{PACKAGES_VARIABLE} names {archive}, which is not there",
            hint=f"write it: 'tailrace pack --out {archive}'",
        )
    return archive


def provide_packages(spark: SparkSession) -> None:
    """Let executors fetch the archive of packages before their next task, for what runs Python there."""
    archive = packages_archive()
    if archive is not None and is_cluster(str(spark.sparkContext.master)):
        spark.sparkContext.addArchive(f"{archive}#{_UNPACKED}")
