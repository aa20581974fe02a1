"""Reconcile one range: compare in Spark, find the causes, write ``reconciliations/<job>`` and a row of the ledger."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import to_datetime
from pipelines.lakehouse import runs
from pipelines.lakehouse.fence import Fence
from pipelines.lakehouse.layout import (
    WINDOWS,
    OutputTable,
    output_table,
    reconciliations_table,
    row_keys,
    table_columns,
)
from pipelines.lakehouse.owned_ranges import origins
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import rows_of
from pipelines.lakehouse.spark_client import require_client
from pipelines.recompute.logs import Logs
from pipelines.recompute.windows import CachedEvaluator
from pipelines.reconcile import outputs
from pipelines.reconcile.causes.find import with_causes
from pipelines.reconcile.causes.scope import Progress, Scope
from pipelines.reconcile.compare import EQUAL, Shape
from pipelines.reconcile.live_table import live_table
from pipelines.reconcile.outputs import Sides
from pipelines.reconcile.result import Reconciliation
from pipelines.replay.collect import to_arrow
from pipelines.replay.size import MOST_ROWS, is_plain
from pipelines.replay.write import check_columns, replace_range, with_day
from pipelines.runtime.telemetry import traced

KIND = "reconcile"
STEPS = 5
"""How often :func:`reconcile` calls ``progress``."""


@traced("tailrace.reconcile")
def reconcile(
    job: Job,
    output: OutputRange,
    lakehouse: str | Path | Lakehouse,
    *,
    name: str | None = None,
    against: str | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> Reconciliation:
    """Compare an output with the live run's table over ``output`` and write what differs, with its cause.

    ``name`` is the output's, needed where the job has several; ``against`` names another table than the job file does.
    Raises :class:`UsageError` if either side was never written, or the live table lacks a column that is needed.
    """
    one = output_table(job, name)
    lakehouse = Lakehouse.at(lakehouse)
    lakehouse.require_writable()
    progress = progress or (lambda _: None)
    progress("starting Spark")
    from pipelines.runtime.session import session

    spark = spark or session()
    require_client(spark, lakehouse)
    runs.abandon_dead(lakehouse, job)
    started = datetime.now(UTC)
    progress("comparing")
    notes: list[str] = []
    replay, version = _replayed(spark, lakehouse, job, one, output, notes)
    keys, needed = _identity(job, one, output)
    live = live_table(spark, lakehouse, job, one, output, replay.schema, needed, against)
    if live.lacking:
        notes.append(f"{live.name} has no {', '.join(live.lacking)}: not compared")
    values = tuple(column for column in replay.columns if column not in (*keys, *live.lacking))
    table = reconciliations_table(job, one)
    versions_read = {one.table: version} | ({} if live.version is None else {live.name: live.version})
    row = _ledger_row(job, output, live.name, versions_read, started)
    before = lakehouse.open(table)
    fence = Fence(lakehouse, row, {table: None if before is None else before.version()})
    with _in_ledger(lakehouse, job, row), ExitStack() as persisted:
        sides = Sides(job, one, output, replay, live.rows, keys, values)
        compared = sides.compared().persist()
        persisted.callback(compared.unpersist)
        counts = {row["status"]: row["count"] for row in compared.groupBy("status").count().collect()}
        equal = counts.pop(EQUAL, 0)
        differing = compared.filter(F.col("status") != EQUAL).withColumns({"cause": F.lit(""), "evidence": F.lit("")})
        if counts:
            progress("looking for causes")
        if counts and job.steps is not None:
            differing = outputs.with_causes(sides, compared, spark, lakehouse, persisted)
        elif counts:
            logs, evaluate, shape = Logs(lakehouse), CachedEvaluator(), Shape(keys, values)
            scope = Scope(spark, lakehouse, job, output, live, shape, logs, evaluate, persisted, progress)
            recorded = _recorded(lakehouse, job) if against is None else set()
            differing = with_causes(scope, compared, equal, recorded)
        progress("writing")
        written = _write(lakehouse, table, sides, differing, sum(counts.values()), fence)
        row |= {"versions_written": {table: written}, "rows_written": {table: sum(counts.values())}}
    shown = "reconciliations" if one.layout is WINDOWS else f"reconciliations/{one.output}"
    rows = rows_of(job, shown, lakehouse, output)
    assert rows is not None, "they were just written"
    return Reconciliation.of(
        rows,
        job=job.name,
        against=live.name,
        output=output,
        equal=equal,
        notes=tuple(notes),
        table=table,
        version=written,
        versions_read=versions_read,
    )


def _identity(job: Job, one: OutputTable, output: OutputRange) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What identifies a row (nothing, where rows are compared as multisets), and the columns that both sides need."""
    times = () if one.layout is WINDOWS else (one.layout.time,)
    keys = row_keys(job, one)
    if keys is not None:
        return (*times, *keys), (*times, *keys)
    # without the time a table can be compared as a whole, but not cut to a range (Q95)
    return (), times if output != EVERYTHING else ()


