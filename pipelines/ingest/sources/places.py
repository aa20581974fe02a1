"""Files of a source: a folder of this machine or an object store, with globs and ``{date}`` in its path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from pipelines.core.errors import EnvironmentUnfit, UsageError

_WILD = re.compile(r"\*\*|\*|\?|\{date\}")
_AS_REGEX = {"**": ".*", "*": "[^/]*", "?": "[^/]", "{date}": r"\d{4}[-/]?\d{2}[-/]?\d{2}"}


@dataclass(frozen=True, slots=True)
class Found:
    """A file: ``name`` is its path below the part of the source's path that has neither globs nor ``{date}``."""

    name: str
    path: str
    size: int
    match: re.Match[str]


class Places:
    """The files below ``path`` whose path there matches ``below``, a regular expression; None: ``path`` is a file.

    Raises :class:`UsageError` if the folder does not exist, :class:`EnvironmentUnfit` if it cannot be listed.
    """

    def __init__(self, path: str, below: str | None) -> None:
        self._given = path
        self.files, root = _file_system(path)
        wild = _WILD.search(root)
        fixed = root if wild is None else root[: wild.start()]
        self._base = fixed if wild is None and below is not None else fixed.rpartition("/")[0]
        rest = root[len(self._base) :].strip("/")
        self._pattern = re.compile("/".join(filter(None, [glob_regex(rest), below])))
        self.passed_over: list[str] = []

    def found(self) -> list[Found]:
        """The files, by name; the others are then in ``passed_over``, without hidden ones."""
        try:
            infos = self.files.get_file_info(pafs.FileSelector(self._base, recursive=True))
        except FileNotFoundError:
            raise UsageError(f"there is no folder {self._given}", key="source.path") from None
        except (OSError, pa.ArrowException) as error:
            first = str(error).splitlines()[0]
            raise EnvironmentUnfit(f"the folder {self._given} cannot be listed: {first}") from error
        result, self.passed_over = [], []
        for info in infos:
            name = info.path[len(self._base) :].strip("/")
            if info.type != pafs.FileType.File:
                continue
            if match := self._pattern.fullmatch(name):
                result.append(Found(name, info.path, info.size or 0, match))
            elif not _is_hidden(name):
                self.passed_over.append(name)
        return sorted(result, key=lambda one: one.name)


_RESULTS = r".*\.(?P<end>parquet|json|jsonl|ndjson)(?:\.gz)?"


def result_files(folder: str) -> list[Found]:
    """The files below ``folder`` that may be results of a live run; none where there is no such folder."""
    try:
        found = Places(folder, _RESULTS).found()
    except UsageError:
        return []
    return [file for file in found if not _is_hidden(file.name)]


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def glob_regex(text: str) -> str:
    """A regular expression for a path with globs and ``{date}``."""
    parts, begin = [], 0
    for wild in _WILD.finditer(text):
        parts += [re.escape(text[begin : wild.start()]), _AS_REGEX[wild[0]]]
        begin = wild.end()
    return "".join([*parts, re.escape(text[begin:])])


def _file_system(path: str) -> tuple[pafs.FileSystem, str]:
    if "://" not in path:
        return pafs.LocalFileSystem(), str(Path(path).expanduser().absolute())
    try:
        # a glob's question mark is no query of a URI
        wild = _WILD.search(path)
        base = path if wild is None else path[: wild.start()].rpartition("/")[0]
        # Hadoop's name for the same store
        files, root = pafs.FileSystem.from_uri(re.sub("^s3a:", "s3:", base))
    except (ValueError, OSError, pa.ArrowException) as error:
        raise UsageError(f"{path} cannot be opened: {str(error).splitlines()[0]}", key="source.path") from None
    return files, root + path[len(base) :]
