"""Commits to tables that others write too: tried again when others come first, and found again in the log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler

from pipelines.core.errors import EnvironmentUnfit
from pipelines.core.time import MILLISECOND, MINUTE, from_datetime
from pipelines.lakehouse.root import Lakehouse

_CLOCK_US = MINUTE
"""So far may the clock that timed a commit be behind the one that timed its run."""
_LOOKED_BACK = 1000
"""More commits than others make between a commit and the question which one it was."""


def committed(lakehouse: Lakehouse, name: str, write: Callable[[DeltaTable | None], None], attempts: int) -> bool:
    """Call ``write`` with the table at its newest version, None where there is none, until its commit succeeds.

    False if others committed first in each of so many attempts. Raises :class:`EnvironmentUnfit` if the table cannot
    be written at all.
    """
    for _ in range(attempts):
        table = lakehouse.open(name)
        try:
            write(table)
        except CommitFailedError:
            continue
        except DeltaError as error:
            if table is None and lakehouse.open(name) is not None:
                continue
            first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise EnvironmentUnfit(f"the table {name} cannot be written: {first_line}") from error
        return True
    return False


def commit(
    lakehouse: Lakehouse, name: str, write: Callable[[DeltaTable | None], None], attempts: int, what: str = "a commit"
) -> None:
    """As :func:`committed`; :class:`EnvironmentUnfit` also if others always committed first: a write conflict.

    ``what`` is what was to be written, for the message.
    """
    if committed(lakehouse, name, write, attempts):
        return
    table = lakehouse.open(name)
    other = next(commits(table), None) if table is not None else None
    raise EnvironmentUnfit(
        f"write conflict: {what} to the table {name} lost to commits of others {attempts} times in a row"
        + (f", last to {described(*other)}" if other else ""),
        hint="nothing of it was written; run the command again, which is safe",
    )


def version_of(lakehouse: Lakehouse, name: str, metadata: Mapping[str, str]) -> int:
    """The version of the newest commit to the table ``name`` whose metadata has all of ``metadata``.

    Raises :class:`EnvironmentUnfit` if there is none: the commit was made, and another writer has overwritten it.
    """
    table = lakehouse.open(name)
    for version, about in islice(commits(table), _LOOKED_BACK) if table is not None else ():
        if metadata.items() <= about.items():
            return version
    raise EnvironmentUnfit(
        f"the commit just made to the table {name} is not in its log: another writer has overwritten it",
        hint="have every writer commit with conditional writes (for Spark a log store that does so:"
        " spark.delta.logStore.s3a.impl), and run the command again",
    )


def committed_by(lakehouse: Lakehouse, tables: Iterable[str], run_id: str, began: datetime) -> dict[str, int]:
    """The newest version of each of ``tables`` that a run has committed since it ``began``, by the tables' logs."""
    found: dict[str, int] = {}
    for name in tables:
        table = lakehouse.open(name)
        for version, about in islice(commits(table), _LOOKED_BACK) if table is not None else ():
            if metadata_of(about).get("run_id") == run_id:
                found[name] = version
            at_ms = about.get("timestamp")
            if name in found or (at_ms is not None and at_ms * MILLISECOND < from_datetime(began) - _CLOCK_US):
                break
    return found


def commits(table: DeltaTable) -> Iterator[tuple[int, dict[str, Any]]]:
    """Versions with the metadata of their commits, newest first, as far back as the log goes.

    ``DeltaTable.history`` lists later commits than the version that was opened, and numbers them as if there were none.
    """
    files = pafs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
    for version in range(table.version(), -1, -1):
        try:
            with files.open_input_stream(f"_delta_log/{version:020d}.json") as stream:
                lines = stream.read().decode().splitlines()
        except FileNotFoundError:
            return
        yield version, next((json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')), {})


def metadata_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a commit with what its writer has put into it."""
    own = dict(about)
    with contextlib.suppress(TypeError, ValueError):  # others write there what they like
        own |= json.loads(about["userMetadata"]) if "userMetadata" in about else {}
    return own


def described(version: int, about: Mapping[str, Any]) -> str:
    """A commit for a person: its version, what made it, and the run or batch, where it names one."""
    own = metadata_of(about)
    by = own.get("tailrace") or str(own.get("operation", "commit")).lower()
    whose = [f"{key.removesuffix('_id')} {own[key]}" for key in ("run_id", "batch_id") if key in own]
    return f"version {version} ({', '.join([by, *whose])})"
