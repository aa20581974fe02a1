"""What a Python worker of Spark does before it serves the stream."""

from __future__ import annotations

import zipimport


def trust_archives() -> None:
    """Never read again the zip archives that modules were imported from: to be called in a worker.

    Before each task a worker invalidates the caches of all importers. For each package in Spark's own archives that
    means to read the archive's whole directory again, which takes longer than to decide tens of thousands of rows.
    """
    zipimport.zipimporter.invalidate_caches = _nothing  # type: ignore[assignment,method-assign]


def _nothing(_: zipimport.zipimporter) -> None:
    pass
