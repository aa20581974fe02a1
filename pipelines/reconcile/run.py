"""Reconcile one range: compare in Spark, find the causes, write ``reconciliations/<job>`` and a row of the ledger."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.core.errors import UsageError
from pipelines.core.model import Job, OutputRange
from pipelines.core.time import to_datetime
from pipelines.lakehouse import runs
from pipelines.lakehouse.layout import WINDOWS, windows_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import rows_of
from pipelines.recompute.logs import Logs
from pipelines.recompute.naming import key_names
from pipelines.recompute.windows import CachedEvaluator
from pipelines.reconcile.causes.find import with_causes
from pipelines.reconcile.causes.scope import Progress, Scope
from pipelines.reconcile.compare import EQUAL, Shape, compare
from pipelines.reconcile.live_table import live_table
from pipelines.reconcile.result import Reconciliation
from pipelines.replay.collect import to_arrow
from pipelines.replay.size import MOST_ROWS, is_plain
from pipelines.replay.write import check_columns, replace_range, with_day

KIND = "reconcile"
STEPS = 5
"""How often :func:`reconcile` calls ``progress``."""


def reconcile(
    job: Job,
    output: OutputRange,
    lakehouse: str | Path | Lakehouse,
    *,
    against: str | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> Reconciliation:
    """Compare ``windows/<job>`` with the live run's table over ``output`` and write what differs, with its cause.

    ``against`` names another table than the job file does. Raises :class:`UsageError` if either side was never
    written, or the live table lacks a column that is needed.
    """
    lakehouse = Lakehouse.at(lakehouse)
    lakehouse.require_writable()
    progress = progress or (lambda _: None)
    progress("starting Spark")
    from pipelines.runtime.session import session

    spark = spark or session()
    started = datetime.now(UTC)
    progress("comparing")
    notes: list[str] = []
    replay, version = _replayed(spark, lakehouse, job, output, notes)
    live = live_table(spark, lakehouse, job, output, replay.schema, against)
    if live.lacking:
        notes.append(f"{live.name} has no {', '.join(live.lacking)}: not compared")
    names = [one.name for one in job.window_query.aggregates if one.name not in live.lacking]
    shape = Shape(tuple(key_names(job)), tuple(names))
    metadata = {"tailrace": KIND, "run_id": uuid.uuid4().hex}
    with ExitStack() as persisted:
        logs, evaluate = Logs(lakehouse), CachedEvaluator()
        scope = Scope(spark, lakehouse, job, output, live, shape, logs, evaluate, persisted, progress)
        compared = scope.persist(compare(replay, live.rows, shape))
        counts = {row["status"]: row["count"] for row in compared.groupBy("status").count().collect()}
        equal = counts.pop(EQUAL, 0)
        differing = compared.filter(F.col("status") != EQUAL).withColumns({"cause": F.lit(""), "evidence": F.lit("")})
        if counts:
            progress("looking for causes")
            differing = with_causes(scope, compared, equal, _recorded(lakehouse, job) if against is None else set())
        progress("writing")
        written = _write(scope, differing, sum(counts.values()), metadata)
    rows = rows_of(job, "reconciliations", lakehouse, output)
    assert rows is not None, "they were just written"
    result = Reconciliation.of(
        rows,
        job=job.name,
        against=live.name,
        output=output,
        equal=equal,
        notes=tuple(notes),
        table=_table(job),
        version=written,
        versions_read={windows_table(job): version} | ({} if live.version is None else {live.name: live.version}),
    )
    _record(lakehouse, job, result, metadata["run_id"], started)
    return result


def _table(job: Job) -> str:
    return f"reconciliations/{job.name}"


def _recorded(lakehouse: Lakehouse, job: Job) -> set[str]:
    """The fingerprint under which the last live run was recorded, if it is not the job's."""
    live = [run for run in runs.runs_of(lakehouse, job.name) if run["kind"] == "stream"]
    return {run["job_fingerprint"] for run in live[-1:] if run["job_fingerprint"]} - {job.fingerprint}


def _write(scope: Scope, differing: DataFrame, number: int, metadata: dict[str, str]) -> int:
    """Replace the rows of the range, ``number`` of them; few are taken from Spark and written here."""
    columns = [*scope.shape.keys, "status", "cause", "replay", "stream", "copies", "emitted_at", "evidence"]
    name, lakehouse = _table(scope.job), scope.lakehouse
    frame = with_day(differing.select(*columns), WINDOWS)
    check_columns(lakehouse, name, frame, scope.output)
    by_driver = number <= MOST_ROWS and is_plain(lakehouse.open(name))
    rows = to_arrow(frame) if by_driver else frame
    return replace_range(rows, lakehouse, name, WINDOWS, scope.output, metadata)


def _record(lakehouse: Lakehouse, job: Job, result: Reconciliation, run_id: str, started: datetime) -> None:
    """One row in the ledger, so that a reader knows which range was compared with what."""
    ends = {"output_from": result.output.from_us, "output_to": result.output.to_us}
    runs.record(
        lakehouse,
        {
            "run_id": run_id,
            "job": job.name,
            "kind": KIND,
            "reason": f"against {result.against}",
            "status": runs.SUCCEEDED,
            "job_fingerprint": job.fingerprint,
            **{name: None if us is None else to_datetime(us) for name, us in ends.items()},
            "versions_read": result.versions_read,
            "versions_written": {result.table: result.version},
            "rows_written": {result.table: result.differing},
            "started_at": started,
            "finished_at": datetime.now(UTC),
            "process": runs.this_process(),
        },
    )


def _replayed(
    spark: SparkSession, lakehouse: Lakehouse, job: Job, output: OutputRange, notes: list[str]
) -> tuple[DataFrame, int]:
    """The replay's rows of the range and their table's version; a note is added if another job wrote them."""
    name = windows_table(job)
    table = lakehouse.open(name)
    if table is None:
        raise UsageError(
            f"there is no replay to compare: {name} was never written in {lakehouse.root}",
            hint="run 'tailrace replay JOB' over the range first",
        )
    frame = spark.read.format("delta").option("versionAsOf", table.version()).load(lakehouse.uri(name))
    condition = WINDOWS.condition(output)
    if condition is not None:
        frame = frame.filter(condition)
    wanted = [*key_names(job), *(one.name for one in job.window_query.aggregates)]
    there = {column.lower() for column in frame.columns}
    lacking = [column for column in wanted if column.lower() not in there]
    if lacking:
        raise UsageError(
            f"the table {name} has no column '{lacking[0]}': the job file changed since the replay",
            hint="replay again, without --from and --to",
        )
    last = runs.last_succeeded(lakehouse, job.name)
    if last is not None and last["job_fingerprint"] != job.fingerprint:
        notes.append("the job file changed since the last replay: replay again to compare the results of the new one")
    return frame.select(*wanted), table.version()
