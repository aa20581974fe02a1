"""``tailrace stream``: announce what the logs hold, run the query, begin again where that cannot be avoided."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import DataRefused, TailraceError
from pipelines.core.model import REASONS, Job
from pipelines.core.time import format_instant, from_datetime, to_datetime
from pipelines.lakehouse import runs
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.spark.announcements import Announcement, announce, checkpoint_uri
from pipelines.live.state.program import refuse
from pipelines.live.state.rows import LogOutOfOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pipelines.live.spark.query import Tally

FILES_PER_TRIGGER = 1000
_POLL_SECONDS = 1.0
Progress = Callable[[str], None]


@dataclass(frozen=True)
class StreamSummary:
    """One run of the live stream; counts are of this run. ``provisional_windows`` stand until more arrives."""

    job: str
    run_id: str
    generation: int
    counts_by_verdict: dict[str, int]
    counts_by_reason: dict[str, int]
    windows: int
    provisional_windows: int
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


def stream(
    job: Job,
    lakehouse: str | Path | Lakehouse,
    *,
    until_caught_up: bool = True,
    anew: bool = False,
    files_per_trigger: int = FILES_PER_TRIGGER,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> StreamSummary:
    """Run the live stream of ``job`` from where it stopped, into ``stream_windows`` and ``stream_verdicts``.

    ``until_caught_up``: up to what the logs hold now, then what the end of the log gives, as provisional rows; else
    until the process is interrupted. ``anew`` begins again at the start of the logs. Neither ``files_per_trigger`` nor
    how often the stream is stopped and started changes what it writes.

    Raises :class:`UsageError` for what the live run cannot do or a job that changed, :class:`DataRefused` where the
    data cannot be computed with.
    """
    refuse(job)
    lakehouse, tell = Lakehouse.at(lakehouse), progress or (lambda _: None)
    lakehouse.require_writable()
    begun = announce(lakehouse, job, end_of_log=until_caught_up, anew=anew)
    runs.abandon_dead(lakehouse, job.name)
    ledger = _Ledger(lakehouse, job, begun)
    try:
        run = _Run(job, lakehouse, files_per_trigger, tell, spark)
        run.go(begun, until_caught_up=until_caught_up)
    except BaseException as error:
        ledger.close(runs.FAILED, None, error)
        raise
    return ledger.close(runs.SUCCEEDED, run, None)


class _Run:
    """One run: a query, and the next one where the stream has to begin again."""

    def __init__(
        self, job: Job, lakehouse: Lakehouse, files_per_trigger: int, tell: Progress, spark: SparkSession | None
    ) -> None:
        from pipelines.live.spark.query import Tally

        self.job, self.lakehouse, self.files_per_trigger, self.tell = job, lakehouse, files_per_trigger, tell
        self.spark = spark
        self.tally: Tally = Tally()
        self.begun: Announcement | None = None

    def go(self, begun: Announcement, *, until_caught_up: bool) -> None:
        self.tell("starting Spark")
        from pipelines.live.spark.query import live_session
        from pipelines.runtime.session import session

        self.session = live_session(self.spark or session())
        while True:
            self.begun = begun
            self._forget_older(begun)
            self.tell("streaming")
            again = self._run(begun, until_caught_up=until_caught_up)
            if again is None:
                return
            begun = again

    def _run(self, begun: Announcement, *, until_caught_up: bool) -> Announcement | None:
        """Run one generation's query; the announcement of the next generation if it has to begin again."""
        from pipelines.live.spark.query import Tally, live_query

        self.tally = Tally()
        writer = live_query(self.session, self.job, self.lakehouse, begun, self.tally, self.files_per_trigger)
        if until_caught_up:
            query = writer.trigger(availableNow=True).start()
        else:
            query = writer.trigger(processingTime="1 second").start()
        try:
            followed = self._follow(query, begun, until_caught_up=until_caught_up)
            if self.tally.error is not None:
                raise self.tally.error
            return followed
        except Exception as failure:
            # Spark tells a batch's own error only as a text among others
            error = self.tally.error or failure
            if not isinstance(error, LogOutOfOrder):
                raise error from None
            if begun.generation > 0 and begun.number == 0:
                raise DataRefused(f"the arrival logs are not in order: {error}") from None
            return announce(self.lakehouse, self.job, end_of_log=until_caught_up, anew=True)
        finally:
            query.stop()

    def _follow(self, query: StreamingQuery, begun: Announcement, *, until_caught_up: bool) -> Announcement | None:
        if until_caught_up:
            while query.isActive:
                query.awaitTermination(10)  # now and then, so that Ctrl-C is heard
        else:
            try:
                while query.isActive:
                    time.sleep(_POLL_SECONDS)
                    if self._grown(begun):
                        newer = announce(self.lakehouse, self.job, end_of_log=False)
                        if newer.generation != begun.generation:
                            return newer
                        begun = self.begun = newer
            except KeyboardInterrupt:
                return None
        failure = query.exception()
        if failure is not None:
            raise failure
        return None

    def _grown(self, begun: Announcement) -> bool:
        tables = {part.name: self.lakehouse.open(arrivals_table(part.name)) for part in self.job.inputs}
        return any(table is not None and table.version() > begun.versions[name] for name, table in tables.items())

    def _forget_older(self, begun: Announcement) -> None:
        """Checkpoints of earlier generations are of no use any more."""
        if self.lakehouse.is_local:
            for older in range(begun.generation):
                place = Path(checkpoint_uri(self.lakehouse, self.job, older).removeprefix("file://"))
                shutil.rmtree(place, ignore_errors=True)


