"""``tailrace stream``: announce what the logs hold, run the query, begin again where that cannot be avoided."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.core.errors import DataRefused, EnvironmentUnfit, TailraceError
from pipelines.core.model import REASONS, Job
from pipelines.core.time import format_instant, from_datetime, to_datetime
from pipelines.lakehouse import runs
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.spark_client import require_client
from pipelines.live.expressions import refuse
from pipelines.live.spark.announcements import Announcement, announce, remove_checkpoint
from pipelines.live.spark.sink import stream_verdicts_table
from pipelines.live.state.arrivals import LogOutOfOrder
from pipelines.live.state.output import RunCounts
from pipelines.runtime.telemetry import traced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FILES_PER_TRIGGER = 1000
_POLL_SECONDS = 1.0
_OTHER_QUERY = "[CONCURRENT_STREAM_LOG_UPDATE]"
"""In Spark's error where two queries go on from one checkpoint."""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class StreamSummary:
    """One run of the live stream; counts are of this run, rows by table. ``provisional_rows`` stand until more
    arrives."""

    job: str
    run_id: str
    generation: int
    counts_by_verdict: dict[str, int]
    counts_by_reason: dict[str, int]
    rows_written: dict[str, int]
    provisional_rows: dict[str, int]
    batches: int
    versions_read: dict[str, int]
    started_us: int
    finished_us: int

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            **{key: value for key, value in self.__dict__.items() if not key.endswith("_us")},
            "started_at": format_instant(self.started_us),
            "finished_at": format_instant(self.finished_us),
        }


