"""Nothing that is read or written under a lakehouse's root leads out of it, by a link or by a path in a Delta log.

Who can write a table decides what its log names: Spark would read another file of this machine in its place.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from deltalake import DeltaTable

from pipelines.core.errors import EnvironmentUnfit

_UP = "%2E%2E"
"""How ``deltalake`` writes ``..`` in an address."""


def require_inside(root: Path, name: str) -> Path:
    """The path of ``name`` below the folder ``root``; :class:`EnvironmentUnfit` if a link leads out of ``root``."""
    path = root / name
    there = os.path.realpath(path)
    if not Path(there).is_relative_to(os.path.realpath(root)):
        raise EnvironmentUnfit(
            f"{path} leads out of the lakehouse, to {there}",
            hint=f"move what it links to below {root}, or make the whole lakehouse a link",
        )
    return path


def require_own_files(table: DeltaTable, name: str, uri: str) -> None:
    """:class:`EnvironmentUnfit` if the log of the table at ``uri`` names a data file outside of the table's folder."""
    folder = None if "://" in uri and not uri.startswith("file://") else uri.removeprefix("file://")
    checked: set[str] = set()
    for file in table.file_uris():
        path = file.removeprefix("file://")[len(uri.removeprefix("file://")) :].lstrip("/")
        if _UP in path or "://" in path or "file:" in path or (folder and _leads_out(folder, path, checked)):
            raise EnvironmentUnfit(
                f"the log of table {name} names a data file outside of the table: {path}",
                hint="somebody else wrote that log; restore the table, or ingest into another lakehouse",
            )


def _leads_out(folder: str, path: str, checked: set[str]) -> bool:
    """Whether a link is on the way to a data file, or the path is an absolute one. ``checked``: folders seen before."""
    day = path.rpartition("/")[0]
    if day and day not in checked:
        checked.add(day)
        if _is_link(f"{folder}/{day}"):
            return True
    try:
        return stat.S_ISLNK(os.lstat(f"{folder}/{path}").st_mode)
    except FileNotFoundError:
        return Path(f"/{path}").exists()


def _is_link(path: str) -> bool:
    return Path(path).is_symlink()
