"""What a Python worker of Spark is told before it serves the stream."""

from __future__ import annotations

import zipimport


def trust_archives() -> None:
    """Never look again at zip archives that modules were imported from: to be called in a worker.

    Before each task a worker has all importers drop what they remember. For each package out of Spark's own archives
    that means to read the whole archive's directory anew, which takes longer than to decide tens of thousands of rows.
    """
    zipimport.zipimporter.invalidate_caches = _nothing  # type: ignore[assignment,method-assign]


def _nothing(_: zipimport.zipimporter) -> None:
    pass
