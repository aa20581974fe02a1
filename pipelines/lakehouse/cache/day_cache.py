"""Tables of what was found of the days of a log, kept until the day's files are others.

Each row names what was asked for (``setting``), its day of arrival and a digest of the day's data files. Such a table
saves work and nothing else: deleting it costs a pass, never a number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake

from pipelines.core.time import date_of, day_of
from pipelines.lakehouse.arrival_log import LogFile
from pipelines.lakehouse.commits import committed
from pipelines.lakehouse.root import Lakehouse

_ATTEMPTS = 5


def files_by_day(files: Sequence[LogFile]) -> dict[int, list[LogFile]]:
    """The files of a log by their day of arrival."""
    found: dict[int, list[LogFile]] = {}
    for file in files:
        assert file.arrival_day is not None, "an arrival log is partitioned by arrival_date"
        found.setdefault(file.arrival_day, []).append(file)
    return found


def files_digest(files: Sequence[LogFile], before: str = "") -> str:
    """A digest that names these files; ``before`` is the digest of earlier files that the cached rows depend on too."""
    lines = sorted(f"{file.path} {file.size_bytes}" for file in files)
    return hashlib.sha256("\n".join([before, *lines]).encode()).hexdigest()[:32]


def kept(lakehouse: Lakehouse, name: str, schema: pa.Schema, setting: str) -> dict[tuple[int, str], pa.Table]:
    """The rows that a table holds of a setting, by arrival day and digest of its files."""
    table = lakehouse.open(name)
    if table is None:
        return {}
    rows = table.to_pyarrow_dataset().to_table(filter=pc.field("setting") == setting).select(schema.names)
    # the same files give the same rows: what two runs both kept is there twice, and means it once
    rows = (
        rows.cast(schema)
        .group_by(schema.names)
        .aggregate([])
        .sort_by([("arrival_date", "ascending"), ("files", "ascending")])
    )
    days, digests = rows["arrival_date"].to_pylist(), rows["files"].to_pylist()
    found: dict[tuple[int, str], pa.Table] = {}
    begin = 0
    for end in range(1, len(days) + 1):
        if end == len(days) or (days[end], digests[end]) != (days[begin], digests[begin]):
            found[day_of(days[begin]), digests[begin]] = rows.slice(begin, end - begin)
            begin = end
    return found


def identified(rows: pa.Table, schema: pa.Schema, setting: str, day: int, digest: str) -> pa.Table:
    """Rows of one day with the columns that say what they are of."""
    many = len(rows)
    own = {
        "setting": pa.repeat(pa.scalar(setting), many),
        "arrival_date": pa.repeat(pa.scalar(date_of(day), pa.date32()), many),
        "files": pa.repeat(pa.scalar(digest), many),
    }
    columns = [own[name] if name in own else rows[name] for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def keep(lakehouse: Lakehouse, name: str, rows: pa.Table) -> None:
    """Replace what the table holds of the rows' one setting, in one commit.

    Where other runs write theirs each time that this one tries, it is left to them.
    Raises :class:`pipelines.core.errors.EnvironmentUnfit` if the table cannot be written at all.
    """
    (setting,) = rows["setting"].unique().to_pylist() or [None]
    if setting is None:
        return
    # no retry by itself: two first commits of a setting touch no common file, and both would stay
    metadata = {"tailrace": name.partition("/")[0], "setting": setting}
    about = CommitProperties(custom_metadata=metadata, max_commit_retries=0)

    def write(table: DeltaTable | None) -> None:
        if table is None:
            lakehouse.create(name, rows, mode="error", partition_by=["setting"], commit_properties=about)
        else:
            only = f"setting = '{setting}'"
            write_deltalake(table, rows, mode="overwrite", predicate=only, commit_properties=about)

    committed(lakehouse, name, write, _ATTEMPTS)
