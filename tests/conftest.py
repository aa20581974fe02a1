"""Fixtures that all tests share: one Spark session a process, one browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors, but for one: PySpark leaves the socket of each ``collect`` to the garbage collector."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests of Spark first: the many short ones after them keep both processes busy to the end."""
    with_spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: item.path not in with_spark)


@pytest.fixture(scope="session")
def _started() -> SparkSession:
    from pipelines.runtime.session import session

    # a process that runs half of the suite gets back what the second compiler takes, one that runs a file does not
    return session("tailrace-tests", short="PYTEST_XDIST_WORKER" not in os.environ)


@pytest.fixture(scope="session")
def _settings_of_a_replay(_started: SparkSession) -> dict[str, str | None]:
    """What the session has where the tests have settings of their own."""
    from pipelines.transcripts.engines import TINY_PROGRAMS

    return {key: _started.conf.get(key, None) for key in TINY_PROGRAMS}


@pytest.fixture(scope="session")
def spark(_started: SparkSession, _settings_of_a_replay: dict[str, str | None]) -> Iterator[SparkSession]:
    """The process's Spark session, with settings for a few rows."""
    from pipelines.transcripts.engines import tiny_programs

    with tiny_programs(_started):
        yield _started


@pytest.fixture(scope="module")
def as_a_replay(spark: SparkSession, _settings_of_a_replay: dict[str, str | None]) -> Iterator[None]:
    """The session with the settings of a replay, which compiles its programs, while the tests of a module run."""
    from pipelines.transcripts.engines import settings

    with settings(spark, _settings_of_a_replay):
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium without a head, where there is one; tests that ask for it are left out where there is none.

    It is ``TAILRACE_CHROMIUM``, or the first of ``chromium``, ``chromium-browser``, ``google-chrome`` on the path.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    path = os.environ.get("TAILRACE_CHROMIUM") or next((path for path in found if path), None)
    if path is None:
        pytest.skip("no Chromium here: install it, or name it in TAILRACE_CHROMIUM")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=BROWSER_ARGUMENTS)
        yield opened
        opened.close()
