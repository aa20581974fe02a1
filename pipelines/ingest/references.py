"""Load reference data: a static set is replaced, snapshots are appended (Q83, Q84); bad records are quarantined.

A batch is one commit to ``references/<name>``. What is refused is written to ``quarantine/<name>`` before that, as of
an arrival log. A snapshot comes with one batch: rows that would change one that is there are refused.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from pipelines.core.errors import EnvironmentUnfit, UsageError, did_you_mean
from pipelines.core.model import Job, Reference
from pipelines.core.time import format_instant
from pipelines.ingest.batch import batch_id_of
from pipelines.ingest.quarantine import Quarantine
from pipelines.ingest.readers import Chunk, Refused, read_file
from pipelines.ingest.values import convert, convert_arrow
from pipelines.lakehouse.commits import version_of
from pipelines.lakehouse.layout import quarantine_table, references_table
from pipelines.lakehouse.reference_data import check_columns
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import references_schema

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ReferenceSummary:
    """What became of one batch of reference data. ``refused`` are the first few of ``quarantined`` records.

    ``snapshots_us`` are the times from which its snapshots hold, none for a static set; ``version`` is the table's.
    """

    reference: str
    batch_id: str
    files: tuple[str, ...]
    already_ingested: bool
    rows: int = 0
    snapshots_us: tuple[int, ...] = ()
    quarantined: int = 0
    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()
    version: int | None = None

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data, instants as ISO 8601."""
        return {
            "reference": self.reference,
            "batch_id": self.batch_id,
            "files": list(self.files),
            "already_ingested": self.already_ingested,
            "rows": self.rows,
            "snapshots": [format_instant(us) for us in self.snapshots_us],
            "quarantined": self.quarantined,
            "refused": [{"source": one.source, "position": one.position, "reason": one.reason} for one in self.refused],
            "warnings": list(self.warnings),
            "version": self.version,
        }


