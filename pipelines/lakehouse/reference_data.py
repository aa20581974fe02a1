"""What is in ``references/<name>``: its rows and its snapshots, without Spark."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.core.errors import UsageError
from pipelines.core.model import Reference
from pipelines.lakehouse.layout import references_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import alike, references_schema


@dataclass(frozen=True, slots=True)
class ReferenceTable:
    """One version of ``references/<name>``. ``snapshots``: rows by the instant from which each holds, rising."""

    table: DeltaTable
    rows: int
    snapshots: dict[int, int]


def open_reference(lakehouse: Lakehouse, reference: Reference, version: int | None = None) -> ReferenceTable:
    """The table at ``version`` (default: newest). Raises :class:`UsageError` if it was never loaded, lacks a column of
    the job file, or has no such version."""
    name = references_table(reference.name)
    table = lakehouse.open(name, version)
    if table is None:
        raise UsageError(
            f"the reference data {reference.name} was never loaded: there is no table {name} in {lakehouse.root}",
            hint=f"load it with 'tailrace ingest JOB --reference {reference.name} FILE...'",
        )
    check_columns(table, reference)
    times = table.to_pyarrow_dataset().to_table(columns=["effective_from"])["effective_from"].cast(pa.int64())
    counts = {one["values"]: one["counts"] for one in pc.value_counts(times).to_pylist()}
    known = sorted(us for us in counts if us is not None)
    return ReferenceTable(table, len(times), {us: counts[us] for us in known})


def static_rows(lakehouse: Lakehouse, reference: Reference, version: int | None = None) -> pa.Table | None:
    """The rows of a static set at ``version`` (default: newest), in the order of their file; None if they cannot be
    read any more."""
    try:
        rows = open_reference(lakehouse, reference, version).table.to_pyarrow_dataset().to_table()
    except (UsageError, FileNotFoundError):
        return None
    return rows.sort_by("position").select([column.name for column in reference.columns])


def check_columns(table: DeltaTable, reference: Reference) -> None:
    """:class:`UsageError` unless the table has the columns of the job file, of the same types."""
    name = references_table(reference.name)
    there = {field.name: field.type for field in pa.schema(table.schema().to_arrow())}
    for field in references_schema(reference):
        if field.name not in there:
            raise UsageError(
                f"the table {name} lacks the column '{field.name}' of reference data {reference.name}",
                hint="correct the columns in the job file, or load the data under another name",
            )
        if not alike(there[field.name], field.type):
            raise UsageError(
                f"column '{field.name}' is {there[field.name]} in {name}, but {field.type} in the job file",
                hint="give it the table's type, or load the data under another name",
            )
