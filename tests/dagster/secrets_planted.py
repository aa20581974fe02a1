"""Secrets whose values are known, and a search for them in everything that was written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow.parquet as pq
import pytest

MARK = b"cAnArY7Qx"
"""In the value of each secret."""
VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CONNECTION_STRING",
    "DAGSTER_PG_PASSWORD",
    "KAFKA_PASSWORD",
)


def plant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a secret into each of :data:`VARIABLES`."""
    for name in VARIABLES:
        monkeypatch.setenv(name, f"{MARK.decode()}/{name.lower()}")


def files_with(folder: Path, mark: bytes) -> list[Path]:
    """The files below ``folder`` that contain ``mark``: in their bytes, or in what Parquet and gzip unpack to."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and mark in _content(path)]


def _content(path: Path) -> bytes:
    plain = path.read_bytes()
    if path.suffix == ".parquet" and plain:
        return plain + str(pq.ParquetFile(path).read().to_pylist()).encode()
    return gzip.decompress(plain) if path.suffix == ".gz" else plain
