"""Put a preview in place: the rows of its side tables replace the output range, and nothing is computed.

Each table is replaced in one commit, which names the preview. A process killed in between leaves a preview that can be
promoted again: tables that have its rows already are passed over.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import Job
from pipelines.lakehouse import runs
from pipelines.lakehouse.commits import commits, described, metadata_of
from pipelines.lakehouse.compact import is_compaction
from pipelines.lakehouse.layout import Layout, arrivals_table, references_table, result_tables
from pipelines.lakehouse.log_changes import LogChanges, changes_since_run, logs_of
from pipelines.lakehouse.previews import Preview, drop_preview, find_preview
from pipelines.lakehouse.root import Lakehouse
from pipelines.replay.builder import LogReads
from pipelines.replay.size import MOST_ROWS, is_plain
from pipelines.replay.write import replace_range
from pipelines.runtime.telemetry import traced

AGAIN = "make the preview again, and look at what changes"
_KEPT = (
    "output_from", "output_to", "read_from", "read_to", "read_rule", "end_of_log", "settled", "job_fingerprint",
    "job_parts", "counts_by_verdict", "counts_by_reason", "output_fingerprint", "fingerprints",
    "reference_fingerprints", "files_planned", "bytes_planned", "files_read", "bytes_read", "scans", "warnings",
    "writer", "engine",
)  # fmt: skip
"""What the row of a promotion has from the row of the preview."""


@traced("tailrace.promote")
def promote(
    job: Job,
    name: str,
    lakehouse: str | Path | Lakehouse,
    *,
    reason: str | None = None,
    spark: SparkSession | None = None,
) -> dict[str, Any]:
    """Put the preview ``name`` in place and remove it; the run's row of the ledger, in which it is a replay.

    Raises :class:`UsageError`, and changes nothing, if the job, a log in the read range, reference data or a table
    that the preview would replace has changed since; :class:`EnvironmentUnfit` if another run commits meanwhile.
    """
    place = Lakehouse.at(lakehouse)
    place.require_writable()
    runs.abandon_dead(place, job)
    preview = find_preview(place, job.name, name)
    changes = [*_changes_of_inputs(place, job, preview), *_changes_of_results(place, job, preview)]
    if changes:
        raise UsageError(f"since preview '{name}' was made {'; '.join(dict.fromkeys(changes))}", hint=AGAIN)
    row = _ledger_row(job, preview, reason)
    runs.record(place, row)
    try:
        for table, layout in result_tables(job):
            row["versions_written"][table] = _put(place, preview, table, layout, row["run_id"], spark)
            row["rows_written"][table] = preview.run["rows_written"][preview.side_table(table)]
        row |= {"status": runs.SUCCEEDED, "finished_at": datetime.now(UTC)}
        runs.record(place, row)
    except BaseException as error:
        runs.record_failure(place, job, row, error)
        raise
    drop_preview(place, preview)
    return row


def _ledger_row(job: Job, preview: Preview, reason: str | None) -> dict[str, Any]:
    inputs = {arrivals_table(part.log) for part in job.inputs} | {references_table(one.name) for one in job.references}
    read = {name: version for name, version in preview.run["versions_read"].items() if name in inputs}
    return {
        **{name: preview.run[name] for name in _KEPT},
        "run_id": uuid.uuid4().hex,
        "job": job.name,
        "kind": "replay",
        "reason": reason or f"promoted preview {preview.name}, run {preview.run_id}",
        "status": runs.RUNNING,
        "versions_read": read,
        "versions_written": {},
        "rows_written": {},
        "started_at": datetime.now(UTC),
        "process": runs.this_process(),
    }


def _changes_of_inputs(lakehouse: Lakehouse, job: Job, preview: Preview) -> Iterator[str]:
    """What a replay would read otherwise now, in sentences."""
    if preview.run["job_fingerprint"] != job.fingerprint:
        yield "the job file changed"
        return
    matter, read_then = LogReads(job, lakehouse).that_matter(preview.output), preview.run["versions_read"]
    logs = {name: LogChanges(log) for name, log in logs_of(lakehouse, job).items()}
    for table, change in changes_since_run(logs, preview.run):
        if change.touches(matter.from_us, matter.to_us):
            yield f"arrivals of {table} were {change.what}"
    for reference in job.references:
        table = references_table(reference.name)
        data = lakehouse.open(table)
        if table in read_then and data is not None and data.version() != read_then[table]:
            yield f"{table} went from version {read_then[table]} to version {data.version()}"


def _changes_of_results(lakehouse: Lakehouse, job: Job, preview: Preview) -> Iterator[str]:
    for table, _ in result_tables(job):
        yield from _others(lakehouse.open(table), table, preview)


def _others(table: DeltaTable | None, name: str, preview: Preview) -> Iterator[str]:
    """The commits of others to a table since the preview was compared with it, in sentences."""
    then = preview.run["versions_read"].get(name)
    if table is None:
        if then is not None:
            yield f"{name} was removed"
        return
    if then is not None and table.version() < then:
        yield f"{name} was replaced by another table"
        return
    yield from (
        f"{name} was changed in {described(version, about)}"
        for version, about in _since(table, then)
        if metadata_of(about).get("preview") != preview.run_id
    )


def _since(table: DeltaTable, then: int | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The commits after version ``then`` that changed rows, newest first."""
    for version, about in commits(table):
        if then is not None and version <= then:
            return
        if not is_compaction(about):
            yield version, about


def _put(
    lakehouse: Lakehouse, preview: Preview, name: str, layout: Layout, run_id: str, spark: SparkSession | None
) -> int:
    """Replace the output range of one table by the rows of its side table; the version that has them."""

    def unchanged(table: DeltaTable | None) -> None:
        for change in _others(table, name, preview):
            raise EnvironmentUnfit(
                f"write conflict: while preview '{preview.name}' was promoted, {change}", hint=f"then {AGAIN}"
            )

    table = lakehouse.open(name)
    unchanged(table)
    if table is not None and (done := next(_since(table, preview.run["versions_read"].get(name)), None)) is not None:
        # only this preview has changed the table: a promotion of it was killed before its end
        return done[0]
    rows = _rows(lakehouse, preview, name, spark, by_driver=is_plain(table))
    about = {"tailrace": "replay", "run_id": run_id, "preview": preview.run_id}
    return replace_range(rows, lakehouse, name, layout, preview.output, about, unchanged)


def _rows(
    lakehouse: Lakehouse, preview: Preview, name: str, spark: SparkSession | None, *, by_driver: bool
) -> pa.Table | DataFrame:
    """The rows of a side table: on the driver where they are few, else as a frame."""
    side = preview.side_table(name)
    version = preview.run["versions_written"][side]
    if by_driver and preview.run["rows_written"][side] <= MOST_ROWS:
        table = lakehouse.open(side, version)
        assert table is not None, f"{side}: the preview is there"
        return table.to_pyarrow_table()
    from pipelines.runtime.session import session

    spark = spark or session()
    return spark.read.format("delta").option("versionAsOf", version).load(lakehouse.uri(side))
