"""Append files to an arrival log: every record is taken exactly, or quarantined with its place and reason.

A batch is one commit to ``arrivals/<input>`` that also names the batch (a Delta transaction id), so a batch is seen
whole or not at all, and a second time it is a no-op. What is refused is written to ``quarantine/<input>`` *before*
that, replacing whatever an earlier attempt at the same batch left there: a crash in between loses and doubles nothing,
the next attempt does both again. Records are judged against the log as it was opened; if another batch was committed
meanwhile, the commit fails and everything is judged again. Small files are put together in a commit after that one.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from pipelines.core.errors import EnvironmentUnfit, UsageError, did_you_mean
from pipelines.core.model import Input, Job
from pipelines.core.time import format_instant
from pipelines.ingest.order import ArrivalOrder
from pipelines.ingest.quarantine import Quarantine
from pipelines.ingest.readers import OPTIONAL, ORDER, Chunk, Refused, read_file
from pipelines.ingest.records import PUNCTUATION, Judge
from pipelines.ingest.sorted_runs import SortedRuns
from pipelines.ingest.tails import Tails
from pipelines.lakehouse.commits import version_of
from pipelines.lakehouse.compact import compact, file_layout
from pipelines.lakehouse.layout import arrivals_table, quarantine_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import LOG_COLUMNS, alike, arrivals_schema

_ATTEMPTS = 5
_BATCH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What became of one batch. ``refused`` are the first few of ``quarantined`` records.

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
    progress("reading what the batch is")
    batch_id = batch_id_of(part.name, paths, batch)
    lakehouse.require_writable()
    for _ in range(_ATTEMPTS):
        log = lakehouse.open(arrivals_table(part.name))
        if log is not None and log.transaction_version(_application(part.name, batch_id)) is not None:
            # who took the batch may have been killed before this
            return _compacted(
                lakehouse, IngestSummary(part.name, batch_id, tuple(map(str, paths)), already_ingested=True)
            )
        _check_columns(log, part)
        with tempfile.TemporaryFile(prefix="tailrace-ingest-") as keys, _Batch(part, batch_id, log, keys) as work:
            work.read(paths, progress)
            progress("writing")
            try:
                summary = work.commit(lakehouse, paths)
            except CommitFailedError:
                continue  # someone else appended meanwhile: judge again, against the newer log
            progress("compacting")
            return _compacted(lakehouse, summary)
    raise EnvironmentUnfit(
        f"write conflict: the log {arrivals_table(part.name)} was changed by others {_ATTEMPTS} times in a row while"
        " this batch was read",
        hint="nothing of it was appended; run the command again, which is safe",
    )


def _compacted(lakehouse: Lakehouse, summary: IngestSummary) -> IngestSummary:
    """Days in many small files are put into few; the batch is in the log whatever comes of it."""
    log = lakehouse.open(arrivals_table(summary.input))
    assert log is not None, summary.input
    done = compact(log)
    return replace(summary, compacted_days=done.days, warnings=(*summary.warnings, *done.warnings))


def batch_id_of(name: str, paths: Sequence[Path], given: str | None) -> str:
    """The batch's id, ``given`` or by its content; :class:`UsageError` if there is no file or it is no id."""
    if not paths:
        raise UsageError("no file was named", hint="name at least one")
    if given is not None and not _BATCH_ID.fullmatch(given):
        raise UsageError(f"'{given}' is not a batch id", hint="use letters, digits and . _ : -", key="--batch")
    return given or content_id(name, paths)


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


