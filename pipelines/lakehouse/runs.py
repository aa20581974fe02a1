"""The run ledger: one row a plan executed, written before the work begins and replaced when it ends.

A run that was killed stays ``running``; the next run of the same job on the same machine sees that its process is gone
and marks it ``abandoned``. The tables that a run committed are in ``versions_written``, also where it did not come to
its end: each commit's metadata names the run.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from pipelines.core.errors import TailraceError
from pipelines.core.model import Job
from pipelines.lakehouse.arrival_log import data_files
from pipelines.lakehouse.arrow import plain_rows, read_stream
from pipelines.lakehouse.commits import commit, committed_by
from pipelines.lakehouse.compact import COMPACTION
from pipelines.lakehouse.layout import output_tables, reconciliations_table, result_tables
from pipelines.lakehouse.root import RUNS, Lakehouse
from pipelines.lakehouse.schema import RUNS as COLUMNS
from pipelines.runtime import run_log, telemetry

RUNNING, SUCCEEDED, FAILED, ABANDONED = "running", "succeeded", "failed", "abandoned"
_ATTEMPTS = 10
_LOGGED = ("kind", "reason", "error", "output_from", "output_to", "started_at", "finished_at", "rows_written", "cost")
"""Columns that a line of the log has, too."""
_MOST_FILES = 64
_UNRECORDED: set[str] = set()
"""Runs of this process that have ended and are still running by the ledger."""


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
    if row["status"] != RUNNING:
        telemetry.count_run(row)


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


def abandon_dead(lakehouse: Lakehouse, job: Job, ledger: Sequence[Mapping[str, Any]] | None = None) -> list[str]:
    """Mark runs whose process on this machine is gone, with what they have committed; their ids. ``ledger``: the job's
    rows, if they are read."""
    host = socket.gethostname()
    dead = []
    for run in runs_of(lakehouse, job.name) if ledger is None else ledger:
        owner, _, process_id = (run["process"] or "").rpartition("/")
        if run["status"] != RUNNING or owner != host:
            continue
        ended = run["run_id"] in _UNRECORDED
        if ended or not (process_id.isdecimal() and _alive(int(process_id))):
            why = "its end could not be recorded" if ended else "its process is gone"
            what = f"{why}; run the range again, which replaces what it left"
            record(lakehouse, {**_unfinished(lakehouse, job, run, what), "status": ABANDONED})
            dead.append(run["run_id"])
    return dead


def record_failure(lakehouse: Lakehouse, job: Job, row: Mapping[str, Any], error: BaseException) -> None:
    """Record that a run failed, with what it wrote."""
    first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    what = "; ".join([first_line, *getattr(error, "__notes__", ())])
    with noted(str(row["run_id"]), error):
        failed = _unfinished(lakehouse, job, row, what)
        record(lakehouse, {**failed, "status": FAILED, "finished_at": datetime.now(UTC)})


@contextlib.contextmanager
def noted(run_id: str, error: BaseException) -> Iterator[None]:
    """A block that records the end of a run. Where the ledger cannot be written either, a note of ``error`` says so."""
    try:
        yield
    except (TailraceError, DeltaError, OSError) as unrecorded:
        line = (str(unrecorded).splitlines() or [type(unrecorded).__name__])[0]
        _UNRECORDED.add(run_id)
        error.add_note(f"the run ledger could not be written either and still has the run as running: {line}")


def _unfinished(lakehouse: Lakehouse, job: Job, run: Mapping[str, Any], error: str) -> dict[str, Any]:
    """The row of a run that did not come to its end: ``error``, and the tables that have its rows all the same."""
    tables = [name for name, _ in result_tables(job)] + [reconciliations_table(job, one) for one in output_tables(job)]
    written = dict(run.get("versions_written") or {})
    written |= committed_by(lakehouse, tables, run["run_id"], run["started_at"])
    left = ", ".join(f"{name} (version {version})" for name, version in written.items())
    return {**run, "error": f"{error}; it has written {left}" if left else error, "versions_written": written}


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
