"""Append files to an arrival log: every record is taken exactly, or quarantined with its place and reason.

A batch is one commit to ``arrivals/<input>`` that also names the batch (a Delta transaction id), so a batch is seen
whole or not at all, and a second time it is a no-op. What is refused is written to ``quarantine/<input>`` *before*
that, replacing whatever an earlier attempt at the same batch left there: a crash in between loses and doubles nothing,
the next attempt does both again. Records are judged against the log as it was opened; if another batch was committed
meanwhile, the commit fails and everything is judged again. Small files are put together in a commit after that one.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from pipelines.core.errors import EnvironmentUnfit, UsageError, did_you_mean
from pipelines.core.model import Input, Job
from pipelines.core.time import format_instant
from pipelines.ingest.clean_lines import demanding
from pipelines.ingest.order import ArrivalOrder
from pipelines.ingest.quarantine import Quarantine
from pipelines.ingest.readers import OPTIONAL, ORDER, Chunk, Refused, read_file
from pipelines.ingest.records import PUNCTUATION, Judge, JudgedRows
from pipelines.ingest.repeats import Repeats
from pipelines.ingest.sequential_order import SequentialOrder
from pipelines.ingest.sorted_runs import SortedRuns
from pipelines.ingest.tails import Tails
from pipelines.lakehouse.append import append
from pipelines.lakehouse.commits import version_of
from pipelines.lakehouse.compact import compact
from pipelines.lakehouse.layout import arrivals_table, quarantine_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import LOG_COLUMNS, SOURCE_TIME, alike, arrivals_schema
from pipelines.runtime.telemetry import traced

COUNTS = ("appended", "quarantined", "duplicates", "held_at_last")
"""What the metadata of a batch's commit, and the ledger, count."""
_ATTEMPTS = 5
_BATCH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What became of one batch. ``refused`` are the first few of ``quarantined`` records.

    ``version`` is the log's when the batch was in it; ``compacted_days`` were then put into fewer files.
    ``duplicates`` were in the log already and were dropped; ``held_at_last`` were taken at the arrival time before
    theirs; ``notes`` say what bounds exactness.
    """

    input: str
    batch_id: str
    files: tuple[str, ...] = ()
    already_ingested: bool = False
    events: int = 0
    punctuations: int = 0
    quarantined: int = 0
    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()
    first_arrival_us: int | None = None
    last_arrival_us: int | None = None
    version: int | None = None
    compacted_days: int = 0
    duplicates: int = 0
    held_at_last: int = 0
    notes: tuple[str, ...] = ()

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
            "duplicates": self.duplicates,
            "held_at_last": self.held_at_last,
            "refused": [{"source": one.source, "position": one.position, "reason": one.reason} for one in self.refused],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            **{name: None if us is None else format_instant(us) for name, us in ends.items()},
            "version": self.version,
            "compacted_days": self.compacted_days,
        }


@traced("tailrace.ingest")
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
    part = input_of(job, input)
    paths = [Path(file) for file in files]
    progress("reading what the batch is")
    batch_id = batch_id_of(part.name, paths, batch)
    lakehouse.require_writable()
    names = (*ORDER, *(column.name for column in part.columns))

    def chunks() -> Iterator[Chunk]:
        for path in paths:
            progress(path.name)
            yield from read_file(path, names, OPTIONAL, demanding(arrivals_schema(part), part))

    def attempt(log: DeltaTable | None) -> IngestSummary:
        mine, about = _application(part.name, batch_id), IngestSummary(part.name, batch_id, tuple(map(str, paths)))
        if log is not None and log.transaction_version(mine) is not None:
            # who took the batch may have been killed before this
            return replace(about, already_ingested=True)
        with tempfile.TemporaryFile(prefix="tailrace-ingest-") as keys, Batch(part, batch_id, log, keys) as work:
            work.read(chunks)
            progress("writing")
            return work.commit(lakehouse, about, {}, Transaction(mine, 1))

    return attempted(lakehouse, part, attempt, progress)


def attempted(
    lakehouse: Lakehouse,
    part: Input,
    attempt: Callable[[DeltaTable | None], IngestSummary],
    progress: Callable[[str], None],
) -> IngestSummary:
    """``attempt`` with the log at its newest version until nobody else appended meanwhile; then the log compacted."""
    for _ in range(_ATTEMPTS):
        log = lakehouse.open(arrivals_table(part.name))
        _check_columns(log, part)
        try:
            summary = attempt(log)
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
    if log is None:
        return summary
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
    """What one reading of a batch gives: typed rows in sorted runs, refused and repeated records, and counts."""

    def __init__(self, part: Input, batch_id: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tailrace-ingest-")
        self.rows = SortedRuns(arrivals_schema(part), Path(self._folder.name))
        self.quarantine = Quarantine(Path(self._folder.name), batch_id)
        self.repeats = Repeats([column.name for column in part.columns])
        self.ignored: Counter[str] = Counter()
        self.punctuations = 0
        self.held = 0

    def add(self, chunk: Chunk, judged: JudgedRows) -> None:
        """One chunk, judged."""
        self.rows.add(judged.rows)
        self.quarantine.add(judged.refused)
        self.repeats.add(judged)
        self.ignored += chunk.ignored
        self.punctuations += pc.sum(pc.equal(judged.rows["kind"], PUNCTUATION)).as_py() or 0
        self.held += judged.held

    def close(self) -> None:
        """Remove its files."""
        self.quarantine.close()
        self._folder.cleanup()


class Batch:
    """One attempt at a batch: its records judged against the log as it was opened, and their commit.

    ``keys`` is an empty file for :class:`ArrivalOrder`, which looks at the whole batch; None: each record is judged
    by those before it alone, as are those of an input with ``hold_at_last``.
    """

    def __init__(self, part: Input, batch_id: str, log: DeltaTable | None, keys: BinaryIO | None) -> None:
        self.part = part
        self.batch_id = batch_id
        self.log = log
        self.schema = arrivals_schema(part)
        tails, hold = Tails(log), part.arrival_regression == "hold_at_last"
        self._open = ExitStack()
        self.order = (
            SequentialOrder(tails.of, hold_at_last=hold) if keys is None or hold else ArrivalOrder(tails.of, keys)
        )
        self.judge = Judge(part, batch_id, self.order)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def read(self, chunks: Callable[[], Iterator[Chunk]]) -> None:
        """Judge every record; twice where some break the order, since what to keep is known at the end only."""
        self.reading = self._read(chunks())
        if self.order.settle():
            self.reading.close()
            self.reading = self._read(chunks())

    def _read(self, chunks: Iterator[Chunk]) -> _Reading:
        reading = _Reading(self.part, self.batch_id)
        self._open.callback(reading.close)
        for chunk in chunks:
            reading.add(chunk, self.judge.rows(chunk))
        return reading

    def commit(
        self, lakehouse: Lakehouse, about: IngestSummary, metadata: dict[str, str], transaction: Transaction
    ) -> IngestSummary:
        """Write what is refused, then the rows with ``metadata``; ``about`` completed with what became of them."""
        rows, quarantine = self.reading.rows, self.reading.quarantine
        duplicates, refused = self.reading.repeats.settle(self.log, rows.runs())
        quarantine.add(refused)
        quarantine.write(lakehouse, quarantine_table(self.part.name))
        done = replace(
            about,
            events=rows.count - self.reading.punctuations,
            punctuations=self.reading.punctuations,
            quarantined=quarantine.count,
            duplicates=duplicates,
            held_at_last=self.reading.held,
            refused=quarantine.first,
            warnings=tuple(
                f"'{name}' is not a column of input {self.part.name}; it was ignored in {count} record(s)"
                for name, count in sorted(self.reading.ignored.items())
            ),
            first_arrival_us=rows.first_us,
            last_arrival_us=rows.last_us,
        )
        counts = {name: str(getattr(done, name)) for name in COUNTS}
        more = {**metadata, **counts, "warnings": json.dumps([*done.warnings, *done.notes])}
        self._write_arrivals(lakehouse, rows, more, transaction)
        version = version_of(lakehouse, arrivals_table(self.part.name), {"batch_id": self.batch_id})
        return replace(done, version=version)

    def _write_arrivals(
        self, lakehouse: Lakehouse, rows: SortedRuns, metadata: dict[str, str], transaction: Transaction
    ) -> None:
        """The commit point: rows and the batch's name together, on exactly the log that was judged against."""
        commit = CommitProperties(
            custom_metadata={"tailrace": "ingest", "batch_id": self.batch_id, **metadata},
            app_transactions=[transaction],
            max_commit_retries=0,
        )
        append(lakehouse, arrivals_table(self.part.name), self.log, self.schema, rows.days(), commit)


def _application(input_name: str, batch_id: str) -> str:
    return f"tailrace/ingest/{input_name}/{batch_id}"


def input_of(job: Job, name: str) -> Input:
    """The input of that name that has a log of its own; :class:`UsageError` if there is none."""
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
    own = {name for name, _ in (*LOG_COLUMNS, SOURCE_TIME)} | {"arrival_date"}
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
