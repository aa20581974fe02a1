"""The errors that a user can get: one sentence that states what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TailraceError(Exception):
    """Base of all errors that the user can correct; ``exit_code`` is the exit code of the command.

    ``what`` is the problem, ``hint`` what to do; ``file``, ``line`` (counted from 1) and ``key`` are its place.
    """

    exit_code = 2

    def __init__(
        self,
        what: str,
        *,
        hint: str | None = None,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.file = file
        self.line = line
        self.key = key

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place = f"{place}:{self.line}" if place else f"line {self.line}"
        parts = [part for part in (place, self.key) if part]
        text = ": ".join([*parts, self.what])
        return f"{text}; {self.hint}" if self.hint else text

    def as_dict(self) -> dict[str, object]:
        """The error as JSON-ready data, for ``--json``."""
        return {
            "error": type(self).__name__,
            "message": str(self),
            "what": self.what,
            "hint": self.hint,
            "file": self.file,
            "line": self.line,
            "key": self.key,
        }


class UsageError(TailraceError):
    """The command was called in a way that cannot work (exit code 2)."""


class JobFileError(TailraceError):
    """The job file is not valid (exit code 2)."""


class DataRefused(TailraceError):
    """Input data was refused or quarantined (exit code 3)."""

    exit_code = 3


class EnvironmentUnfit(TailraceError):
    """The machine lacks something: Java, jars, permission (exit code 4)."""

    exit_code = 4


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint that names the closest of ``known``, or all of them when nothing is close."""
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known here: " + ", ".join(names) if names else "nothing is allowed here"
