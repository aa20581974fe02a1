"""Reconcile one range: compare in Spark, find the causes, write ``reconciliations/<job>``, tell the ledger."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
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
from pipelines.lakehouse.show import plain
from pipelines.recompute.logs import Logs
from pipelines.recompute.naming import key_names
from pipelines.recompute.windows import CachedEvaluator
from pipelines.reconcile.causes.find import with_causes
from pipelines.reconcile.causes.scope import Progress, Scope, persist
from pipelines.reconcile.compare import EQUAL, STATUSES, Shape, compare
from pipelines.reconcile.live_table import live_table
from pipelines.reconcile.result import Reconciliation
from pipelines.replay.write import check_columns, replace_range, with_day

KIND = "reconcile"
STEPS = 5
"""How often :func:`reconcile` calls ``progress``."""


def reconciliations_table(job: Job) -> str:
    """``reconciliations/<job>``"""
    return f"reconciliations/{job.name}"


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

    with ExitStack() as persisted:
        return _Work(job, output, lakehouse, against, spark or session(), progress, persisted).go()


@dataclass
class _Work:
    job: Job
    output: OutputRange
    lakehouse: Lakehouse
    against: str | None
    spark: SparkSession
    progress: Progress
    persisted: ExitStack
    notes: list[str] = field(default_factory=list)

    def go(self) -> Reconciliation:
        started = datetime.now(UTC)
        self.progress("comparing")
        replay, version = _replayed(self.spark, self.lakehouse, self.job, self.output, self.notes)
        self.live = live_table(self.spark, self.lakehouse, self.job, self.output, replay.schema, self.against)
        names = [one.name for one in self.job.query.aggregates if one.name not in self.live.lacking]
        self.shape = Shape(tuple(key_names(self.job)), tuple(names))
        if self.live.lacking:
            self.notes.append(f"{self.live.name} has no {', '.join(self.live.lacking)}: not compared")
        compared = persist(compare(replay, self.live.rows, self.shape), self.persisted)
        counts = {row["status"]: row["count"] for row in compared.groupBy("status").count().collect()}
        equal = counts.pop(EQUAL, 0)
        versions = {windows_table(self.job): version}
        if self.live.version is not None:
            versions[self.live.name] = self.live.version
        table = self._table(self._with_causes(compared, equal) if counts else _no_causes(compared))
        self.progress("writing")
        metadata = {"tailrace": KIND, "run_id": uuid.uuid4().hex}
        check_columns(self.lakehouse, reconciliations_table(self.job), table, self.output)
        written = replace_range(table, self.lakehouse, reconciliations_table(self.job), WINDOWS, self.output, metadata)
        result = Reconciliation(
            job=self.job.name,
            against=self.live.name,
            output=self.output,
            equal=equal,
            by_status={name: counts[name] for name in STATUSES if name in counts},
            by_cause=_by_cause(table) if counts else {},
            first=self._first(table) if counts else None,
            notes=tuple(self.notes),
            table=reconciliations_table(self.job),
            version=written,
            versions_read=versions,
        )
        self._record(result, metadata["run_id"], started)
        return result

    def _with_causes(self, compared: DataFrame, equal: int) -> DataFrame:
        self.progress("looking for causes")
        scope = Scope(
            spark=self.spark,
            lakehouse=self.lakehouse,
            job=self.job,
            output=self.output,
            live=self.live,
            shape=self.shape,
            logs=Logs(self.lakehouse),
            evaluate=CachedEvaluator(),
            persisted=self.persisted,
            progress=self.progress,
        )
        return with_causes(scope, compared, equal, self._recorded())

    def _recorded(self) -> set[str]:
        """The fingerprint under which the last live run was recorded, if it is not the job's."""
        if self.against is not None:
            return set()
        live = [run for run in runs.runs_of(self.lakehouse, self.job.name) if run["kind"] == "stream"]
        return {run["job_fingerprint"] for run in live[-1:] if run["job_fingerprint"]} - {self.job.fingerprint}

    def _table(self, rows: DataFrame) -> DataFrame:
        columns = [*self.shape.keys, "status", "cause", "replay", "stream", "copies", "emitted_at", "evidence"]
        return with_day(rows.select(*columns), WINDOWS)

    def _first(self, table: DataFrame) -> dict[str, object]:
        row = table.orderBy("window_end", *self.shape.keys).drop("output_date").first()
        assert row is not None
        found = plain(row.asDict(recursive=True))
        assert isinstance(found, dict)
        return found

    def _record(self, result: Reconciliation, run_id: str, started: datetime) -> None:
        """One row in the ledger, so that a reader knows which range was compared with what."""
        ends = {"output_from": self.output.from_us, "output_to": self.output.to_us}
        runs.record(
            self.lakehouse,
            {
                "run_id": run_id,
                "job": self.job.name,
                "kind": KIND,
                "reason": f"against {result.against}",
                "status": runs.SUCCEEDED,
                "job_fingerprint": self.job.fingerprint,
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
    """The replay's rows of the range and their table's version; ``notes`` are told if another job wrote them."""
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
    wanted = [*key_names(job), *(one.name for one in job.query.aggregates)]
    lacking = [column for column in wanted if column.lower() not in {held.lower() for held in frame.columns}]
    if lacking:
        raise UsageError(
            f"the table {name} has no column '{lacking[0]}': the job file changed since the replay",
            hint="replay again, without --from and --to",
        )
    last = runs.last_succeeded(lakehouse, job.name)
    if last is not None and last["job_fingerprint"] != job.fingerprint:
        notes.append("the job file changed since the last replay: replay again to compare what it says now")
    return frame.select(*wanted), table.version()


def _no_causes(compared: DataFrame) -> DataFrame:
    empty = compared.filter(F.col("status") != EQUAL)
    return empty.withColumns({"cause": F.lit(""), "evidence": F.lit("")})


def _by_cause(table: DataFrame) -> dict[str, int]:
    counts = {row["cause"]: row["count"] for row in table.groupBy("cause").count().collect()}
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
