"""Previews: replays whose results are in side tables, ``previews/<job>/<name>/<table>``, until they are promoted.

The run ledger lists them: a preview is there while its run is the newest of its name and its side tables are those that
the run wrote.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.fs as pafs
from deltalake.fs import DeltaStorageHandler

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import OutputRange
from pipelines.core.time import format_instant, from_datetime
from pipelines.lakehouse.owned_ranges import output_of
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import SUCCEEDED, runs_of

PREVIEW = "preview"
"""The kind of such a run in the ledger, and the name of a preview that has no other."""
DAYS_VARIABLE = "TAILRACE_PREVIEW_DAYS"
DEFAULT_DAYS = 7
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_SIDE_TABLE = re.compile(rf"previews(/{_NAME.pattern}){{3,}}")


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview that is there; ``run`` is its row in the ledger."""

    run: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What it is called."""
        return _name_of(self.run)

    @property
    def run_id(self) -> str:
        """The id of the run that made it."""
        return str(self.run["run_id"])

    @property
    def output(self) -> OutputRange:
        """The output range that it would replace."""
        return output_of(self.run)

    @property
    def expires_at(self) -> datetime:
        """When the next preview of the job removes it."""
        finished_at: datetime = self.run["finished_at"]
        return finished_at + timedelta(days=days_kept())

    def side_table(self, table: str) -> str:
        """The name of the side table of ``table``."""
        return f"{side_folder(str(self.run['job']), self.name)}/{table}"

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        created, expires = (from_datetime(at) for at in (self.run["finished_at"], self.expires_at))
        ends = (self.output.from_us, self.output.to_us)
        from_, to = (None if end is None else format_instant(end) for end in ends)
        return {
            "name": self.name,
            "run_id": self.run_id,
            "from": from_,
            "to": to,
            "created_at": format_instant(created),
            "expires_at": format_instant(expires),
            "rows": dict(self.run["rows_written"]),
            "output_fingerprint": self.run["output_fingerprint"],
            "reason": self.run["reason"],
        }


def side_folder(job_name: str, name: str) -> str:
    """``previews/<job>/<name>``; :class:`UsageError` if a preview cannot be called so."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a preview cannot be called '{name}'", hint="use lower case letters, digits and _, beginning with a letter"
        )
    return f"previews/{job_name}/{name}"


def days_kept() -> int:
    """How many days a preview is kept: ``TAILRACE_PREVIEW_DAYS``; :class:`UsageError` if that is no number of days."""
    text = os.environ.get(DAYS_VARIABLE) or str(DEFAULT_DAYS)
    if not text.isdecimal():
        raise UsageError(f"'{text}' is not a number of days", key=DAYS_VARIABLE)
    return int(text)


def previews_of(lakehouse: Lakehouse, job_name: str) -> list[Preview]:
    """The previews of a job, oldest first."""
    runs = [run for run in runs_of(lakehouse, job_name) if run["kind"] == PREVIEW and run["status"] == SUCCEEDED]
    newest = {_name_of(run): Preview(run) for run in runs if _names_side_tables(run)}
    found = [one for one in newest.values() if _is_there(lakehouse, one)]
    return sorted(found, key=lambda one: one.run["started_at"])


def find_preview(lakehouse: Lakehouse, job_name: str, name: str) -> Preview:
    """The preview of that name; :class:`UsageError` if there is none."""
    found = {one.name: one for one in previews_of(lakehouse, job_name)}
    if name not in found:
        hint = did_you_mean(name, found) if found else "make it with 'tailrace replay JOB --preview NAME'"
        raise UsageError(f"job {job_name} has no preview '{name}'", hint=hint)
    return found[name]


def drop_preview(lakehouse: Lakehouse, preview: Preview) -> None:
    """Remove the side tables of a preview."""
    for table in preview.run["versions_written"]:
        remove_table(lakehouse, table)


def drop_expired(lakehouse: Lakehouse, job_name: str) -> list[str]:
    """Remove the previews of a job that are older than :func:`days_kept`; their names."""
    expired = [one for one in previews_of(lakehouse, job_name) if one.expires_at <= datetime.now(UTC)]
    for one in expired:
        drop_preview(lakehouse, one)
    return [one.name for one in expired]


def _names_side_tables(run: Mapping[str, Any]) -> bool:
    """Whether a row of the ledger names the side tables of one preview: what it names is opened, and removed."""
    tables = list(dict(run["versions_written"] or {}))
    return (
        bool(tables)
        and all(_SIDE_TABLE.fullmatch(name) for name in tables)
        and ({tuple(name.split("/")[1:3]) for name in tables} == {(run["job"], _name_of(run))})
    )


def _name_of(run: Mapping[str, Any]) -> str:
    return str(next(iter(dict(run["versions_written"])))).split("/")[2]


def _is_there(lakehouse: Lakehouse, preview: Preview) -> bool:
    """Whether each side table is at the version that the preview's run wrote."""
    written = preview.run["versions_written"].items()
    tables = [(lakehouse.open(name), version) for name, version in written]
    return all(table is not None and table.version() == version for table, version in tables)


def remove_table(lakehouse: Lakehouse, name: str) -> None:
    """Remove a table: first its commits, newest first, so that until the last one is gone it can be opened."""
    table = lakehouse.open(name)
    if table is None:
        return
    files = pafs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
    found = files.get_file_info(pafs.FileSelector("", recursive=True))
    paths = sorted((one.path for one in found if one.type == pafs.FileType.File), reverse=True)
    for path in sorted(paths, key=lambda path: not path.startswith("_delta_log/")):
        files.delete_file(path)
    if lakehouse.is_local:
        shutil.rmtree(lakehouse.uri(name).removeprefix("file://"), ignore_errors=True)
