"""The stream's own log: announcements of what the arrival logs hold, written before the stream reads it.

Table ``_control/<job>``, append-only: one row is one announcement of one *generation*. A generation is one reading of
the logs from their first commit on; it has its own checkpoint. The next one begins where results of the one before may
be wrong: the log has a partition that had not been known, or the state was saved in another format.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from pipelines.core.errors import UsageError
from pipelines.core.model import Job
from pipelines.lakehouse import object_stores
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.saved import ENCODING
from pipelines.live.state.messages import first_punctuation_us

STATE_FORMAT = ENCODING.schema
"""The format of the state in the checkpoints: another one is never read."""
_COLUMNS = pa.schema([("generation", pa.int32()), ("number", pa.int64()), ("body", pa.string())])


@dataclass(frozen=True)
class Announcement:
    """``versions`` of the arrival logs up to which everything is announced, their ``partitions`` and number of
    ``rows``; ``commits`` are those since the announcement before, each an input and its files with their numbers of
    rows. ``stream_id`` names the generation in the tables' transactions."""

    generation: int
    number: int
    fingerprint: str
    stream_id: str
    versions: Mapping[str, int]
    partitions: Mapping[str, list[int]]
    rows: int
    commits: list[dict[str, Any]] = field(default_factory=list)
    end_of_log: bool = False
    state_format: str | int = 0


def control_uri(lakehouse: Lakehouse, job: Job) -> str:
    """The table's address."""
    return lakehouse.uri(_control_table(job))


def checkpoint_uri(lakehouse: Lakehouse, job: Job, generation: int) -> str:
    """The folder in which Spark keeps what the stream has read, and its state."""
    return f"{lakehouse.root}/{_checkpoint(job, generation)}"


def remove_checkpoint(lakehouse: Lakehouse, job: Job, generation: int) -> None:
    """Remove that folder, where it is there."""
    if lakehouse.is_local:
        shutil.rmtree(lakehouse.folder / _checkpoint(job, generation), ignore_errors=True)
    else:
        object_stores.remove_folder(lakehouse.root, _checkpoint(job, generation))


def _checkpoint(job: Job, generation: int) -> str:
    return f"_checkpoints/{job.name}/{generation}"


def _control_table(job: Job) -> str:
    return f"_control/{job.name}"


def latest(lakehouse: Lakehouse, job: Job) -> Announcement | None:
    """The last announcement, or None for a stream that never ran."""
    table = lakehouse.open(_control_table(job))
    if table is None:
        return None
    rows = table.to_pyarrow_table()
    best = max(rows.to_pylist(), key=lambda row: (row["generation"], row["number"]), default=None)
    if best is None:
        return None
    # another version of Tailrace may have written other keys as well
    body = json.loads(best["body"])
    return Announcement(**{one.name: body[one.name] for one in fields(Announcement) if one.name in body})


def announce(lakehouse: Lakehouse, job: Job, *, end_of_log: bool, from_start: bool = False) -> Announcement:
    """Write what the logs have now. A new generation begins if ``from_start``, if the state has another format, or if
    rows have come from a partition that was not known while earlier rows were decided.

    Raises :class:`UsageError` if an input has no log yet, or the stream was begun under another meaning of the job.
    """
    before = latest(lakehouse, job)
    if before is not None and before.fingerprint != job.fingerprint and not from_start:
        raise UsageError(
            f"the stream of {job.name} was begun under another version of the job file",
            hint="run 'tailrace stream' with --restart to start again at the first commit of the log",
        )
    tables = {part.name: _table(lakehouse, part.log) for part in job.inputs}
    if before is not None and not from_start and before.state_format == STATE_FORMAT:
        following = _following(before, tables, end_of_log)
        known = {part.name: {*before.partitions[part.name], *range(part.partitions or 0)} for part in job.inputs}
        if not before.rows or all(set(following.partitions[name]) <= numbers for name, numbers in known.items()):
            return _written(lakehouse, job, following)
    nothing = Announcement(
        generation=0 if before is None else before.generation + 1,
        number=-1,
        fingerprint=job.fingerprint,
        stream_id=uuid.uuid4().hex,
        versions=dict.fromkeys(tables, -1),
        partitions={name: [] for name in tables},
        rows=0,
        state_format=STATE_FORMAT,
    )
    return _written(lakehouse, job, _following(nothing, tables, end_of_log))