def _recorded(lakehouse: Lakehouse, job: Job) -> set[str]:
    """The fingerprint under which the last live run was recorded, if it is not the job's."""
    live = [run for run in runs.runs_of(lakehouse, job.name) if run["kind"] == "stream"]
    return {run["job_fingerprint"] for run in live[-1:] if run["job_fingerprint"]} - {job.fingerprint}


def _write(lakehouse: Lakehouse, name: str, sides: Sides, differing: DataFrame, number: int, fence: Fence) -> int:
    """Replace the rows of the range, ``number`` of them; few are taken from Spark and written here."""
    layout = sides.one.layout
    found = differing.select(*sides.columns)
    if layout.time not in found.columns:
        # the live run's rows have none
        found = found.withColumn(layout.time, F.lit(None).cast("timestamp"))
    frame = with_day(found, layout)
    check_columns(lakehouse, name, frame, sides.output)
    by_driver = number <= MOST_ROWS and is_plain(lakehouse.open(name))
    rows = to_arrow(frame) if by_driver else frame
    about = {"tailrace": KIND, "run_id": fence.row["run_id"]}
    return replace_range(rows, lakehouse, name, layout, sides.output, about, fence.check)


def _ledger_row(
    job: Job, output: OutputRange, against: str, versions_read: Mapping[str, int], started: datetime
) -> dict[str, Any]:
    """The row in the ledger, from which a reader knows which range was compared with what."""
    ends = {"output_from": output.from_us, "output_to": output.to_us}
    return {
        "run_id": uuid.uuid4().hex,
        "job": job.name,
        "kind": KIND,
        "reason": f"against {against}",
        "status": runs.RUNNING,
        "job_fingerprint": job.fingerprint,
        **{name: None if us is None else to_datetime(us) for name, us in ends.items()},
        "versions_read": versions_read,
        "started_at": started,
        "process": runs.this_process(),
    }


@contextmanager
def _in_ledger(lakehouse: Lakehouse, job: Job, row: dict[str, Any]) -> Iterator[None]:
    """A block during which the ledger has ``row`` as running; afterwards the run, ``row`` by then, has an end."""
    runs.record(lakehouse, row)
    try:
        yield
        runs.record(lakehouse, {**row, "status": runs.SUCCEEDED, "finished_at": datetime.now(UTC)})
    except BaseException as error:
        runs.record_failure(lakehouse, job, row, error)
        raise


def _replayed(
    spark: SparkSession, lakehouse: Lakehouse, job: Job, one: OutputTable, output: OutputRange, notes: list[str]
) -> tuple[DataFrame, int]:
    """The replay's rows of the range and their table's version; a note is added if another job wrote them."""
    name = one.table
    table = lakehouse.open(name)
    if table is None:
        raise UsageError(
            f"there is no replay to compare: {name} was never written in {lakehouse.root}",
            hint="run 'tailrace replay JOB' over the range first",
        )
    frame = spark.read.format("delta").option("versionAsOf", table.version()).load(lakehouse.uri(name))
    condition = one.layout.condition(output)
    if condition is not None:
        frame = frame.filter(condition)
    wanted = [column for column in table_columns(job, one) if column != one.layout.day]
    there = {column.lower() for column in frame.columns}
    lacking = [column for column in wanted if column.lower() not in there]
    if lacking:
        raise UsageError(
            f"the table {name} has no column '{lacking[0]}': the job file changed since the replay",
            hint="replay again, without --from and --to",
        )
    notes += [f"{text}; replay again" for text in origins(runs.runs_of(lakehouse, job.name), job, output)]
    return frame.select(*wanted), table.version()