@traced("tailrace.stream")
def stream(
    job: Job,
    lakehouse: str | Path | Lakehouse,
    *,
    until_caught_up: bool = True,
    from_start: bool = False,
    files_per_trigger: int = FILES_PER_TRIGGER,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> StreamSummary:
    """Run the live stream of ``job`` from where it stopped, into ``stream_windows`` (of steps ``stream_outputs``) and
    ``stream_verdicts``.

    ``until_caught_up``: up to what the logs contain now, then what the end of the log gives, as provisional rows; else
    until the process is interrupted. ``from_start`` begins again at the start of the logs. Neither
    ``files_per_trigger`` nor how often the stream is stopped and started changes what it writes.

    Raises :class:`UsageError` for what the live run cannot do or a job that changed, :class:`DataRefused` where the
    data cannot be computed with.
    """
    refuse(job)
    lakehouse = Lakehouse.at(lakehouse)
    lakehouse.require_writable()
    announced = announce(lakehouse, job, end_of_log=until_caught_up, from_start=from_start)
    runs.abandon_dead(lakehouse, job)
    run = _Run(job, lakehouse, announced, until_caught_up, files_per_trigger, progress or (lambda _: None))
    run.record(runs.RUNNING)
    try:
        run.go(spark)
        return run.record(runs.SUCCEEDED)
    except BaseException as error:
        with runs.noted(run.run_id, error):
            run.record(runs.FAILED, error)
        raise


@dataclass
class _Run:
    """One run: a query, and the next one where the stream has to begin again."""

    job: Job
    lakehouse: Lakehouse
    announced: Announcement
    until_caught_up: bool
    files_per_trigger: int
    progress: Progress
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started_us: int = field(default_factory=lambda: from_datetime(datetime.now(UTC)))
    counts: RunCounts = field(default_factory=RunCounts)

    def go(self, spark: SparkSession | None) -> None:
        """Run one generation after the other."""
        self.progress("starting Spark")
        from pipelines.live.spark.query import live_session
        from pipelines.runtime.session import session

        live = live_session(spark or session())
        require_client(live, self.lakehouse)
        again: Announcement | None = self.announced
        while again is not None:
            self.announced, self.counts = again, RunCounts()
            self._remove_older_checkpoints()
            self.progress("streaming")
            again = self._stream(live)

    def record(self, status: str, error: BaseException | None = None) -> StreamSummary:
        """Write the run's row in ``runs``."""
        counts, finished_us = self.counts, from_datetime(datetime.now(UTC))
        summary = StreamSummary(
            job=self.job.name,
            run_id=self.run_id,
            generation=self.announced.generation,
            counts_by_verdict=dict(sorted(counts.verdicts.items())),
            counts_by_reason={name: counts.reasons[name] for name in REASONS if counts.reasons[name]},
            rows_written=dict(counts.rows),
            provisional_rows=dict(counts.provisional_rows),
            batches=counts.batches,
            versions_read={
                arrivals_table(self.job.input(name).log): version for name, version in self.announced.versions.items()
            },
            started_us=self.started_us,
            finished_us=finished_us,
        )
        row = {
            "run_id": self.run_id,
            "job": self.job.name,
            "kind": "stream",
            "status": status,
            "job_fingerprint": self.job.fingerprint,
            "versions_read": summary.versions_read,
            "started_at": to_datetime(self.started_us),
            "process": runs.this_process(),
        }
        if status != runs.RUNNING:
            names = (*counts.rows, stream_verdicts_table(self.job))
            tables = {name: self.lakehouse.open(name) for name in names}
            row |= {
                "error": _sentence(error),
                "finished_at": to_datetime(finished_us),
                "counts_by_verdict": summary.counts_by_verdict,
                "counts_by_reason": summary.counts_by_reason,
                "rows_written": {name: counts.rows[name] + counts.provisional_rows[name] for name in counts.rows},
                "versions_written": {name: table.version() for name, table in tables.items() if table is not None},
            }
        runs.record(self.lakehouse, row)
        return summary

    def _stream(self, live: SparkSession) -> Announcement | None:
        """Run one generation's query; the announcement of the next generation if the stream has to begin again."""
        from pipelines.live.spark.query import live_query

        writer = live_query(live, self.job, self.lakehouse, self.announced, self.counts, self.files_per_trigger)
        first = self.announced
        if self.until_caught_up:
            query = writer.trigger(availableNow=True).start()
        else:
            query = writer.trigger(processingTime="1 second").start()
        try:
            again = self._follow(query)
            if self.counts.error is not None:
                raise self.counts.error
            return again
        except Exception as failure:
            # Spark reports the error of a batch only as text
            error = self.counts.error or failure
            if _OTHER_QUERY in str(error):
                raise EnvironmentUnfit(
                    f"write conflict: another live run of {self.job.name} is under way",
                    hint="run the command again, which is safe, when that run has ended",
                ) from None
            if not isinstance(error, LogOutOfOrder):
                raise error from None
            if first.generation > 0 and first.number == 0:
                raise DataRefused(f"the arrival logs are not in order: {error}") from None
            return announce(self.lakehouse, self.job, end_of_log=self.until_caught_up, from_start=True)
        finally:
            query.stop()

    def _follow(self, query: StreamingQuery) -> Announcement | None:
        """Wait until the query has read what was announced. A run without end announces what the logs gain, until
        Ctrl-C. The announcement of the next generation if one has to begin."""
        try:
            while query.isActive:
                if self.until_caught_up:
                    query.awaitTermination(10)  # not for ever, so that Ctrl-C is noticed
                    continue
                time.sleep(_POLL_SECONDS)
                if self._has_grown():
                    newer = announce(self.lakehouse, self.job, end_of_log=False)
                    if newer.generation != self.announced.generation:
                        return newer
                    self.announced = newer
        except KeyboardInterrupt:
            if self.until_caught_up:
                raise
            return None
        failure = query.exception()
        if failure is not None:
            raise failure
        return None

    def _has_grown(self) -> bool:
        tables = {part.name: self.lakehouse.open(arrivals_table(part.log)) for part in self.job.inputs}
        versions = self.announced.versions
        return any(table is not None and table.version() > versions[name] for name, table in tables.items())

    def _remove_older_checkpoints(self) -> None:
        """Those of earlier generations are not needed any more."""
        for older in range(self.announced.generation):
            remove_checkpoint(self.lakehouse, self.job, older)


def _sentence(error: BaseException | None) -> str | None:
    if error is None:
        return None
    text = str(error) if isinstance(error, TailraceError) else f"{type(error).__name__}: {error}"
    return (text.strip().splitlines() or [type(error).__name__])[0]
