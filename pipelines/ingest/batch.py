"""Append files to an arrival log: every record is taken exactly, or quarantined with its place and reason.

A batch is one commit to ``arrivals/<input>`` that also names the batch (a Delta transaction id), so a batch is seen
whole or not at all, and a second time it is a no-op. What is refused is written to ``quarantine/<input>`` *before*
that, replacing whatever an earlier attempt at the same batch left there: a crash in between loses and doubles nothing,
the next attempt does both again. Records are judged against the log as it was opened; if another batch was committed
meanwhile, the commit fails and everything is judged anew. Small files are put together in a commit after that one.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from pipelines.core.errors import EnvironmentUnfit, UsageError, did_you_mean
from pipelines.core.model import Input, Job
from pipelines.core.time import format_instant
from pipelines.ingest.order import ArrivalOrder
from pipelines.ingest.readers import Refused, read_file
from pipelines.ingest.records import PUNCTUATION, Judge
from pipelines.ingest.tails import Tails
from pipelines.lakehouse.compact import compact, file_layout
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import LOG_COLUMNS, QUARANTINE, alike, arrivals_schema

RUN_ROWS = 1_000_000
"""Rows sorted in memory at once; a larger batch is laid out in several sorted runs."""
BATCH_BYTES = 512 * 2**20
"""So much of one day is written in order without a break."""
_ATTEMPTS = 5
_BATCH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What became of one batch. ``refused`` holds the first few of ``quarantined`` records.

    ``version`` is the log's when the batch was in it; ``compacted_days`` were then put into fewer files.
    """

    input: str
    batch_id: str
    files: tuple[str, ...]
    already_ingested: bool
    events: int = 0
    punctuations: int = 0
    quarantined: int = 0
    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()
    first_arrival_us: int | None = None
    last_arrival_us: int | None = None
    version: int | None = None
    compacted_days: int = 0

    @property
    def appended(self) -> int:
        """Rows added to the log."""
        return self.events + self.punctuations

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data, instants as ISO 8601."""
        ends = {"first_arrival": self.first_arrival_us, "last_arrival": self.last_arrival_us}
        return {
            "input": self.input,
            "batch_id": self.batch_id,
            "files": list(self.files),
            "already_ingested": self.already_ingested,
            "appended": self.appended,
            "events": self.events,
            "punctuations": self.punctuations,
            "quarantined": self.quarantined,
            "refused": [{"source": one.source, "position": one.position, "reason": one.reason} for one in self.refused],
            "warnings": list(self.warnings),
            **{name: None if us is None else format_instant(us) for name, us in ends.items()},
            "version": self.version,
            "compacted_days": self.compacted_days,
        }


def ingest(
    job: Job,
    input: str,
    files: Sequence[str | Path],
    lakehouse: str | Path | Lakehouse,
    batch: str | None = None,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> IngestSummary:
    """Append ``files``, in the order given, to ``arrivals/<input>`` as one batch (default id: hash of the content).

    Bad records do not raise: they are in ``quarantine/<input>`` and in the summary. Raises :class:`UsageError` (no such
    input or file, a log of other columns), :class:`DataRefused` (a damaged file, or one that lacks a column: nothing
    is written) and :class:`EnvironmentUnfit` (the lakehouse cannot be written).
    """
    lakehouse = Lakehouse.at(lakehouse)
    part = _input(job, input)
    paths = [Path(file) for file in files]
    if not paths:
        raise UsageError("no file was named", hint="name at least one")
    if batch is not None and not _BATCH_ID.fullmatch(batch):
        raise UsageError(f"'{batch}' is not a batch id", hint="use letters, digits and . _ : -", key="--batch")
    progress("reading what the batch is")
    batch_id = batch or content_id(part.name, paths)
    lakehouse.require_writable()
    for _ in range(_ATTEMPTS):
        log = lakehouse.open(f"arrivals/{part.name}")
        if log is not None and log.transaction_version(_application(part.name, batch_id)) is not None:
            # who took the batch may have been killed before this
            return _compacted(
                lakehouse, IngestSummary(part.name, batch_id, tuple(map(str, paths)), already_ingested=True)
            )
        _check_columns(log, part)
        with _Batch(part, batch_id, log) as work:
            for path in paths:
                progress(path.name)
                work.read(path)
            progress("writing")
            try:
                summary = work.commit(lakehouse, paths)
            except CommitFailedError:
                continue  # someone else appended meanwhile: judge anew against the newer log
            progress("compacting")
            return _compacted(lakehouse, summary)
    raise EnvironmentUnfit(
        f"the log arrivals/{part.name} was changed by others {_ATTEMPTS} times while this batch was read",
        hint="ingest into one input from one place at a time",
    )


def _compacted(lakehouse: Lakehouse, summary: IngestSummary) -> IngestSummary:
    """Days in many small files are put into few; the batch is in the log whatever comes of it."""
    log = lakehouse.open(f"arrivals/{summary.input}")
    assert log is not None, summary.input
    done = compact(log)
    return replace(summary, compacted_days=done.days, warnings=(*summary.warnings, *done.warnings))


def content_id(input_name: str, paths: Sequence[Path]) -> str:
    """A batch's default id: the same content is the same batch, whatever the files are called."""
    whole = hashlib.sha256(input_name.encode())
    for path in paths:
        try:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise UsageError(f"the file cannot be read: {error.strerror}", file=str(path)) from None
    return whole.hexdigest()[:32]


