"""Where the tables are: one root, validated names, and the Delta log opened without Spark."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from pipelines.core.errors import EnvironmentUnfit, UsageError

_NAME = re.compile(r"_?[a-z][a-z0-9_]{0,62}(/[a-z][a-z0-9_]{0,62})*")
"""What begins with an underscore is the product's own: no input and no job can be called so."""
RUNS = "runs"
_UNSAFE_COMMITS = {"AWS_S3_ALLOW_UNSAFE_RENAME": ("1", "true", "on", "yes", "y"), "AWS_CONDITIONAL_PUT": ("disabled",)}
"""Settings of ``deltalake`` that give up conditional writes, by variable."""


@dataclass(frozen=True, slots=True)
class Lakehouse:
    """All tables under ``root``: a local folder or a URI. ``uri(table)`` is what Spark and ``deltalake`` both take."""

    root: str

    @classmethod
    def at(cls, place: str | Path | Lakehouse) -> Lakehouse:
        """The lakehouse at a folder or URI; a relative folder is made absolute, so that it means one place."""
        if isinstance(place, Lakehouse):
            return place
        text = str(place)
        if "://" in text:
            return cls(text.rstrip("/"))
        return cls(str(Path(text).expanduser().absolute()))

    @property
    def is_local(self) -> bool:
        """Whether the root is a folder of this machine."""
        return "://" not in self.root or self.root.startswith("file://")

    @property
    def is_s3(self) -> bool:
        """Whether the root is in S3, or in a store that speaks its protocol."""
        return self.root.startswith(("s3://", "s3a://"))

    @property
    def folder(self) -> Path:
        """The root as a path; only where :attr:`is_local`."""
        return Path(self.root.removeprefix("file://"))

    def uri(self, table: str) -> str:
        """Where ``table`` is: a name such as ``windows/my_job``, or an absolute path or URI, which stays itself."""
        if "://" in table or table.startswith("/"):
            return table
        if not _NAME.fullmatch(table):
            raise UsageError(
                f"'{table}' is not a table's name", hint="names are in lower case, like windows/departures_per_hour"
            )
        return f"{self.root}/{table}"

    def open(self, table: str, version: int | None = None) -> DeltaTable | None:
        """The table's log at ``version`` (default: newest), or None where the table was never written.

        Raises :class:`UsageError` when the table exists but has no such version.
        """
        uri = self.uri(table)
        try:
            if not DeltaTable.is_deltatable(uri):
                return None
            return DeltaTable(uri, version=version)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as error:
            if version is None:
                raise EnvironmentUnfit(f"the table {table} cannot be opened: {_first_line(error)}") from error
            newest = DeltaTable(uri).version()
            raise UsageError(
                f"the table {table} cannot be read at version {version}: its newest is {newest}",
                hint="name a version that 'tailrace plan' or the runs table shows",
            ) from error

    def require_writable(self) -> None:
        """:class:`EnvironmentUnfit` unless a file can be written under a local root (made if need be).

        An object store is not probed: its own refusal comes with the first write, and nothing is half-written then. But
        an S3 root is refused where a setting of ``deltalake`` lets a commit overwrite another.
        """
        for variable, unsafe in _UNSAFE_COMMITS.items() if self.is_s3 else ():
            if os.environ.get(variable, "").lower() in unsafe:
                raise EnvironmentUnfit(
                    f"with {variable}={os.environ[variable]} a commit to {self.root} may overwrite another writer's",
                    hint=f"unset {variable}: commits are then conditional writes",
                )
        if not self.is_local:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise EnvironmentUnfit(
                f"the lakehouse {self.folder} cannot be written: {error.strerror or error}",
                hint="choose another folder with --lakehouse, or change its permissions",
            ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
