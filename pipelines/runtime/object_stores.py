"""Spark's settings for object stores. None of them contains a credential: clients find those themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pipelines.runtime import jars

LOG_STORE = "io.tailrace.ConditionalWriteLogStore"
_S3 = {
    # one root for Spark and for the reader of the Delta log, which calls S3 by either name
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    # Delta's own store for S3 overwrites the commits of other writers
    "spark.delta.logStore.s3.impl": LOG_STORE,
    "spark.delta.logStore.s3a.impl": LOG_STORE,
    # what Spark found in the driver's environment, and else profiles, web identities, containers, instances
    "spark.hadoop.fs.s3a.aws.credentials.provider": ",".join(
        (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        )
    ),
    # files of a stream's state are sent as they are: the other client's form of chunks is unknown to other servers
    "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
}


def settings(given: Mapping[str, str]) -> dict[str, str]:
    """Settings for S3 where its jars were fetched, apart from those ``given`` by Spark's own means."""
    if not jars.has_s3():
        return {}
    chosen = dict(_S3)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        chosen["spark.hadoop.fs.s3a.endpoint.region"] = region
    endpoint = s3_endpoint()
    if endpoint:
        chosen["spark.hadoop.fs.s3a.endpoint"] = endpoint
        # other servers than Amazon's have no address for each bucket
        chosen["spark.hadoop.fs.s3a.path.style.access"] = "true"
    return {key: value for key, value in chosen.items() if key not in given}


def s3_endpoint() -> str | None:
    """The address of an S3-compatible server; None for Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