def _following(before: Announcement, tables: Mapping[str, DeltaTable], end_of_log: bool) -> Announcement:
    """The announcement after ``before`` in its generation."""
    partitions: dict[str, list[int]] = {}
    commits: list[dict[str, Any]] = []
    for name, table in tables.items():
        log, known = PyFileSystem(DeltaStorageHandler.from_table(table._table)), set(before.partitions[name])
        for version in range(before.versions[name] + 1, table.version() + 1):
            files = [_file(log, added, known) for added in _added(log, name, version)]
            rows = {file.name: file.rows for file in files if file.rows}
            first = min((file.punctuation_us for file in files if file.punctuation_us is not None), default=None)
            known = known.union(*(file.partitions for file in files))
            if rows:
                commits.append({"input": name, "files": rows, "punctuation_us": first})
        partitions[name] = sorted(known)
    return replace(
        before,
        number=before.number + 1,
        versions={name: table.version() for name, table in tables.items()},
        partitions=partitions,
        rows=before.rows + sum(sum(commit["files"].values()) for commit in commits),
        commits=commits,
        end_of_log=end_of_log,
    )


def _written(lakehouse: Lakehouse, job: Job, made: Announcement) -> Announcement:
    row = {"generation": [made.generation], "number": [made.number], "body": [json.dumps(asdict(made))]}
    lakehouse.create(_control_table(job), pa.table(row, schema=_COLUMNS), mode="append")
    return made


def _table(lakehouse: Lakehouse, name: str) -> DeltaTable:
    table = lakehouse.open(arrivals_table(name))
    if table is None:
        raise UsageError(
            f"the input {name} has no arrival log yet: there is no table {arrivals_table(name)} in {lakehouse.root}",
            hint=f"load it with 'tailrace ingest JOB --input {name} FILE...'; an empty file will do",
        )
    return table


def _added(log: PyFileSystem, name: str, version: int) -> list[dict[str, Any]]:
    """The files that a commit added with new rows, as the Delta log describes them."""
    try:
        with log.open_input_stream(f"_delta_log/{version:020}.json") as stream:
            actions = [json.loads(line) for line in stream.read().splitlines() if line.strip()]
    except FileNotFoundError:
        raise UsageError(
            f"{arrivals_table(name)} no longer holds its commit {version}: the stream cannot read it from the start",
            hint="replay the job instead; keep commits longer with delta.logRetentionDuration",
        ) from None
    return [action["add"] for action in actions if action.get("add", {}).get("dataChange")]


class _File(NamedTuple):
    """A file's name and number of rows, at least those input partitions that are not known yet, and the earliest
    arrival (microseconds) of a punctuation for all partitions."""

    name: str
    rows: int
    partitions: set[int]
    punctuation_us: int | None


def _file(log: PyFileSystem, added: Mapping[str, Any], known: set[int]) -> _File:
    """From the file's statistics; the file is read only if they do not say enough."""
    path, stats = unquote(added["path"]), json.loads(added.get("stats") or "{}")
    name, rows = path.rpartition("/")[2], stats.get("numRecords")
    least, most = (stats.get(which, {}).get("input_partition") for which in ("minValues", "maxValues"))
    if rows is not None and None not in (least, most) and stats.get("nullCount", {}).get("input_partition") == 0:
        partitions = set(range(int(least), int(most) + 1))
        if len(partitions) == 1 or partitions <= known:
            return _File(name, rows, partitions, None)
    read = ds.dataset(path, filesystem=log, format="parquet").to_table(columns=["input_partition", "arrival_time"])
    partitions = set(read["input_partition"].drop_null().unique().to_pylist())
    return _File(name, len(read), partitions, first_punctuation_us(read, "arrival_time", "input_partition"))
