"""Fixtures that all tests share: one Spark session a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors, but for one: PySpark leaves the socket of each ``collect`` to the garbage collector."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The process's Spark session, with the settings that the product runs with."""
    from pipelines.runtime.session import session

    return session("tailrace-tests")
