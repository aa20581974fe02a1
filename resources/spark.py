"""Spark as a Dagster resource: started when a body first asks for it, never when definitions load."""

from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkResource(dg.ConfigurableResource["SparkResource"]):
    """The process's one Spark session; ``TAILRACE_SPARK_MASTER`` chooses the master."""

    application: str = "tailrace-dagster"

    def session(self) -> "SparkSession":
        """The session, started on first use; :class:`EnvironmentUnfit` if Java or the jars are missing."""
        from pipelines.runtime.session import session

        return session(self.application)