def ingest_reference(
    job: Job,
    name: str,
    files: Sequence[str | Path],
    lakehouse: str | Path | Lakehouse,
    batch: str | None = None,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> ReferenceSummary:
    """Load ``files``, in the order given, into ``references/<name>`` as one batch (default id: hash of the content).

    Bad records do not raise: they are in ``quarantine/<name>`` and in the summary. Raises :class:`UsageError` (no such
    reference data or file, a table of other columns), :class:`DataRefused` (a damaged file, or one that lacks a column:
    nothing is written) and :class:`EnvironmentUnfit` (the lakehouse cannot be written).
    """
    lakehouse = Lakehouse.at(lakehouse)
    reference = _reference(job, name)
    paths = [Path(file) for file in files]
    progress("reading what the batch is")
    batch_id = batch_id_of(name, paths, batch)
    lakehouse.require_writable()
    for _ in range(_ATTEMPTS):
        table = lakehouse.open(references_table(name))
        if table is not None and _is_there(table, reference, batch_id):
            return ReferenceSummary(name, batch_id, tuple(map(str, paths)), already_ingested=True)
        if table is not None and reference.effective is not None:
            check_columns(table, reference)
        with tempfile.TemporaryDirectory(prefix="tailrace-ingest-") as folder:
            quarantine = Quarantine(Path(folder), batch_id)
            ignored: Counter[str] = Counter()
            rows = _read(reference, paths, batch_id, _taken(table, reference), quarantine, ignored, progress)
            quarantine.write(lakehouse, quarantine_table(name))
        progress("writing")
        try:
            _write(rows, table, lakehouse, reference, batch_id)
        except CommitFailedError:
            continue  # someone else loaded meanwhile: judge again, against the newer table
        return ReferenceSummary(
            reference=name,
            batch_id=batch_id,
            files=tuple(map(str, paths)),
            already_ingested=False,
            rows=rows.num_rows,
            snapshots_us=tuple(sorted(_snapshots(rows))),
            quarantined=quarantine.count,
            refused=quarantine.first,
            warnings=tuple(
                f"'{column}' is not a column of reference data {name}; it was ignored in {count} record(s)"
                for column, count in sorted(ignored.items())
            ),
            version=version_of(lakehouse, references_table(name), {"batch_id": batch_id}),
        )
    raise EnvironmentUnfit(
        f"write conflict: the table {references_table(name)} was changed by others {_ATTEMPTS} times in a row while"
        " this batch was read",
        hint="nothing of it was written; run the command again, which is safe",
    )


def _reference(job: Job, name: str) -> Reference:
    try:
        return job.reference(name)
    except KeyError:
        hint = did_you_mean(name, [one.name for one in job.references])
        raise UsageError(f"job {job.name} has no reference data '{name}'; {hint}", key="--reference") from None


def _is_there(table: DeltaTable, reference: Reference, batch_id: str) -> bool:
    """Whether the batch is in the table: of a static set, whether it is the one that is there now."""
    if reference.effective is not None:
        return table.transaction_version(_application(reference.name, batch_id)) is not None
    return bool(_column(table, "batch_id").unique().to_pylist() == [batch_id])


def _taken(table: DeltaTable | None, reference: Reference) -> frozenset[int]:
    """The snapshots that are there already."""
    if table is None or reference.effective is None:
        return frozenset()
    return frozenset(_column(table, "effective_from").cast(pa.int64()).unique().to_pylist())


def _column(table: DeltaTable, name: str) -> pa.ChunkedArray:
    return table.to_pyarrow_dataset().to_table(columns=[name])[name]


def _read(
    reference: Reference,
    paths: Sequence[Path],
    batch_id: str,
    taken: frozenset[int],
    quarantine: Quarantine,
    ignored: Counter[str],
    progress: Callable[[str], None],
) -> pa.Table:
    """The good records as rows of the table; the others go to ``quarantine``."""
    schema, parts, before = references_schema(reference), [], 0
    for path in paths:
        progress(path.name)
        for chunk in read_file(path, [column.name for column in reference.columns], types=schema):
            columns, reasons = _typed(reference, chunk, schema)
            reasons |= dict(_refusals(reference, columns, taken, reasons))
            count = len(chunk.positions)
            columns["batch_id"] = pa.repeat(pa.scalar(batch_id), count)
            columns["position"] = pa.array(range(before + 1, before + count + 1), pa.int64())
            before += count
            rows = pa.table([columns[name] for name in schema.names], schema=schema)
            parts.append(rows.filter(pa.array([index not in reasons for index in range(count)], pa.bool_())))
            refused = [
                Refused(chunk.raw(index), reason, chunk.source, chunk.positions[index])
                for index, reason in reasons.items()
            ]
            quarantine.add(sorted([*chunk.refused, *refused], key=lambda one: one.position))
            ignored += chunk.ignored
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _typed(reference: Reference, chunk: Chunk, schema: pa.Schema) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """The data's own columns and ``effective_from``; a value that does not fit is null and has its reason."""
    columns: dict[str, pa.Array] = {}
    reasons: dict[int, str] = {}
    count = len(chunk.positions)
    for column in reference.columns:
        values: Any = chunk.columns.get(column.name)
        if values is None:
            columns[column.name] = pa.nulls(count, schema.field(column.name).type)
            continue
        turn = convert_arrow if isinstance(values, pa.Array) else convert
        columns[column.name], misfits = turn(values, schema.field(column.name).type)
        for index, reason in misfits.items():
            reasons.setdefault(index, f"{column.name}: {reason}")
    effective = pa.nulls(count, schema.field("effective_from").type)
    columns["effective_from"] = effective if reference.effective is None else columns[reference.effective]
    return columns, reasons


def _refusals(
    reference: Reference, columns: dict[str, pa.Array], taken: frozenset[int], reasons: dict[int, str]
) -> Iterator[tuple[int, str]]:
    """Records that are in no snapshot, or in one that is there already, with the reason."""
    if reference.effective is None:
        return
    for index, instant_us in enumerate(columns["effective_from"].cast(pa.int64()).to_pylist()):
        if index in reasons:
            continue
        if instant_us is None:
            yield index, f"{reference.effective} is missing"
        elif instant_us in taken:
            yield index, f"the snapshot of {format_instant(instant_us)} is there already, from another batch"


def _snapshots(rows: pa.Table) -> list[int]:
    return [int(us) for us in pc.unique(rows["effective_from"].cast(pa.int64())).to_pylist() if us is not None]


def _write(rows: pa.Table, table: DeltaTable | None, lakehouse: Lakehouse, reference: Reference, batch: str) -> None:
    """One commit, on exactly the table that was judged against."""
    commit = CommitProperties(
        custom_metadata={"tailrace": "ingest", "batch_id": batch},
        app_transactions=[Transaction(_application(reference.name, batch), 1)],
        max_commit_retries=0,
    )
    name = references_table(reference.name)
    if table is not None and reference.effective is None:
        write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", commit_properties=commit)
    elif table is not None:
        write_deltalake(table, rows, mode="append", schema_mode="merge", commit_properties=commit)
    else:
        try:
            lakehouse.create(name, rows, mode="error", commit_properties=commit)
        except DeltaError as error:
            if lakehouse.open(name) is None:
                raise
            raise CommitFailedError(str(error)) from error


def _application(name: str, batch_id: str) -> str:
    return f"tailrace/reference/{name}/{batch_id}"
