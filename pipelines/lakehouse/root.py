"""Where the tables are: one root, validated names, and the Delta log opened without Spark."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.sources import require_no_credential
from pipelines.lakehouse import object_stores
from pipelines.lakehouse.outside import require_inside, require_own_files

_NAME = re.compile(r"_?[a-z][a-z0-9_]{0,62}(/[a-z][a-z0-9_]{0,62})*")
"""What begins with an underscore is the product's own: no input and no job can be called so."""
RUNS = "runs"


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
        _refuse_credential(text, "--lakehouse")
        if "://" in text:
            return cls(object_stores.with_account(text.rstrip("/")))
        return cls(str(Path(text).expanduser().absolute()))

    @property
    def is_local(self) -> bool:
        """Whether the root is a folder of this machine."""
        return "://" not in self.root or self.root.startswith("file://")

    @property
    def folder(self) -> Path:
        """The root as a path; only where :attr:`is_local`."""
        return Path(self.root.removeprefix("file://"))

    def uri(self, table: str) -> str:
        """Where ``table`` is: a name such as ``windows/my_job``, or an absolute path or URI, which stays itself.

        Raises :class:`UsageError` for another name, :class:`EnvironmentUnfit` if a link leads out of the root.
        """
        if "://" in table or table.startswith("/"):
            _refuse_credential(table)
            return table
        if not _NAME.fullmatch(table):
            raise UsageError(
                f"'{table}' is not a table's name", hint="names are in lower case, like windows/departures_per_hour"
            )
        if self.is_local:
            require_inside(self.folder, table)
        return f"{self.root}/{table}"

    def open(self, table: str, version: int | None = None) -> DeltaTable | None:
        """The table's log at ``version`` (default: newest), or None where the table was never written.

        Raises :class:`UsageError` when the table exists but has no such version.
        """
        uri = self.uri(table)
        try:
            options = object_stores.storage_options(uri)
            if not DeltaTable.is_deltatable(uri, options):
                return None
            found = DeltaTable(uri, version=version, storage_options=options)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as error:
            if version is None:
                raise EnvironmentUnfit(
                    f"the table {table} cannot be opened: {object_stores.reason_of(error)}"
                ) from error
            newest = DeltaTable(uri, storage_options=options).version()
            raise UsageError(
                f"the table {table} cannot be read at version {version}: its newest is {newest}",
                hint="name a version that 'tailrace plan' or the runs table shows",
            ) from error
        require_own_files(found, table, uri)
        return found

    def create(self, table: str, rows: Any, *, mode: Literal["error", "append", "overwrite"], **how: Any) -> None:
        """Write ``rows`` to a table that is not there yet, by ``write_deltalake``: with any ``mode`` it is made."""
        uri = self.uri(table)
        write_deltalake(uri, rows, mode=mode, storage_options=object_stores.storage_options(uri), **how)

    def require_writable(self) -> None:
        """:class:`EnvironmentUnfit` unless a file can be written under a local root (made if need be).

        An object store is not tried: its own refusal comes with the first write, and nothing is half-written then. But
        it is refused where a setting of ``deltalake`` lets a commit overwrite another.
        """
        object_stores.require_safe_commits(self.root)
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


def _refuse_credential(place: str, key: str | None = None) -> None:
    try:
        require_no_credential(place)
    except ValueError as error:
        raise UsageError(str(error), key=key) from None
