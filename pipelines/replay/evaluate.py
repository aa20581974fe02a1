"""Evaluate the stages of a plan: read the arrivals that it names, compute in Spark, replace the output range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, assert_never

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipelines.batch import engine
from pipelines.batch.spark.failures import value_refused
from pipelines.batch.stream_analytics.watermarks.file_order import message_of_disorder
from pipelines.core.model import REASONS, Job
from pipelines.core.time import format_instant
from pipelines.lakehouse.cache import summaries
from pipelines.lakehouse.fence import Fence
from pipelines.lakehouse.layout import result_tables, windows_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.spark_client import require_client, require_safe_commits
from pipelines.plan.definition import Plan
from pipelines.plan.stages import (
    Compute,
    KeepSummary,
    ReadLog,
    ReadSnapshots,
    Replace,
    Stage,
    WriteAside,
    describe,
    stages_of,
)
from pipelines.plan.watermark_strategy import WatermarkStrategy
from pipelines.replay.collect import Computed, computed, frames_of, output_frames, persisted
from pipelines.replay.cost import measured
from pipelines.replay.fingerprint import NO_ROWS, Counted, fingerprint
from pipelines.replay.io_metrics import scanned, watched
from pipelines.replay.read import log_slices, read_arrivals, read_references, reference_fingerprints
from pipelines.replay.size import tasks_of
from pipelines.replay.summary import Findings, together
from pipelines.replay.write import check_columns, replace_range, with_day
from pipelines.runtime.telemetry import span

_SPANS: dict[type, str] = {
    KeepSummary: "scan",
    ReadLog: "scan",
    ReadSnapshots: "scan",
    Compute: "decide",
    Replace: "write",
    WriteAside: "write",
}
"""What telemetry calls the stages. Spark reads the files of a log while it decides."""
_SHUFFLE = "spark.sql.shuffle.partitions"


def evaluate(
    plan: Plan,
    job: Job,
    lakehouse: Lakehouse,
    spark: SparkSession,
    fence: Fence,
    found: Findings,
    progress: Callable[[str], None],
) -> None:
    """Run the stages of ``plan`` and fill ``found``; ``progress`` is called with the sentence of each stage.

    Each slice is computed whole before its first commit, and its verdicts are committed before its outputs, so whoever
    sees new results sees their verdicts. Raises :class:`UsageError` if a part of a table of other columns would be
    replaced, and :class:`EnvironmentUnfit` as ``fence`` does.
    """
    found.engine["java"] = _java_version(spark)
    require_client(spark, lakehouse)
    if any(part.writer == "spark" for part in plan.parts):
        require_safe_commits(spark, lakehouse)
    found.reference_fingerprints = reference_fingerprints(read_references(spark, job, plan, lakehouse))
    counted: dict[str, Counted] = {}
    with measured(spark, found.cost):
        for part in plan.parts:
            of_part = Findings()
            try:
                evaluator = _Evaluator(part, job, lakehouse, spark, of_part)
                for name, more in evaluator.run(fence, progress).items():
                    counted[name] = counted.get(name, NO_ROWS) + more
            except BaseException as error:
                if part.output.from_us is not None and part is not plan.parts[0]:
                    begun = format_instant(part.output.from_us)
                    error.add_note(f"the slices before {begun} are written: --from {begun} goes on there")
                raise
            finally:
                found.add(of_part)
    found.fingerprints = {name: one.fingerprint for name, one in counted.items()}
    found.output_fingerprint = together(found.fingerprints | found.reference_fingerprints)


@contextmanager
def _enough_tasks(spark: SparkSession, plan: Plan) -> Iterator[None]:
    """A block in which shuffles have as many tasks as the plan's arrivals need, and no fewer than the session's."""
    before = str(spark.conf.get(_SHUFFLE))
    spark.conf.set(_SHUFFLE, max(int(before), tasks_of(plan)))
    try:
        yield
    finally:
        spark.conf.set(_SHUFFLE, before)


def recompute(plan: Plan, job: Job, lakehouse: Lakehouse, spark: SparkSession) -> str:
    """The output fingerprint that executing ``plan`` gives, at the versions it names; nothing is written anywhere.

    Windows are computed alone, on large logs by another strategy than with verdicts.
    """
    assert plan.job_fingerprint == job.fingerprint, "the plan was made for another job"
    counted: dict[str, Counted] = {}
    for part in plan.parts:
        with _enough_tasks(spark, part):
            for name, more in _recomputed(part, job, lakehouse, spark).items():
                counted[name] = counted.get(name, NO_ROWS) + more
    references = reference_fingerprints(read_references(spark, job, plan, lakehouse))
    return together({name: one.fingerprint for name, one in counted.items()} | references)


def _recomputed(plan: Plan, job: Job, lakehouse: Lakehouse, spark: SparkSession) -> dict[str, Counted]:
    arrivals = read_arrivals(spark, job, plan, lakehouse)
    if job.steps is None:
        windows = engine.windows_alone(job, arrivals, plan.output, plan.initial_states, plan.sorting)
        return {windows_table(job): fingerprint(windows)}
    references = read_references(spark, job, plan, lakehouse)
    result = engine.run_steps(job, arrivals, references, plan.output, plan.initial_states, plan.sorting)
    with persisted(result.shared_steps):
        return {name: fingerprint(rows) for name, rows in output_frames(job, result).items()}


class _Evaluator:
    """Runs the stages of a plan without slices."""

    def __init__(self, plan: Plan, job: Job, lakehouse: Lakehouse, spark: SparkSession, found: Findings) -> None:
        self._plan = plan
        self._job = job
        self._lakehouse = lakehouse
        self._spark = spark
        self._found = found

    @cached_property
    def arrivals(self) -> dict[str, DataFrame]:
        return read_arrivals(self._spark, self._job, self._plan, self._lakehouse)

    @cached_property
    def references(self) -> dict[str, DataFrame]:
        return read_references(self._spark, self._job, self._plan, self._lakehouse)

    def run(self, fence: Fence, progress: Callable[[str], None]) -> Mapping[str, Counted]:
        """Run every stage; the rows of each output, by table."""
        with ExitStack() as kept:
            kept.enter_context(_enough_tasks(self._spark, self._plan))
            for stage in stages_of(self._plan):
                sentence = describe(stage)
                progress(sentence)
                with span(_SPANS[type(stage)], run_id=fence.row["run_id"], stage=sentence):
                    self._evaluate(stage, kept, fence)
        return self._results.counted

    def _evaluate(self, stage: Stage, kept: ExitStack, fence: Fence) -> None:
        match stage:
            case KeepSummary(one):
                summaries.keep(self._lakehouse, one.input, one.unsaved)
            case ReadLog():
                self.arrivals  # noqa: B018  # opens the logs, before anything is computed of them
            case ReadSnapshots():
                self.references  # noqa: B018  # likewise
            case Compute():
                self._results = self.compute(stage, kept)
            case Replace(one):
                self._write(one.table, one.table, fence)
            case WriteAside(one):
                self._write(one.table, stage.place, fence)
            case _ as never:
                assert_never(never)

    def _write(self, name: str, place: str, fence: Fence) -> None:
        """Replace the output range of the table ``place`` by the results of ``name``."""
        plan, found, results, layout = self._plan, self._found, self._results, dict(result_tables(self._job))[name]
        about = {"tailrace": "preview" if plan.preview else "replay", "run_id": fence.row["run_id"]}
        found.versions_written[place] = replace_range(
            results.tables[name], self._lakehouse, place, layout, plan.output, about, fence.check
        )
        found.rows_written[place] = results.rows[name]

    def compute(self, stage: Compute, kept: ExitStack) -> Computed:
        """The results, with what was counted and read of them in the findings."""
        try:
            results = self._computed(stage, stage.strategy, kept)
        except PySparkException as error:
            disorder = message_of_disorder(error)
            if disorder is None:
                if (refused := value_refused(error)) is not None:
                    raise refused from error
                raise
            # nothing was written so far
            warning = f"a file was expected to be in order and is not: {disorder}; everything was sorted instead"
            self._found.warnings.append(warning)
            results = self._computed(stage, stage.sorting, kept)
        self._found.writer = stage.writer
        return results

    def _computed(self, stage: Compute, strategy: WatermarkStrategy, kept: ExitStack) -> Computed:
        plan, job = self._plan, self._job
        slices = log_slices(self._spark, plan, self._lakehouse) if strategy.verdicts == "file_order" else None
        with watched(self._spark) as passes:
            how = (plan.output, plan.initial_states, strategy, slices)
            result = (
                engine.run(job, self.arrivals, *how)
                if job.steps is None
                else engine.run_steps(job, self.arrivals, self.references, *how)
            )
        layouts = dict(result_tables(job))
        for name, frame in frames_of(job, result).items():
            check_columns(self._lakehouse, name, with_day(frame, layouts[name]), plan.output)
        results = kept.enter_context(computed(job, result, stage.writer))
        self._count_decisions(results, sum(result.events.values()), set(result.events))
        read = scanned(results.queries, self._lakehouse, plan.reads, passes)
        self._found.files_read = {name: one.files for name, one in read.items()}
        self._found.bytes_read = {name: one.size_bytes for name, one in read.items()}
        self._found.scans = {name: one.scans for name, one in read.items()}
        differences = (read[table.table].difference_from(table) for table in plan.reads)
        self._found.warnings += [one for one in differences if one is not None]
        return results

    def _count_decisions(self, results: Computed, counted: int, incomplete: set[str]) -> None:
        """Events by verdict and reason. ``counted`` events are of the ``incomplete`` inputs, of whose events some have
        no verdict row: these simply counted."""
        verdicts, reasons = Counter(accepted=counted), Counter[str]()
        for (name, verdict, why), count in results.decisions.items():
            verdicts[verdict] += count
            verdicts["accepted"] -= count if name in incomplete else 0
            reasons.update(dict.fromkeys(why, count))
        self._found.counts_by_verdict = {name: verdicts[name] for name in sorted(verdicts) if verdicts[name]}
        self._found.counts_by_reason = {name: reasons[name] for name in REASONS if reasons[name]}


def _java_version(spark: SparkSession) -> str:
    jvm: Any = spark.sparkContext._jvm
    return str(jvm.System.getProperty("java.version"))
