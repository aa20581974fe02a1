"""What errors of deltalake, Arrow and Spark mean to a user: a data file is missing or damaged, or storage refuses."""

from __future__ import annotations

import re

from pipelines.core.errors import EnvironmentUnfit, TailraceError

_FILE = re.compile(r"[^\s'\":]*\.parquet")
_MISSING = re.compile(r"not found|PATH_NOT_FOUND|does not exist|NotFoundException", re.IGNORECASE)
_DAMAGED = re.compile(
    r"magic bytes|not a Parquet file|corrupt|deserialize|unexpected end|footer|FAILED_READ_FILE(?!\.FILE_NOT_EXIST)"
)
_REFUSED = re.compile(
    "No space left on device|Disk quota exceeded|File too large|Read-only file system|Permission denied"
    "|Operation not permitted",
    re.IGNORECASE,
)


def explained(error: BaseException) -> EnvironmentUnfit | None:
    """What an error about the lakehouse's files means, with the notes of ``error``; None for any other error."""
    if isinstance(error, TailraceError):
        return None
    found = _meaning(str(error))
    if found is not None:
        found.__notes__ = list(getattr(error, "__notes__", ()))
    return found


def _meaning(text: str) -> EnvironmentUnfit | None:
    if (refused := _REFUSED.search(text)) is not None:
        return EnvironmentUnfit(
            f"the storage refuses: {refused[0]}",
            hint="correct that and run the command again, which is safe; --debug shows where it happened",
        )
    file, missing, damaged = (pattern.search(text) for pattern in (_FILE, _MISSING, _DAMAGED))
    if file is None or not (missing or damaged):
        return None
    return EnvironmentUnfit(
        f"the data file {file[0]} of the lakehouse is {'damaged' if damaged else 'missing'}",
        hint="nothing was written; restore the file, or ingest the log into another lakehouse",
    )
