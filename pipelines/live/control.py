"""The stream's own log: announcements of what the arrival logs hold, written before the stream is to read it.

Table ``_control/<job>``, append-only: one row is one announcement of one *generation*. A generation is one reading of
the logs from their first commit on; it has a checkpoint of its own. A later one begins where the results of the one
before cannot stand: a partition turned out to exist that had not been known.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, PyFileSystem

from pipelines.core.errors import UsageError
from pipelines.core.model import Job
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse

_COLUMNS = pa.schema([("generation", pa.int32()), ("number", pa.int64()), ("body", pa.string())])


@dataclass(frozen=True)
class Announcement:
    """``versions`` of the arrival logs up to which everything is announced, their ``partitions``; ``portions`` are the
    files of the commits since the announcement before, a commit at a time."""

    generation: int
    number: int
    fingerprint: str
    stream_id: str
    versions: Mapping[str, int]
    partitions: Mapping[str, list[int]]
    portions: list[dict[str, Any]] = field(default_factory=list)
    end_of_log: bool = False


def control_uri(house: Lakehouse, job: Job) -> str:
    """Where the table lies."""
    return f"{house.root}/_control/{job.name}"


def checkpoint_uri(house: Lakehouse, job: Job, generation: int) -> str:
    """Where Spark keeps what the stream has read, and its state."""
    return f"{house.root}/_checkpoints/{job.name}/{generation}"


def latest(house: Lakehouse, job: Job) -> Announcement | None:
    """The last announcement, or None for a stream that never ran."""
    uri = control_uri(house, job)
    if not DeltaTable.is_deltatable(uri):
        return None
    rows = DeltaTable(uri).to_pyarrow_table()
    best = max(rows.to_pylist(), key=lambda row: (row["generation"], row["number"]), default=None)
    return None if best is None else Announcement(**json.loads(best["body"]))


def announce(house: Lakehouse, job: Job, *, end_of_log: bool, anew: bool = False) -> Announcement:
    """Write down what the logs hold now; begins a new generation if ``anew``, or if the known partitions changed.

    Raises :class:`UsageError` if an input has no log yet, or the stream was begun under another meaning of the job.
    """
    before = latest(house, job)
    if before is not None and before.fingerprint != job.fingerprint and not anew:
        raise UsageError(
            f"the stream of {job.name} was begun under another version of the job file",
            hint="run 'tailrace stream' with --anew to begin again at the start of the log",
        )
    tables = {part.name: _table(house, part.name) for part in job.inputs}
    versions = {name: table.version() for name, table in tables.items()}
    if before is not None and not anew:
        grown = _partitions_since(tables, before)
        if any(set(grown[part.name]) - set(before.partitions[part.name]) for part in job.inputs):
            anew = _matters(job, before, grown)
        partitions = {name: sorted({*numbers, *before.partitions[name]}) for name, numbers in grown.items()}
    if before is None or anew:
        partitions = {name: _partitions(table) for name, table in tables.items()}
        generation = 0 if before is None else before.generation + 1
        number, since, stream_id = 0, dict.fromkeys(versions, -1), uuid.uuid4().hex
    else:
        generation, number, stream_id = before.generation, before.number + 1, before.stream_id
        since = dict(before.versions)
    portions = [
        {"input": name, "files": files}
        for name, table in tables.items()
        for files in _commits(house.uri(arrivals_table(name)), since[name] + 1, versions[name])
    ]
    made = Announcement(
        generation, number, job.fingerprint, stream_id, versions, partitions, portions, end_of_log=end_of_log
    )
    row = {"generation": [generation], "number": [number], "body": [json.dumps(made.__dict__)]}
    write_deltalake(control_uri(house, job), pa.table(row, schema=_COLUMNS), mode="append")
    return made


def _matters(job: Job, before: Announcement, grown: Mapping[str, list[int]]) -> bool:
    """Whether partitions that appeared can change what was decided without them: not those the job had declared, and
    not while nothing had been read."""
    if not any(version >= 0 and before.partitions[name] for name, version in before.versions.items()):
        return False
    return any(
        set(grown[part.name]) - set(before.partitions[part.name]) - set(range(part.partitions or 0))
        for part in job.inputs
    )


def _table(house: Lakehouse, name: str) -> DeltaTable:
    table = house.open(arrivals_table(name))
    if table is None:
        raise UsageError(
            f"the input {name} has no arrival log yet: there is no table {arrivals_table(name)} in {house.root}",
            hint=f"load it with 'tailrace ingest JOB --input {name} FILE...', an empty file if it never spoke",
        )
    return table


def _partitions(table: DeltaTable) -> list[int]:
    column = table.to_pyarrow_dataset().to_table(columns=["input_partition"])["input_partition"]
    return sorted(number for number in pc.unique(column).to_pylist() if number is not None)


def _partitions_since(tables: Mapping[str, DeltaTable], before: Announcement) -> dict[str, list[int]]:
    return {
        name: [] if table.version() == before.versions[name] else _partitions(table) for name, table in tables.items()
    }


def _commits(uri: str, first: int, last: int) -> list[dict[str, int]]:
    """For each commit from version ``first`` to ``last`` that brought rows: its files with their numbers of rows."""
    if first > last:
        return []
    files = PyFileSystem(DeltaStorageHandler(uri, None))
    present = {info.base_name for info in files.get_file_info(FileSelector("_delta_log"))}
    found = []
    for version in range(first, last + 1):
        name = f"{version:020}.json"
        if name not in present:
            raise UsageError(
                f"the log {uri} no longer holds its commit {version}: the stream cannot read it from the start",
                hint="replay the job instead; keep commits longer with delta.logRetentionDuration",
            )
        with files.open_input_stream(f"_delta_log/{name}") as stream:
            actions = [json.loads(line) for line in bytes(stream.read()).decode().splitlines() if line.strip()]
        added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
        counted = {unquote(one["path"]).rpartition("/")[2]: _rows(files, one) for one in added}
        counted = {file: rows for file, rows in counted.items() if rows}
        if counted:
            found.append(counted)
    return found


def _rows(files: PyFileSystem, added: Mapping[str, Any]) -> int:
    stats = json.loads(added.get("stats") or "{}")
    if "numRecords" in stats:
        return int(stats["numRecords"])
    return int(ds.dataset(unquote(added["path"]), filesystem=files, format="parquet").count_rows())