class _Reading:
    """What one reading of the files gives: typed rows in sorted runs, refused records, and counts of both."""

    def __init__(self, schema: pa.Schema, batch_id: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tailrace-ingest-")
        self.rows = SortedRuns(schema, Path(self._folder.name))
        self.quarantine = Quarantine(Path(self._folder.name), batch_id)
        self.ignored: Counter[str] = Counter()
        self.punctuations = 0

    def add(self, rows: pa.Table, chunk: Chunk, refused: Sequence[Refused]) -> None:
        """One chunk, judged."""
        self.rows.add(rows)
        self.quarantine.add(refused)
        self.ignored += chunk.ignored
        self.punctuations += pc.sum(pc.equal(rows["kind"], PUNCTUATION)).as_py() or 0

    def close(self) -> None:
        """Remove its files."""
        self.quarantine.close()
        self._folder.cleanup()


class _Batch:
    """One attempt at a batch: its records judged against the log as it was opened, and their commit."""

    def __init__(self, part: Input, batch_id: str, log: DeltaTable | None, keys: BinaryIO) -> None:
        self.part = part
        self.batch_id = batch_id
        self.log = log
        self.schema = arrivals_schema(part)
        tails = Tails(log)
        self._open = ExitStack()
        self.order = ArrivalOrder(tails.of, keys)
        self.judge = Judge(part, batch_id, self.order)

    def __enter__(self) -> _Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def read(self, paths: Sequence[Path], progress: Callable[[str], None]) -> None:
        """Judge every record; twice where some break the order, since what to keep is known at the end only."""
        self.reading = self._read(paths, progress)
        if self.order.settle():
            self.reading.close()
            self.reading = self._read(paths, progress)

    def _read(self, paths: Sequence[Path], progress: Callable[[str], None]) -> _Reading:
        reading = _Reading(self.schema, self.batch_id)
        self._open.callback(reading.close)
        for path in paths:
            progress(path.name)
            names = (*ORDER, *(column.name for column in self.part.columns))
            for chunk in read_file(path, self.schema, names, OPTIONAL):
                rows, refused = self.judge.rows(chunk)
                reading.add(rows, chunk, refused)
        return reading

    def commit(self, lakehouse: Lakehouse, paths: Sequence[Path]) -> IngestSummary:
        """Write what is refused, then the rows; the summary of both."""
        rows, quarantine = self.reading.rows, self.reading.quarantine
        quarantine.write(lakehouse, quarantine_table(self.part.name))
        self._write_arrivals(lakehouse, rows)
        return IngestSummary(
            input=self.part.name,
            batch_id=self.batch_id,
            files=tuple(map(str, paths)),
            already_ingested=False,
            events=rows.count - self.reading.punctuations,
            punctuations=self.reading.punctuations,
            quarantined=quarantine.count,
            refused=quarantine.first,
            warnings=tuple(
                f"'{name}' is not a column of input {self.part.name}; it was ignored in {count} record(s)"
                for name, count in sorted(self.reading.ignored.items())
            ),
            first_arrival_us=rows.first_us,
            last_arrival_us=rows.last_us,
            version=version_of(lakehouse, arrivals_table(self.part.name), {"batch_id": self.batch_id}),
        )

    def _write_arrivals(self, lakehouse: Lakehouse, rows: SortedRuns) -> None:
        """The commit point: rows and the batch's name together, on exactly the log that was judged against."""
        commit = CommitProperties(
            custom_metadata={"tailrace": "ingest", "batch_id": self.batch_id},
            app_transactions=[Transaction(_application(self.part.name, self.batch_id), 1)],
            max_commit_retries=0,
        )
        name, layout = arrivals_table(self.part.name), file_layout(self.schema)
        if self.log is not None:
            write_deltalake(
                self.log,
                rows.reader(),
                mode="append",
                schema_mode="merge",
                commit_properties=commit,
                writer_properties=layout,
            )
            return
        try:
            write_deltalake(
                lakehouse.uri(name),
                rows.reader(),
                mode="error",
                partition_by=["arrival_date"],
                commit_properties=commit,
                writer_properties=layout,
            )
        except DeltaError as error:
            if lakehouse.open(name) is None:
                raise
            raise CommitFailedError(str(error)) from error


def _application(input_name: str, batch_id: str) -> str:
    return f"tailrace/ingest/{input_name}/{batch_id}"


def _input(job: Job, name: str) -> Input:
    try:
        part = job.input(name)
    except KeyError:
        hint = did_you_mean(name, [part.name for part in job.inputs])
        raise UsageError(f"job {job.name} has no input '{name}'; {hint}", key="--input") from None
    if part.log != name:
        raise UsageError(f"input {name} reads the log of {part.log}", hint=f"ingest into --input {part.log}")
    return part


def _check_columns(log: DeltaTable | None, part: Input) -> None:
    """The log's payload columns must all be the input's, of the same types; new ones may be added."""
    if log is None:
        return
    wanted = {field.name: field for field in arrivals_schema(part)}
    own = {name for name, _ in LOG_COLUMNS} | {"arrival_date"}
    for column in pa.schema(log.schema().to_arrow()):
        if column.name in own:
            continue
        if column.name not in wanted:
            raise UsageError(
                f"the log arrivals/{part.name} has a column '{column.name}' that the input does not name",
                hint="name it in the job file, or use another input name",
            )
        if not alike(column.type, wanted[column.name].type):
            raise UsageError(
                f"column '{column.name}' is {column.type} in the log arrivals/{part.name},"
                f" but {wanted[column.name].type} in the job file",
                hint="give it the log's type, or use another input name",
            )
