"""Whether Spark can read and safely write a lakehouse in an object store, asked before anything is computed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import EnvironmentUnfit
from pipelines.lakehouse.object_stores import is_s3
from pipelines.lakehouse.root import Lakehouse
from pipelines.runtime.object_stores import LOG_STORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNSAFE_LOG_STORES = tuple(
    f"io.delta.storage.{name}" for name in ("S3SingleDriverLogStore", "GCSLogStore", "HDFSLogStore", "LocalLogStore")
)
"""Those of Delta that do not see another process's commit on S3; the first is the default."""


def require_client(spark: SparkSession, lakehouse: Lakehouse) -> None:
    """:class:`EnvironmentUnfit` where Spark has no client for the lakehouse's object store, or S3 is unsafe to write.

    A store that speaks S3's protocol is unsafe where it ignores the condition of a write. It is tried with one small
    object, once a process.
    """
    if lakehouse.is_local:
        return
    from py4j.protocol import Py4JJavaError

    scheme, jvm, settings = lakehouse.root.partition("://")[0], *_java(spark)
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, settings)
    except Py4JJavaError:
        brings = (
            "run 'tailrace setup --s3'" if is_s3(lakehouse.root) else "give Spark its client with spark.jars.packages"
        )
        raise EnvironmentUnfit(
            f"Spark has no client for {scheme}://", hint=f"{brings}; docs/object-stores.md has the details"
        ) from None
    if is_s3(lakehouse.root) and _log_store(spark, scheme) == LOG_STORE and not _is_safe(lakehouse.root, jvm, settings):
        raise EnvironmentUnfit(
            f"the store of {lakehouse.root} ignores the condition of a write: one writer may overwrite the commit of"
            " another",
            hint="use a store, or a version of it, that refuses a PUT with If-None-Match of an object that is there",
        )


def require_safe_commits(spark: SparkSession, lakehouse: Lakehouse) -> None:
    """:class:`EnvironmentUnfit` where Spark's commits to an S3 root may overwrite those of other writers."""
    scheme = lakehouse.root.partition("://")[0]
    if is_s3(lakehouse.root) and _log_store(spark, scheme) in _UNSAFE_LOG_STORES:
        raise EnvironmentUnfit(
            f"Spark's commits to {lakehouse.root} may overwrite those of other writers",
            hint=f"run 'tailrace setup --s3', which brings a log store that commits with conditional writes, or set"
            f" {_key(scheme)} to one",
        )


def _log_store(spark: SparkSession, scheme: str) -> str:
    return spark.conf.get(_key(scheme), None) or _UNSAFE_LOG_STORES[0]


def _key(scheme: str) -> str:
    return f"spark.delta.logStore.{scheme}.impl"


def _java(spark: SparkSession) -> tuple[Any, Any]:
    context: Any = spark.sparkContext
    return context._jvm, context._jsc.hadoopConfiguration()


@cache
def _is_safe(root: str, jvm: Any, settings: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        return bool(jvm.io.tailrace.ConditionalWriteLogStore.isSafe(root, settings))
    except Py4JJavaError as error:
        first_line = str(error.java_exception.getMessage()).splitlines()[0]
        raise EnvironmentUnfit(f"the lakehouse {root} cannot be written: {first_line}") from None
