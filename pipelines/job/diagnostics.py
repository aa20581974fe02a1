"""A job file under validation: each problem becomes a :class:`JobFileError` that names file, line and key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.core.errors import JobFileError, did_you_mean
from pipelines.job.yaml import Document
from pipelines.job.yaml import Path as KeyPath

T = TypeVar("T")
S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True)
class JobFile:
    """The job at key path ``root`` of ``document``, which was read from the file ``name``."""

    document: Document
    name: str | None
    root: KeyPath

    def error(self, what: str, path: KeyPath) -> JobFileError:
        """The error at ``path``, for the caller to raise."""
        line = self.document.line_of((*self.root, *path))
        return JobFileError(what, file=self.name, line=line, key=".".join(map(str, path)) or None)

    def at(self, path: KeyPath, make: Callable[[], T]) -> T:
        """``make()``, with a ValueError raised as an error at ``path``."""
        try:
            return make()
        except ValueError as error:
            raise self.error(str(error), path) from None

    def section(self, kind: type[S], data: Any, path: KeyPath) -> S:
        """``data`` as a section of this kind; raises the first of pydantic's errors."""
        try:
            return kind.model_validate(data)
        except ValidationError as error:
            raise self._first(error, path) from None

    def _first(self, error: ValidationError, path: KeyPath) -> JobFileError:
        """The error whose key is first in the file."""
        found = []
        for item in error.errors(include_url=False):
            # pydantic adds names of its own to the path: the branch of a union, "[key]" for a mapping's key
            where = (*path, *(part for part in item["loc"] if part != "[key]" and not str(part).startswith("constr")))
            if item["type"] == "unknown_key":
                where = (*where, item["ctx"]["key"])
            found.append((self.document.line_of((*self.root, *where)) or 0, where, _sentence(item)))
        _, where, what = min(found, key=lambda each: each[0])
        return self.error(what, where)


def _sentence(item: Any) -> str:
    """The sentence for one of pydantic's errors."""
    given = item.get("input")
    match item["type"]:
        case "missing":
            return "is missing"
        case "unknown_key" | "not_a_mapping":
            return str(item["msg"])
        case "literal_error":
            expected = str(item["ctx"]["expected"])
            known = expected.replace("'", "").replace(" or ", ", ").split(", ")
            hint = did_you_mean(given, known) if isinstance(given, str) else ""
            return f"{given!r} is not one of {expected}" + (f"; {hint}" if hint.startswith("did") else "")
        case "value_error":
            return str(item["ctx"]["error"])
        case "string_pattern_mismatch":
            return f"'{given}' is not a name here: a lower-case letter, then letters, digits and underscores"
        case "string_type":
            return f"{given!r} is not text"
        case "int_type":
            return f"{given!r} is not a whole number"
        case "bool_type":
            return f"{given!r} is neither true nor false"
        case "list_type":
            return f"{given!r} is not a list; write it like [a, b]"
        case "dict_type":
            return f"{given!r} is not a mapping of keys to values"
        case _:
            return str(item["msg"])
