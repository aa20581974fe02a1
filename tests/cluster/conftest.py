"""One cluster for all tests of this folder, and the archive of packages that its executors fetch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Tailrace
from standalone import Cluster, standalone

from pipelines.runtime.cluster import MASTER_VARIABLE, PACKAGES_VARIABLE
from pipelines.runtime.pack import pack


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def tailrace(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Tailrace:
    archive = tmp_path_factory.mktemp("packages") / "packages.zip"
    pack(archive)
    return Tailrace(cluster, {MASTER_VARIABLE: cluster.master, PACKAGES_VARIABLE: str(archive)})


@pytest.fixture(scope="session")
def demo(tailrace: Tailrace, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The lakehouse of the demo, and what the demo printed."""
    lakehouse = tmp_path_factory.mktemp("demo")
    return lakehouse, tailrace.run("demo", "--lakehouse", str(lakehouse))
