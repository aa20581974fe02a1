"""What came into an arrival log, or went out of it, since a version: read from the log's own commits.

Rewriting files without changing rows (compaction) is no change. No Spark, and no data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from pipelines.core.model import Job
from pipelines.core.time import DAY, MILLISECOND, day_of, from_datetime, parse_instant
from pipelines.lakehouse.arrival_log import LogFile, log_files
from pipelines.lakehouse.commits import commits
from pipelines.lakehouse.compact import is_compaction
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse

_CUT_US = MILLISECOND - 1
"""Statistics contain whole milliseconds: a true maximum may lie this much above what they say."""
_LOOKED_BACK = 50
"""More compactions in a row than any ingest makes."""


@dataclass(frozen=True, slots=True)
class Change:
    """Rows of one data file that one commit added or removed: arrivals in ``[first_us, last_us]``, None: not known.

    ``what`` is a sentence about their origin.
    """

    version: int
    first_us: int | None
    last_us: int | None
    rows: int | None
    what: str
    removes: bool = False

    def touches(self, from_us: int | None, to_us: int | None) -> bool:
        """Whether an arrival in ``[from_us, to_us]`` may be among them."""
        return (from_us is None or self.last_us is None or self.last_us >= from_us) and (
            to_us is None or self.first_us is None or self.first_us <= to_us
        )


def changes_since(log: DeltaTable, version: int, since_us: int) -> list[Change]:
    """Every change of ``log`` after ``version``, oldest first.

    Where commits are gone (Delta cleans its log after a month), the files that were written after ``since_us`` stand
    for them, so that rather too much counts as changed than too little.
    """
    storage = DeltaStorageHandler.from_table(log._table)
    files = pafs.PyFileSystem(storage)
    found: list[Change] = []
    for number in range(version + 1, log.version() + 1):
        try:
            with files.open_input_stream(f"_delta_log/{number:020d}.json") as stream:
                text = stream.read().decode()
        except FileNotFoundError:
            return _written_after(log, since_us)
        found += _of_commit(number, [json.loads(line) for line in text.splitlines() if line])
    return found


def changes_since_run(lakehouse: Lakehouse, job: Job, run: Mapping[str, Any]) -> Iterator[tuple[str, Change]]:
    """Every change of the job's logs after ``run`` (a row of the ledger) read them, each with the log's table.

    A log that is another table now than the run read is one change of unknown times.
    """
    for part in job.logs:
        name = arrivals_table(part.name)
        log, version = lakehouse.open(name), run["versions_read"].get(name)
        if log is None:
            continue
        if version is None or version > log.version():
            yield name, Change(log.version(), None, None, None, f"read from another table than {name} is now")
            continue
        yield from ((name, one) for one in changes_since(log, version, from_datetime(run["started_at"])))


def last_change(log: DeltaTable) -> int:
    """The newest version of ``log`` that changed rows: compactions after it are passed over."""
    for version, about in islice(commits(log), _LOOKED_BACK):
        if not is_compaction(about):
            return version
    return log.version()


def _of_commit(version: int, actions: list[dict[str, Any]]) -> list[Change]:
    about: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    batch = about.get("batch_id")
    whose = f"batch {batch}" if batch else f"a {str(about.get('operation', 'commit')).lower()}"
    changed = []
    for action in actions:
        for kind, verb in (("add", "added by"), ("remove", "removed by")):
            file = action.get(kind)
            if file is not None and file.get("dataChange", True):
                what = f"{verb} {whose} in version {version}"
                changed.append(_of_file(version, file, what, removes=kind == "remove"))
    return changed


def _of_file(version: int, file: dict[str, Any], what: str, *, removes: bool) -> Change:
    stats = json.loads(file.get("stats") or "{}")
    first, last = (stats.get(name, {}).get("arrival_time") for name in ("minValues", "maxValues"))
    first_us = None if first is None else parse_instant(first)
    last_us = None if last is None else parse_instant(last) + _CUT_US
    day = (file.get("partitionValues") or {}).get("arrival_date")
    if day is not None:
        # a removal need not repeat the statistics; the day it lay in is known all the same
        day_us = day_of(date.fromisoformat(day)) * DAY
        first_us = day_us if first_us is None else first_us
        last_us = day_us + DAY - 1 if last_us is None else last_us
    return Change(version, first_us, last_us, stats.get("numRecords"), what, removes)


def _written_after(log: DeltaTable, since_us: int) -> list[Change]:
    written = pa.table(log.get_add_actions(flatten=True))
    times_ms = dict(zip(written["path"].to_pylist(), written["modification_time"].to_pylist(), strict=True))
    return [
        Change(log.version(), *_times(file), file.rows, "written after the replay began")
        for file in log_files(log)
        if times_ms[file.path] * MILLISECOND > since_us
    ]


def _times(file: LogFile) -> tuple[int | None, int | None]:
    if file.arrival_day is None:
        return file.first_us, file.last_us
    day_us = file.arrival_day * DAY
    first_us = day_us if file.first_us is None else file.first_us
    return first_us, day_us + DAY - 1 if file.last_us is None else file.last_us