class _Ledger:
    """The run's row in ``runs``."""

    def __init__(self, lakehouse: Lakehouse, job: Job, begun: Announcement) -> None:
        self.lakehouse, self.job = lakehouse, job
        self.row: dict[str, Any] = {
            "run_id": uuid.uuid4().hex,
            "job": job.name,
            "kind": "stream",
            "status": runs.RUNNING,
            "job_fingerprint": job.fingerprint,
            "versions_read": _versions(begun),
            "started_at": datetime.now(UTC),
            "process": runs.this_process(),
        }
        runs.record(lakehouse, self.row)

    def close(self, status: str, run: _Run | None, error: BaseException | None) -> StreamSummary:
        from pipelines.live.spark.query import Tally, verdicts_name, windows_name

        tally: Tally = run.tally if run is not None else Tally()
        finished_us = from_datetime(datetime.now(UTC))
        summary = StreamSummary(
            job=self.job.name,
            run_id=self.row["run_id"],
            generation=run.begun.generation if run is not None and run.begun is not None else 0,
            counts_by_verdict=dict(sorted(tally.verdicts.items())),
            counts_by_reason={name: tally.reasons[name] for name in REASONS if tally.reasons[name]},
            windows=tally.windows,
            provisional_windows=tally.provisional_windows,
            batches=tally.batches,
            versions_read=_versions(run.begun) if run is not None and run.begun is not None else {},
            started_us=from_datetime(self.row["started_at"]),
            finished_us=finished_us,
        )
        written = {windows_name(self.job): tally.windows + tally.provisional_windows}
        tables = (windows_name(self.job), verdicts_name(self.job))
        done = {
            **self.row,
            "status": status,
            "error": _sentence(error),
            "finished_at": to_datetime(finished_us),
            "versions_read": summary.versions_read or self.row["versions_read"],
            "counts_by_verdict": summary.counts_by_verdict,
            "counts_by_reason": summary.counts_by_reason,
            "rows_written": written,
            "versions_written": {name: table.version() for name in tables if (table := self.lakehouse.open(name))},
        }
        runs.record(self.lakehouse, done)
        return summary


def _versions(begun: Announcement) -> dict[str, int]:
    return {arrivals_table(name): version for name, version in begun.versions.items()}


def _sentence(error: BaseException | None) -> str | None:
    if error is None:
        return None
    text = str(error) if isinstance(error, TailraceError) else f"{type(error).__name__}: {error}"
    return (text.strip().splitlines() or [type(error).__name__])[0]
