"""Whether the tables of a job have changed, for a process that asks the same of many jobs each minute.

Opening a table reads its whole Delta log. A table that is open already reads only the commits since.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from pipelines.lakehouse.arrival_log import data_files
from pipelines.lakehouse.root import RUNS, Lakehouse

_OPENED_AGAIN_AFTER_SECONDS = 600
"""A table that was removed and made again is noticed by then."""


class Watch:
    """The newest versions of tables. They are only compared: nothing is read from the tables that it keeps open."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self._lakehouse = lakehouse
        self._lock = Lock()
        self._open: dict[str, tuple[float, DeltaTable]] = {}
        self._runs: tuple[int, dict[str, frozenset[str]]] = (-1, {})

    def state(self, job_name: str, tables: Sequence[str]) -> object:
        """Equal to an earlier one if neither ``tables`` nor the job's part of the run ledger have changed since.

        Raises :class:`EnvironmentUnfit` if one cannot be opened.
        """
        with self._lock:
            return tuple(self._version(name) for name in tables), self._runs_of(job_name)

    def _version(self, name: str) -> int | None:
        table = self._newest(name)
        return None if table is None else table.version()

    def _runs_of(self, job_name: str) -> frozenset[str]:
        """The files of the job's part of the ledger."""
        table = self._newest(RUNS)
        if table is None:
            return frozenset()
        if self._runs[0] != table.version():
            found = defaultdict(set)
            for file in data_files(table, ["path", "partition.job"]):
                found[file["partition.job"]].add(file["path"])
            self._runs = table.version(), {name: frozenset(paths) for name, paths in found.items()}
        return self._runs[1].get(job_name, frozenset())

    def _newest(self, name: str) -> DeltaTable | None:
        opened_at, table = self._open.pop(name, (0.0, None))
        if table is not None and time.monotonic() - opened_at < _OPENED_AGAIN_AFTER_SECONDS:
            try:
                table.update_incremental()
            except (DeltaError, OSError):
                # its log is gone: what opens it below names the problem
                table = None
        else:
            table, opened_at = None, time.monotonic()
        if table is None:
            table = self._lakehouse.open(name)
        if table is not None:
            self._open[name] = opened_at, table
        return table


@lru_cache
def watch_of(lakehouse: Lakehouse) -> Watch:
    """The watch of this process."""
    return Watch(lakehouse)
