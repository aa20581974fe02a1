"""Execute a plan: read the arrivals it names, decide in Spark, replace exactly the output range, tell the ledger.

Verdicts are committed before windows, so whoever sees new windows sees their verdicts. Everything is computed before
the first commit; a failure leaves every table as it was, and a crash between the two commits leaves a run that is not
``succeeded``: running the same range again mends it, because the same range always gives the same rows.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipelines import __version__
from pipelines.core.model import REASONS, Job, OutputRange
from pipelines.core.time import format_instant, from_datetime, to_datetime
from pipelines.lakehouse import runs
from pipelines.lakehouse.cache import summaries
from pipelines.lakehouse.layout import dead_letters_table, result_tables, verdicts_table, windows_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import Plan, ReadTable
from pipelines.plan.read_range import ReadRange
from pipelines.replay.builder import AsOf, make_plan
from pipelines.replay.collect import collect_fingerprinted, take
from pipelines.replay.size import fits_driver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.batch.engine import LogSlices, Result
    from pipelines.batch.logs import LogSlice
    from pipelines.plan.watermark_strategy import WatermarkStrategy
    from pipelines.replay.io_metrics import Pass, Scanned

Progress = Callable[[str], None]

STEPS = 5
"""How often :func:`replay` calls ``progress``."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One finished run: a row of ``runs``, and the plan it executed.

    ``counts_by_verdict`` and ``counts_by_reason`` count every event of the output range, also those that
    ``keep_verdicts: exceptions`` does not write. ``rows_written`` and ``versions_written`` go by table, as do
    ``files_read`` and ``bytes_read``: the files of each log that Spark opened, once each, and ``scans``: how often it
    went through them. Where the plan had said otherwise, ``warnings`` say so.
    """

    run_id: str
    kind: str
    plan: Plan
    counts_by_verdict: dict[str, int]
    counts_by_reason: dict[str, int]
    rows_written: dict[str, int]
    versions_written: dict[str, int]
    output_fingerprint: str
    started_us: int
    finished_us: int
    engine: dict[str, str] = field(default_factory=dict)
    files_read: dict[str, int] = field(default_factory=dict)
    bytes_read: dict[str, int] = field(default_factory=dict)
    scans: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def events(self) -> int:
        """Events of the output range."""
        return sum(self.counts_by_verdict.values())

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "run_id": self.run_id,
            "job": self.plan.job,
            "kind": self.kind,
            "status": runs.SUCCEEDED,
            "events": self.events,
            "counts_by_verdict": self.counts_by_verdict,
            "counts_by_reason": self.counts_by_reason,
            "rows_written": self.rows_written,
            "versions_written": self.versions_written,
            "files_read": self.files_read,
            "bytes_read": self.bytes_read,
            "scans": self.scans,
            "warnings": list(self.warnings),
            "output_fingerprint": self.output_fingerprint,
            "started_at": format_instant(self.started_us),
            "finished_at": format_instant(self.finished_us),
            "engine": self.engine,
            "plan": self.plan.as_dict(),
        }


def replay(
    job: Job,
    output: OutputRange,
    lakehouse: str | Path | Lakehouse,
    *,
    spark: SparkSession | None = None,
    as_of: AsOf = None,
    reason: str | None = None,
    kind: str = "replay",
    progress: Progress | None = None,
    only: bool = False,
) -> RunSummary:
    """Plan and run ``job`` over ``output``: half-open, an open end means all of the log on that side.

    ``as_of`` reads older versions of the arrival logs, ``reason`` is kept in the ledger, ``kind`` names the sort of
    run there. ``only``: the process does nothing after it, so that a session for little data will do. Raises
    :class:`EnvironmentUnfit` before any work if the lakehouse cannot be written, and :class:`UsageError` if an input
    has no log, or a part of a table of other columns would be replaced.
    """
    lakehouse = Lakehouse.at(lakehouse)
    plan = make_plan(job, output, lakehouse, as_of=as_of)
    lakehouse.require_writable()
    return execute(plan, job, lakehouse, spark=spark, reason=reason, kind=kind, progress=progress, only=only)


def execute(
    plan: Plan,
    job: Job,
    lakehouse: Lakehouse,
    *,
    spark: SparkSession | None = None,
    reason: str | None = None,
    kind: str = "replay",
    progress: Progress | None = None,
    only: bool = False,
) -> RunSummary:
    """Run a plan that was made for ``job``; see :func:`replay`."""
    assert plan.job_fingerprint == job.fingerprint, "the plan was made for another job"
    tell = progress or (lambda _: None)
    runs.abandon_dead(lakehouse, job.name)
    started_us = _now_us()
    row = _ledger_row(plan, kind, reason, started_us)
    runs.record(lakehouse, row)
    work = _Run(plan, job, lakehouse, row["run_id"], tell)
    try:
        work.go(spark, only)
    except BaseException as error:
        what = (str(error).strip().splitlines() or [type(error).__name__])[0]
        runs.record(lakehouse, {**row, **work.facts(), "status": runs.FAILED, "error": what, "finished_at": _now()})
        raise
    finished_us = _now_us()
    done = {**row, **work.facts(), "status": runs.SUCCEEDED, "finished_at": to_datetime(finished_us)}
    runs.record(lakehouse, done)
    return RunSummary(
        run_id=row["run_id"],
        kind=kind,
        plan=plan,
        counts_by_verdict=work.counts_by_verdict,
        counts_by_reason=work.counts_by_reason,
        rows_written=work.rows_written,
        versions_written=work.versions_written,
        files_read={name: one.files for name, one in work.scanned.items()},
        bytes_read={name: one.size_bytes for name, one in work.scanned.items()},
        scans={name: one.scans for name, one in work.scanned.items()},
        warnings=work.warnings,
        output_fingerprint=work.output_fingerprint,
        started_us=started_us,
        finished_us=finished_us,
        engine=work.engine,
    )


def recompute(plan: Plan, job: Job, lakehouse: Lakehouse, *, spark: SparkSession | None = None) -> str:
    """The output fingerprint that executing ``plan`` gives, at the versions it names; nothing is written anywhere.

    Windows are computed alone, on large logs by another method than beside verdicts.
    """
    from pipelines.replay.fingerprint import fingerprint
    from pipelines.runtime.session import session

    assert plan.job_fingerprint == job.fingerprint, "the plan was made for another job"
    from pipelines.batch import engine

    arrivals = _Run(plan, job, lakehouse, "", lambda _: None).arrivals(spark or session())
    return fingerprint(engine.windows_alone(job, arrivals, plan.output, plan.initial_state, plan.sorting)).fingerprint


def slices_of(spark: SparkSession, lakehouse: Lakehouse, table: ReadTable, read: ReadRange) -> list[LogSlice]:
    """The stretches of a log, for the batch engine."""
    from pipelines.batch.logs import LogSlice
    from pipelines.replay.read import read_sorted_files

    return [
        LogSlice(frame, one.first_us, one.last_us) for one, frame in read_sorted_files(spark, lakehouse, table, read)
    ]


class _Run:
    """The work of one run, and what is known of it so far."""

    def __init__(self, plan: Plan, job: Job, lakehouse: Lakehouse, run_id: str, tell: Progress) -> None:
        self.plan = plan
        self.job = job
        self.lakehouse = lakehouse
        self.run_id = run_id
        self.tell = tell
        self.counts_by_verdict: dict[str, int] = {}
        self.counts_by_reason: dict[str, int] = {}
        self.rows_written: dict[str, int] = {}
        self.versions_written: dict[str, int] = {}
        self.output_fingerprint = ""
        self.passes: list[Pass] = []
        self.scanned: dict[str, Scanned] = {}
        self.warnings: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._expected: Counter[str] = Counter()
        self._layouts = dict(result_tables(job))
        self.engine = _versions()

    def facts(self) -> dict[str, Any]:
        """Columns of the ledger."""
        return {
            "counts_by_verdict": self.counts_by_verdict,
            "counts_by_reason": self.counts_by_reason,
            "rows_written": self.rows_written,
            "versions_written": self.versions_written,
            "files_read": {name: one.files for name, one in self.scanned.items()},
            "bytes_read": {name: one.size_bytes for name, one in self.scanned.items()},
            "scans": {name: one.scans for name, one in self.scanned.items()},
            "warnings": list(self.warnings),
            "output_fingerprint": self.output_fingerprint or None,
            "engine": self.engine,
        }

    def go(self, spark: SparkSession | None, only: bool) -> None:
        self.tell("starting Spark")
        from pyspark.errors import PySparkException

        from pipelines.batch.stream_analytics.watermarks.file_order import NOT_IN_ORDER
        from pipelines.replay.write import require_safe_commits
        from pipelines.runtime.session import session

        small = fits_driver(self.job, self.plan, self.lakehouse)
        spark = spark or session(short=small and only)
        self.engine["java"] = _java_version(spark)
        if not small:
            require_safe_commits(spark, self.lakehouse)
        self.tell("reading the logs")
        for one in self.plan.summaries:
            if one.unsaved is not None:
                summaries.keep(self.lakehouse, one.input, one.unsaved)
        try:
            self._compute(spark, small, self.plan.method)
        except PySparkException as error:
            found = re.search(f"{NOT_IN_ORDER}: (.*? later)", str(error))
            if found is None:
                raise
            # nothing was written: everything is computed before
            self._told = (f"a file was taken to be in order and is not: {found[1]}; everything was sorted instead",)
            self._compute(spark, small, self.plan.sorting)

    def _compute(self, spark: SparkSession, small: bool, method: WatermarkStrategy) -> None:
        from pipelines.replay.io_metrics import watched
        from pipelines.replay.write import check_columns, with_day

        with watched(spark) as self.passes:
            result = self.decide(spark, method)
        frames = self._frames(result)
        for name, frame in frames.items():
            check_columns(self.lakehouse, name, with_day(frame, self._layouts[name]), self.plan.output)
        self.tell("deciding and counting")
        if small:
            self._write(self._take(frames, result.events))
            return
        # verdicts are cheap to make again from what is shared
        cheap = verdicts_table(self.job) if result.shared else None
        kept = [*result.shared, *(frame for name, frame in frames.items() if name != cheap)]
        for frame in kept:
            frame.persist()
        try:
            self._write(self._count(frames, result))
        finally:
            for frame in kept:
                frame.unpersist()

    def arrivals(self, spark: SparkSession) -> dict[str, DataFrame]:
        """What the plan reads, by input."""
        from pipelines.replay.read import read_arrivals

        return {
            table.input: read_arrivals(spark, self.lakehouse, table, self.job.input(table.input), self.plan.read)
            for table in self.plan.reads
        }

    def slices(self, spark: SparkSession) -> LogSlices:
        """What the plan reads, by input, in the order in which files hold it."""
        return {
            table.input: partial(slices_of, spark, self.lakehouse, table, self.plan.read) for table in self.plan.reads
        }

    def decide(self, spark: SparkSession, method: WatermarkStrategy) -> Result:
        """Lazy results."""
        from pipelines.batch import engine
        from pipelines.lakehouse.cache.facts import KeptFacts

        memory, arrivals = KeptFacts(self.lakehouse, self.plan), self.arrivals(spark)
        slices = self.slices(spark) if method.verdicts == "stored" else None
        found = engine.run(self.job, arrivals, self.plan.output, self.plan.initial_state, method, memory, slices)
        memory.save()
        return found

    def _frames(self, result: Result) -> dict[str, DataFrame]:
        """Results by table, in the order of their commits."""
        frames = {verdicts_table(self.job): result.verdicts}
        if result.dead_letters is not None:
            frames[dead_letters_table(self.job)] = result.dead_letters
        frames[windows_table(self.job)] = result.windows
        return frames

    def _is_kept(self, verdict: str, reasons: tuple[str, ...]) -> bool:
        """Whether the verdicts table keeps such a row; :meth:`_kept` says the same in SQL."""
        return self.job.keep_verdicts == "all" or not (verdict == "accepted" and not reasons)

    def _kept(self, name: str, frame: DataFrame) -> DataFrame:
        if name == verdicts_table(self.job) and self.job.keep_verdicts == "exceptions":
            return frame.filter("NOT (verdict = 'accepted' AND size(reasons) = 0)")
        return frame

    def _count(self, frames: dict[str, DataFrame], result: Result) -> dict[str, DataFrame]:
        """Compute everything once, before anything is written; what each table is given."""
        from pipelines.replay.fingerprint import fingerprint
        from pipelines.replay.write import with_day

        verdicts = frames[verdicts_table(self.job)].groupBy("input", "verdict", "reasons").count()
        # side by side, so that cores compute the one while Spark plans the other; unless both wait for the same
        with ThreadPoolExecutor(1 if result.shared else 2) as both:
            counting, summing = both.submit(verdicts.collect), both.submit(fingerprint, frames[windows_table(self.job)])
        fates, windows = counting.result(), summing.result()
        told = {(row["input"], row["verdict"], tuple(row["reasons"])): row["count"] for row in fates}
        self._tell_fates(told, result.events)
        self.output_fingerprint = windows.fingerprint
        self._expected[windows_table(self.job)] = windows.rows
        if dead_letters_table(self.job) in frames:
            self._expected[dead_letters_table(self.job)] = frames[dead_letters_table(self.job)].count()
        self._confirm(frames.values())
        return {name: with_day(self._kept(name, frame), self._layouts[name]) for name, frame in frames.items()}

    def _take(self, frames: dict[str, DataFrame], events: Mapping[str, int]) -> dict[str, pa.Table]:
        """As :meth:`_count`, with everything in memory."""
        taken = {
            name: take(frame, self._layouts[name]) for name, frame in frames.items() if name != windows_table(self.job)
        }
        name = windows_table(self.job)
        taken[name], self.output_fingerprint = collect_fingerprinted(frames[name], self._layouts[name])
        self._confirm(one.query for one in taken.values())
        rows = {name: one.rows for name, one in taken.items()}
        fates = rows[verdicts_table(self.job)]
        told = [fates[name].to_pylist() for name in ("input", "verdict", "reasons")]
        each = [(of, verdict, tuple(why)) for of, verdict, why in zip(*told, strict=True)]
        keep = [self._is_kept(verdict, why) for _, verdict, why in each]
        rows[verdicts_table(self.job)] = fates.filter(pa.array(keep, pa.bool_()))
        self._expected = Counter({name: len(table) for name, table in rows.items()})
        self._tell_fates(Counter(each), events)
        return rows

    def _tell_fates(self, fates: Mapping[tuple[str, str, tuple[str, ...]], int], events: Mapping[str, int]) -> None:
        """Count events by verdict and reason, and the rows that table ``verdicts`` keeps of them.

        ``fates``: rows by input, verdict and reasons. ``events`` by input, where not every event of it has a row among
        them: the others simply counted.
        """
        verdicts, reasons = Counter(accepted=sum(events.values())), Counter[str]()
        for (of, verdict, why), count in fates.items():
            verdicts[verdict] += count
            verdicts["accepted"] -= count if of in events else 0
            reasons.update(dict.fromkeys(why, count))
        self.counts_by_verdict = {name: verdicts[name] for name in sorted(verdicts) if verdicts[name]}
        self.counts_by_reason = {name: reasons[name] for name in REASONS if reasons[name]}
        kept = sum(count for (_, verdict, why), count in fates.items() if self._is_kept(verdict, why))
        self._expected[verdicts_table(self.job)] = kept

    def _confirm(self, frames: Iterable[DataFrame]) -> None:
        """Hold what the executed queries opened against what the plan said."""
        from pipelines.replay.io_metrics import scanned

        self.scanned = scanned(frames, self.lakehouse, self.plan.reads, self.passes)
        told = [self.scanned[table.table].differs_from(table) for table in self.plan.reads]
        self.warnings = (*self._told, *(one for one in told if one is not None))

    def _write(self, results: Mapping[str, DataFrame | pa.Table]) -> None:
        from pipelines.replay.write import replace_range

        metadata = {"tailrace": "replay", "run_id": self.run_id}
        for name, layout in self._layouts.items():
            self.tell(f"writing {name}")
            self.versions_written[name] = replace_range(
                results[name], self.lakehouse, name, layout, self.plan.output, metadata
            )
            self.rows_written[name] = self._expected[name]


def _ledger_row(plan: Plan, kind: str, reason: str | None, started_us: int) -> dict[str, Any]:
    ends = {
        "output_from": plan.output.from_us,
        "output_to": plan.output.to_us,
        "read_from": plan.read.from_us,
        "read_to": plan.read.to_us,
        "end_of_log": plan.end_of_log_us,
    }
    return {
        "run_id": uuid.uuid4().hex,
        "job": plan.job,
        "kind": kind,
        "reason": reason,
        "status": runs.RUNNING,
        "job_fingerprint": plan.job_fingerprint,
        **{name: None if us is None else to_datetime(us) for name, us in ends.items()},
        "read_rule": plan.read.rule,
        "settled": plan.settled,
        "versions_read": plan.versions,
        "files_planned": {read.table: read.files for read in plan.reads},
        "bytes_planned": {read.table: read.size_bytes for read in plan.reads},
        "started_at": to_datetime(started_us),
        "process": runs.this_process(),
        "engine": _versions(),
    }


def _versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in ("pyspark", "delta-spark", "deltalake")}
    return {"tailrace": __version__, "python": platform.python_version(), **packages}


def _java_version(spark: SparkSession) -> str:
    jvm: Any = spark.sparkContext._jvm
    return str(jvm.System.getProperty("java.version"))


def _now_us() -> int:
    return from_datetime(_now())


def _now() -> datetime:
    return datetime.now(UTC)