class _Batch:
    """One attempt at a batch: judged rows in sorted runs, refused records, and their commit."""

    def __init__(self, part: Input, batch_id: str, log: DeltaTable | None) -> None:
        self.part = part
        self.batch_id = batch_id
        self.log = log
        self.schema = arrivals_schema(part)
        tails = Tails(log)
        self.judge = Judge(part, batch_id, ArrivalOrder(tails.of))
        self.rows = SortedRuns(self.schema)
        self.refused: list[Refused] = []
        self.ignored: Counter[str] = Counter()
        self.punctuations = 0

    def __enter__(self) -> _Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.rows.close()

    def read(self, path: Path) -> None:
        for chunk in read_file(path, [column.name for column in self.part.columns]):
            rows, refused = self.judge.rows(chunk)
            self.rows.add(rows)
            self.refused += refused
            self.ignored += chunk.ignored
            self.punctuations += rows["kind"].to_pylist().count(PUNCTUATION)

    def commit(self, lakehouse: Lakehouse, paths: Sequence[Path]) -> IngestSummary:
        self._write_quarantine(lakehouse)
        self._write_arrivals(lakehouse)
        log = lakehouse.open(f"arrivals/{self.part.name}")
        return IngestSummary(
            input=self.part.name,
            batch_id=self.batch_id,
            files=tuple(map(str, paths)),
            already_ingested=False,
            events=self.rows.count - self.punctuations,
            punctuations=self.punctuations,
            quarantined=len(self.refused),
            refused=tuple(self.refused[:_SHOWN]),
            warnings=tuple(
                f"'{name}' is not a column of input {self.part.name}; it was ignored in {count} record(s)"
                for name, count in sorted(self.ignored.items())
            ),
            first_arrival_us=self.rows.first_us,
            last_arrival_us=self.rows.last_us,
            version=log.version() if log is not None else None,
        )

    def _write_quarantine(self, lakehouse: Lakehouse) -> None:
        name = f"quarantine/{self.part.name}"
        table = lakehouse.open(name)
        rows = pa.Table.from_pylist(
            [
                {
                    "raw": one.raw,
                    "reason": one.reason,
                    "source": one.source,
                    "position": one.position,
                    "batch_id": self.batch_id,
                }
                for one in self.refused
            ],
            schema=QUARANTINE,
        )
        mine = f"batch_id = '{self.batch_id}'"
        if table is None:
            if self.refused:
                write_deltalake(lakehouse.uri(name), rows, mode="append", partition_by=["batch_id"])
        elif self.refused:
            write_deltalake(table, rows, mode="overwrite", predicate=mine)
        elif any(part.get("batch_id") == self.batch_id for part in table.partitions()):
            table.delete(mine)

    def _write_arrivals(self, lakehouse: Lakehouse) -> None:
        """The commit point: rows and the batch's name together, on exactly the log that was judged against."""
        commit = CommitProperties(
            custom_metadata={"tailrace": "ingest", "batch_id": self.batch_id},
            app_transactions=[Transaction(_application(self.part.name, self.batch_id), 1)],
            max_commit_retries=0,
        )
        if self.log is not None:
            write_deltalake(
                self.log,
                self.rows.reader(),
                mode="append",
                schema_mode="merge",
                commit_properties=commit,
                writer_properties=file_layout(self.rows.schema),
            )
            return
        name = f"arrivals/{self.part.name}"
        try:
            write_deltalake(
                lakehouse.uri(name),
                self.rows.reader(),
                mode="error",
                partition_by=["arrival_date"],
                commit_properties=commit,
                writer_properties=file_layout(self.rows.schema),
            )
        except DeltaError as error:
            if lakehouse.open(name) is None:
                raise
            raise CommitFailedError(str(error)) from error


