"""One broker for all tests of sources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_broker import Broker, running


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker; a test that asks for one fails with a sentence where its jars or Java cannot be had."""
    with running(tmp_path_factory.mktemp("kafka")) as started:
        yield started
