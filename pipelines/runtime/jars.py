"""The Delta jars: resolved once at install, checked by hash, then simply put on the class path."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime import java

COORDINATE = "io.delta:delta-spark_4.1_2.13:4.4.0"

SHA256 = {
    "io.delta_delta-kernel-api-4.4.0.jar": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "io.delta_delta-kernel-defaults-4.4.0.jar": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "io.delta_delta-kernel-unitycatalog-4.4.0.jar": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    "io.delta_delta-spark_4.1_2.13-4.4.0.jar": "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    "io.delta_delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "io.unitycatalog_unitycatalog-client-0.6.0.jar": "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
    "io.unitycatalog_unitycatalog-hadoop-0.6.0.jar": "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
}
"""What is kept of the package and what it pulls in; Spark brings the rest itself."""

_SPARK_HAS = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-logging:commons-logging",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "javax.annotation:javax.annotation-api",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-column",
    "org.apache.parquet:parquet-common",
    "org.apache.parquet:parquet-encoding",
    "org.apache.parquet:parquet-format-structures",
    "org.apache.parquet:parquet-hadoop",
    "org.apache.parquet:parquet-jackson",
    "org.roaringbitmap:RoaringBitmap",
    "org.roaringbitmap:shims",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
DIRECTORY_VARIABLE = "TAILRACE_JARS"


def directory() -> Path:
    """Where the jars lie: ``TAILRACE_JARS``, else inside the virtual environment."""
    chosen = os.environ.get(DIRECTORY_VARIABLE)
    return Path(chosen) if chosen else Path(sys.prefix) / "share" / "tailrace" / "jars"


def missing() -> list[str]:
    """Names of the jars that are not there or not what they should be."""
    return [name for name, digest in SHA256.items() if _digest(directory() / name) != digest]


def require() -> list[Path]:
    """Paths of all jars; :class:`EnvironmentUnfit` if one is not there. (Hashes are checked at install.)"""
    paths = [directory() / name for name in SHA256]
    absent = [path.name for path in paths if not path.is_file()]
    if absent:
        raise EnvironmentUnfit(
            f"the jar {absent[0]} is not in {directory()}",
            hint="run 'make install', or 'python -m pipelines.runtime.jars'",
        )
    return paths


def install() -> Path:
    """Resolve :data:`COORDINATE` with Spark's own resolver and keep what :data:`SHA256` names; the directory."""
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java.require_home())
    with tempfile.TemporaryDirectory(prefix="tailrace-jars-") as scratch:
        SparkSession.builder.master("local[1]").config("spark.jars.packages", COORDINATE).config(
            "spark.jars.excludes", ",".join(_SPARK_HAS)
        ).config("spark.jars.ivy", scratch).config("spark.ui.enabled", "false").config(
            "spark.log.level", "ERROR"
        ).getOrCreate().stop()
        directory().mkdir(parents=True, exist_ok=True)
        for name, digest in SHA256.items():
            source = Path(scratch) / "jars" / name
            if _digest(source) != digest:
                raise EnvironmentUnfit(f"the jar {name} could not be resolved, or is not the one that was pinned")
            shutil.copyfile(source, directory() / name)
    return directory()


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


if __name__ == "__main__":
    if missing():
        install()
    print(directory())
