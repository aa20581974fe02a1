"""Data files that a table names and that are missing or damaged: the error that a user sees."""

from __future__ import annotations

import re

from pipelines.core.errors import EnvironmentUnfit, TailraceError

_FILE = re.compile(r"[^\s'\":]*\.parquet")
_MISSING = re.compile(r"not found|PATH_NOT_FOUND|does not exist|NotFoundException", re.IGNORECASE)
_DAMAGED = re.compile(r"magic bytes|not a Parquet file|corrupt|deserialize|unexpected end|footer|FAILED_READ_FILE")


def damaged_file(error: BaseException) -> EnvironmentUnfit | None:
    """What an error of deltalake, Arrow or Spark about a data file means; None for any other error."""
    if isinstance(error, TailraceError):
        return None
    text = str(error)
    file = _FILE.search(text)
    missing, damaged = _MISSING.search(text), _DAMAGED.search(text)
    if file is None or not (missing or damaged):
        return None
    return EnvironmentUnfit(
        f"the data file {file[0]} of the lakehouse is {'damaged' if damaged else 'missing'}",
        hint="nothing was written; restore the file, or ingest the log into another lakehouse",
    )
