"""The stream's own log: announcements of what the arrival logs hold, written before the stream is to read it.

Table ``_control/<job>``, append-only: one row is one announcement of one *generation*. A generation is one reading of
the logs from their first commit on; it has a checkpoint of its own. A later one begins where the results of the one
before cannot stand: a partition turned out to exist that had not been known.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
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
    """``versions`` of the arrival logs up to which everything is announced, their ``partitions`` and number of
    ``rows``; ``portions`` are the files of the commits since the announcement before, a commit at a time, each with its
    number of rows. ``stream_id`` names the generation in the tables' transactions."""

    generation: int
    number: int
    fingerprint: str
    stream_id: str
    versions: Mapping[str, int]
    partitions: Mapping[str, list[int]]
    rows: int
    portions: list[dict[str, Any]] = field(default_factory=list)
    end_of_log: bool = False


def control_uri(lakehouse: Lakehouse, job: Job) -> str:
    """Where the table lies."""
    return f"{lakehouse.root}/_control/{job.name}"


def checkpoint_uri(lakehouse: Lakehouse, job: Job, generation: int) -> str:
    """Where Spark keeps what the stream has read, and its state."""
    return f"{lakehouse.root}/_checkpoints/{job.name}/{generation}"


def latest(lakehouse: Lakehouse, job: Job) -> Announcement | None:
    """The last announcement, or None for a stream that never ran."""
    uri = control_uri(lakehouse, job)
    if not DeltaTable.is_deltatable(uri):
        return None
    rows = DeltaTable(uri).to_pyarrow_table()
    best = max(rows.to_pylist(), key=lambda row: (row["generation"], row["number"]), default=None)
    return None if best is None else Announcement(**json.loads(best["body"]))


def announce(lakehouse: Lakehouse, job: Job, *, end_of_log: bool, anew: bool = False) -> Announcement:
    """Write down what the logs hold now. A new generation begins if ``anew``, or if a partition that nobody had
    declared was heard for the first time after other rows had been decided without it.

    Raises :class:`UsageError` if an input has no log yet, or the stream was begun under another meaning of the job.
    """
    before = latest(lakehouse, job)
    if before is not None and before.fingerprint != job.fingerprint and not anew:
        raise UsageError(
            f"the stream of {job.name} was begun under another version of the job file",
            hint="run 'tailrace stream' with --anew to begin again at the start of the log",
        )
    tables = {part.name: _table(lakehouse, part.name) for part in job.inputs}
    if before is not None and not anew:
        made = _following(lakehouse, before, tables, end_of_log)
        known = {part.name: {*before.partitions[part.name], *range(part.partitions or 0)} for part in job.inputs}
        if not before.rows or all(set(made.partitions[name]) <= numbers for name, numbers in known.items()):
            return _written(lakehouse, job, made)
    nothing = Announcement(
        generation=0 if before is None else before.generation + 1,
        number=-1,
        fingerprint=job.fingerprint,
        stream_id=uuid.uuid4().hex,
        versions=dict.fromkeys(tables, -1),
        partitions={name: [] for name in tables},
        rows=0,
    )
    return _written(lakehouse, job, _following(lakehouse, nothing, tables, end_of_log))


def _following(
    lakehouse: Lakehouse, before: Announcement, tables: Mapping[str, DeltaTable], end_of_log: bool
) -> Announcement:
    """The announcement after ``before`` in its generation."""
    partitions: dict[str, list[int]] = {}
    portions: list[dict[str, Any]] = []
    rows = before.rows
    for name, table in tables.items():
        known = set(before.partitions[name])
        for commit in _commits(lakehouse.uri(arrivals_table(name)), before.versions[name] + 1, table.version()):
            portions.append({"input": name, "files": {one.name: one.rows for one in commit}})
            rows += sum(one.rows for one in commit)
            for one in commit:
                known |= one.partitions(known)
        partitions[name] = sorted(known)
    return replace(
        before,
        number=before.number + 1,
        versions={name: table.version() for name, table in tables.items()},
        partitions=partitions,
        rows=rows,
        portions=portions,
        end_of_log=end_of_log,
    )


def _written(lakehouse: Lakehouse, job: Job, made: Announcement) -> Announcement:
    row = {"generation": [made.generation], "number": [made.number], "body": [json.dumps(asdict(made))]}
    write_deltalake(control_uri(lakehouse, job), pa.table(row, schema=_COLUMNS), mode="append")
    return made


def _table(lakehouse: Lakehouse, name: str) -> DeltaTable:
    table = lakehouse.open(arrivals_table(name))
    if table is None:
        raise UsageError(
            f"the input {name} has no arrival log yet: there is no table {arrivals_table(name)} in {lakehouse.root}",
            hint=f"load it with 'tailrace ingest JOB --input {name} FILE...', an empty file if it never spoke",
        )
    return table


@dataclass(frozen=True)
class _File:
    """One data file that a commit brought."""

    name: str
    rows: int
    stats: Mapping[str, Any]
    path: str
    files: PyFileSystem

    def partitions(self, known: set[int]) -> set[int]:
        """The input partitions of its rows; it is read only if its statistics allow others than ``known``."""
        least, most = (self.stats.get(which, {}).get("input_partition") for which in ("minValues", "maxValues"))
        if least is not None and most is not None:
            if least == most:
                return {int(least)}
            if most - least < len(known) and set(range(least, most + 1)) <= known:
                return set()
        column = _dataset(self.files, self.path).to_table(columns=["input_partition"])["input_partition"]
        return {number for number in pc.unique(column).to_pylist() if number is not None}


def _commits(uri: str, first: int, last: int) -> list[list[_File]]:
    """For each commit from version ``first`` to ``last`` that brought rows: its files."""
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
        added = [_file(files, action["add"]) for action in actions if action.get("add", {}).get("dataChange")]
        commit = [one for one in added if one.rows]
        if commit:
            found.append(commit)
    return found


def _file(files: PyFileSystem, added: Mapping[str, Any]) -> _File:
    path, stats = unquote(added["path"]), json.loads(added.get("stats") or "{}")
    rows = stats["numRecords"] if "numRecords" in stats else _dataset(files, path).count_rows()
    return _File(path.rpartition("/")[2], int(rows), stats, path, files)


def _dataset(files: PyFileSystem, path: str) -> ds.Dataset:
    return ds.dataset(path, filesystem=files, format="parquet")
