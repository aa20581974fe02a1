"""The run ledger: one row a plan executed, written before the work begins and replaced when it ends.

A run that was killed stays ``running``; the next run of the same job on the same machine sees that its process is gone
and marks it ``abandoned``. The tables that a run committed are in ``versions_written``, and in each commit's metadata.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError

from pipelines.lakehouse.arrival_log import data_files
from pipelines.lakehouse.arrow import plain_rows, read_stream
from pipelines.lakehouse.commits import commit
from pipelines.lakehouse.compact import COMPACTION
from pipelines.lakehouse.root import RUNS, Lakehouse
from pipelines.lakehouse.schema import RUNS as COLUMNS
from pipelines.runtime import run_log

RUNNING, SUCCEEDED, FAILED, ABANDONED = "running", "succeeded", "failed", "abandoned"
_ATTEMPTS = 10
_LOGGED = ("kind", "reason", "error", "output_from", "output_to", "started_at", "finished_at", "rows_written", "cost")
"""Columns that a line of the log has, too."""
_MOST_FILES = 64


def record(lakehouse: Lakehouse, row: Mapping[str, Any]) -> None:
    """Write ``row`` (values by column name, instants as datetimes), replacing an earlier row of the same run."""
    rows = pa.Table.from_pylist([{name: row.get(name) for name in COLUMNS.names}], schema=COLUMNS)
    about = CommitProperties(custom_metadata={"tailrace": str(row["kind"]), "run_id": str(row["run_id"])})

    def write(table: DeltaTable | None) -> None:
        if table is None:
            lakehouse.create(RUNS, rows, mode="error", partition_by=["job"], commit_properties=about)
        elif row["status"] == RUNNING:
            write_deltalake(table, rows, mode="append", schema_mode="merge", commit_properties=about)
        else:
            mine = f"job = {_literal(row['job'])} AND run_id = {_literal(row['run_id'])}"
            write_deltalake(table, rows, mode="overwrite", schema_mode="merge", predicate=mine, commit_properties=about)
            _compact(lakehouse, str(row["job"]))

    commit(lakehouse, RUNS, write, _ATTEMPTS, f"the row of run {row['run_id']}")
    run_log.log_event(
        str(row["run_id"]), str(row["job"]), str(row["status"]), **{name: row.get(name) for name in _LOGGED}
    )


def _compact(lakehouse: Lakehouse, job_name: str) -> None:
    """Put the job's part of the ledger, a file a run, into one file when it is long: every plan reads it."""
    table = lakehouse.open(RUNS)
    assert table is not None, "a row was just written"
    if sum(file["partition.job"] == job_name for file in data_files(table, ["partition.job"])) <= _MOST_FILES:
        return
    about = CommitProperties(custom_metadata={"tailrace": COMPACTION})
    with contextlib.suppress(CommitFailedError):
        # another run wrote its row meanwhile: the next one tries again
        table.optimize.compact(partition_filters=[("job", "=", job_name)], commit_properties=about)


def runs_of(lakehouse: Lakehouse, job_name: str) -> list[dict[str, Any]]:
    """All runs of a job, oldest first; maps as dicts, instants as datetimes in UTC."""
    table = lakehouse.open(RUNS)
    if table is None:
        return []
    # not as a dataset of Arrow's, whose import takes longer than a plan; the loader lets no quote into a job's name
    query = QueryBuilder().register("runs", table).execute(f"SELECT * FROM runs WHERE job = '{job_name}'")  # noqa: S608
    return sorted(plain_rows(read_stream(query)), key=lambda row: (row["started_at"], row["run_id"]))


def last_succeeded(lakehouse: Lakehouse, job_name: str, kind: str = "replay") -> dict[str, Any] | None:
    """The newest run of that kind that succeeded, or None."""
    found = [run for run in runs_of(lakehouse, job_name) if run["status"] == SUCCEEDED and run["kind"] == kind]
    return found[-1] if found else None


def abandon_dead(lakehouse: Lakehouse, job_name: str, ledger: Sequence[Mapping[str, Any]] | None = None) -> list[str]:
    """Mark runs whose process on this machine is gone; their ids. ``ledger``: the job's rows, if they are read."""
    host = socket.gethostname()
    dead = []
    for run in runs_of(lakehouse, job_name) if ledger is None else ledger:
        owner, _, process_id = (run["process"] or "").rpartition("/")
        if run["status"] == RUNNING and owner == host and not (process_id.isdecimal() and _alive(int(process_id))):
            what = "its process is gone; run the range again, which replaces what it left"
            record(lakehouse, {**run, "status": ABANDONED, "error": what})
            dead.append(run["run_id"])
    return dead


def _literal(text: object) -> str:
    """Text in SQL: what a ledger contains is data."""
    return "'" + str(text).replace("'", "''") + "'"


def this_process() -> str:
    """``host/pid`` of this process."""
    return f"{socket.gethostname()}/{os.getpid()}"


def _alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
