"""What of a script is refused: a construct, where it stands, and what to do instead."""

from __future__ import annotations

from pipelines.core.errors import JobFileError


class Refused(Exception):
    """Part of a script cannot be replayed. ``line`` and ``column`` are counted from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.column = column

    def at(self, file: str) -> JobFileError:
        """The error that a user sees: ``alerts.asaql:12:8: FULL OUTER JOIN is not in the language: ...``."""
        return JobFileError(self.what, file=f"{file}:{self.line}:{self.column}")