@dataclass
class SortedRuns:
    """Rows in runs of at most about :data:`RUN_ROWS`, each sorted by arrival; all but the last lie on disk.

    Sorted runs give row groups narrow ranges of arrival time, which is what lets a replay skip them. What they hold of
    a day is handed over as one batch, up to :data:`BATCH_BYTES`: the writer's threads overtake each other between
    batches, but not inside one, and a file in order need not be sorted to be replayed.
    """

    schema: pa.Schema
    count: int = 0
    first_us: int | None = None
    last_us: int | None = None
    _held: list[pa.Table] = field(default_factory=list)
    _held_rows: int = 0
    _spilled: list[Path] = field(default_factory=list)
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def add(self, rows: pa.Table) -> None:
        if not len(rows):
            return
        times = rows["arrival_time"].cast(pa.int64()).to_numpy()
        first_us, last_us = int(times.min()), int(times.max())
        self.first_us = first_us if self.first_us is None else min(self.first_us, first_us)
        self.last_us = last_us if self.last_us is None else max(self.last_us, last_us)
        self._held.append(rows)
        self._held_rows += len(rows)
        self.count += len(rows)
        if self._held_rows >= RUN_ROWS:
            self._spill()

    def reader(self) -> pa.RecordBatchReader:
        """All rows, run after run; may be asked for once more after a failed attempt."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        held: list[pa.Table] = []
        for rows in self._days():
            if held and (_day(held[0]) != _day(rows) or sum(one.nbytes for one in held) >= BATCH_BYTES):
                yield from _together(held)
                held = []
            held.append(rows)
        yield from _together(held)

    def _days(self) -> Iterator[pa.Table]:
        """The runs, each cut where a day ends."""
        for run in self._runs():
            days = np.asarray(run["arrival_date"].cast(pa.int32()))
            begin = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(run)]
            yield from (run.slice(start, end - start) for start, end in pairwise(begin) if start < end)

    def _runs(self) -> Iterator[pa.Table]:
        for path in self._spilled:
            with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
                yield stream.read_all()
        yield self._sorted()

    def _sorted(self) -> pa.Table:
        if not self._held:
            return self.schema.empty_table()
        keys = [(name, "ascending") for name in ("arrival_time", "input_partition", "sequence")]
        return pa.concat_tables(self._held).combine_chunks().sort_by(keys)

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tailrace-ingest-")
        path = Path(self._folder.name) / f"{len(self._spilled)}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, self.schema) as stream:
            stream.write_table(self._sorted())
        self._spilled.append(path)
        self._held, self._held_rows = [], 0


def _day(rows: pa.Table) -> date:
    day = rows["arrival_date"][0].as_py()
    assert isinstance(day, date), day
    return day


def _together(tables: Sequence[pa.Table]) -> list[pa.RecordBatch]:
    return pa.concat_tables(tables).combine_chunks().to_batches() if tables else []


def _application(input_name: str, batch_id: str) -> str:
    return f"tailrace/ingest/{input_name}/{batch_id}"


def _input(job: Job, name: str) -> Input:
    try:
        return job.input(name)
    except KeyError:
        hint = did_you_mean(name, [part.name for part in job.inputs])
        raise UsageError(f"job {job.name} has no input '{name}'; {hint}", key="--input") from None


def _check_columns(log: DeltaTable | None, part: Input) -> None:
    """The log's payload columns must all be the input's, of the same types; new ones may be added."""
    if log is None:
        return
    wanted = {field.name: field for field in arrivals_schema(part)}
    own = {name for name, _ in LOG_COLUMNS} | {"arrival_date"}
    for held in pa.schema(log.schema().to_arrow()):
        if held.name in own:
            continue
        if held.name not in wanted:
            raise UsageError(
                f"the log arrivals/{part.name} has a column '{held.name}' that the input does not name",
                hint="name it in the job file, or use another input name",
            )
        if not alike(held.type, wanted[held.name].type):
            raise UsageError(
                f"column '{held.name}' is {held.type} in the log arrivals/{part.name},"
                f" but {wanted[held.name].type} in the job file",
                hint="give it the log's type, or use another input name",
            )
