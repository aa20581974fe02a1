"""The contenders: each answers one question about one log, once to be judged and then as often as it is timed."""

from __future__ import annotations

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench import on_spark
from bench.logs import INPUTS, Log
from bench.meters import ProcessMeter
from bench.on_one_machine import Engine
from bench.questions import Question
from pipelines.batch import engine
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import to_datetime
from pipelines.core.verdicts import IS_EXCEPTION_SQL
from pipelines.lakehouse.layout import output_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.run import stream
from pipelines.plan.watermark_strategy import WatermarkStrategy
from pipelines.replay.builder import make_plan
from pipelines.replay.read import log_slices, read_arrivals, read_references
from pipelines.replay.run import replay
from pipelines.tune.result import Tuning
from pipelines.tune.run import tune

Exceptions = Counter[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Site:
    """Where contenders run: one session, one log, and ``scratch``, a lakehouse that holds the log and is written to."""

    spark: SparkSession
    jvm_pid: int
    log: Log
    scratch: Lakehouse

    def arrivals(self) -> DataFrame:
        """The log as a new DataFrame."""
        return on_spark.arrivals(self.spark, self.log)

    def collected(self, frame: DataFrame, question: Question) -> pa.Table:
        """The question's columns of ``frame``, through a file, so that size does not matter."""
        place = self.scratch.folder / "collected"
        frame.select("window_end", *question.keys, *question.values).write.mode("overwrite").parquet(str(place))
        table = pq.read_table(place)
        shutil.rmtree(place)
        return table

    def written(self, table: str, question: Question) -> pa.Table:
        """The question's columns of a Delta table under ``scratch``."""
        opened = self.scratch.open(table)
        assert opened is not None, f"{table} was written"
        return opened.to_pyarrow_table(columns=["window_end", *question.keys, *question.values])

    def clear(self) -> None:
        """Remove everything that contenders wrote."""
        for place in self.scratch.folder.iterdir():
            if place.name not in INPUTS:
                shutil.rmtree(place)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is judged: the windows, and where the contender gives verdicts how many exceptions, by their reasons."""

    windows: pa.Table
    exceptions: Exceptions | None = None


@dataclass(frozen=True)
class Contender(ABC):
    """``title`` says what it is; ``against`` names the contender that its times are divided by.

    ``exact``: does it promise Tailrace's numbers? ``most_rounds``: a slow one need not run in every round.
    """

    name: str
    title: str
    site: Site
    question: Question
    against: str = "plain"
    exact: bool = True
    output: OutputRange = EVERYTHING
    most_rounds: int = 1_000

    @abstractmethod
    def answer(self) -> Answer:
        """The result, to be judged; its time does not count."""

    @abstractmethod
    def seconds(self) -> float:
        """Do it all once more; how long it took."""

    @property
    def uses_spark(self) -> bool:
        return True

    def processes(self) -> ProcessMeter:
        """The processes that do its work: this one, the JVM and what the JVM started."""
        return ProcessMeter([os.getpid()], with_descendants=[self.site.jvm_pid])


@dataclass(frozen=True, slots=True)
class Frames:
    """What is computed: the windows that are judged, ``verdicts`` that are exceptions, and other results. ``shared`` is
    kept while all are computed."""

    windows: DataFrame
    verdicts: DataFrame | None = None
    others: tuple[DataFrame, ...] = ()
    shared: tuple[DataFrame, ...] = ()

    @contextmanager
    def kept(self) -> Iterator[tuple[DataFrame, ...]]:
        """All results, with what they share kept meanwhile."""
        for frame in self.shared:
            frame.persist()
        try:
            yield (*([] if self.verdicts is None else [self.verdicts]), self.windows, *self.others)
        finally:
            for frame in self.shared:
                frame.unpersist()


@dataclass(frozen=True)
class ToNowhere(Contender):
    """DataFrames computed to the last row and thrown away (Spark's sink ``noop``)."""

    frames: Callable[[Site, Question], Frames] = field(kw_only=True)

    def answer(self) -> Answer:
        frames = self.frames(self.site, self.question)
        with frames.kept():
            counts = None if frames.verdicts is None else on_spark.counted(frames.verdicts)
            return Answer(self.site.collected(frames.windows, self.question), counts)

    def seconds(self) -> float:
        began = time.perf_counter()
        frames = self.frames(self.site, self.question)
        with frames.kept() as each:
            if frames.shared or len(each) == 1:
                for frame in each:
                    _to_nowhere(frame)
            else:
                # side by side, as a replay counts verdicts and windows
                with ThreadPoolExecutor(len(each)) as pool:
                    list(pool.map(_to_nowhere, each))
        return time.perf_counter() - began


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class PlainToDelta(Contender):
    """Plain windowing, written as a Delta table by day."""

    def answer(self) -> Answer:
        self.seconds()
        return Answer(self.site.written("windows/plain", self.question))

    def seconds(self) -> float:
        self.site.clear()
        began = time.perf_counter()
        windows = on_spark.plain(self.site.arrivals(), self.question)
        writer = windows.withColumn("output_date", F.to_date("window_end")).write.format("delta")
        writer.mode("overwrite").partitionBy("output_date").save(self.site.scratch.uri("windows/plain"))
        return time.perf_counter() - began


@dataclass(frozen=True)
class Replay(Contender):
    """``tailrace replay``: plan, verdicts, windows, fingerprint and ledger."""

    def answer(self) -> Answer:
        self.site.clear()
        self._replay()
        job = self.question.job()
        exceptions = self.site.spark.read.format("delta").load(self.site.scratch.uri(f"verdicts/{job.name}"))
        windows = self.site.written(output_tables(job)[0].table, self.question)
        return Answer(windows, on_spark.counted(exceptions) if self.output == EVERYTHING else None)

    def seconds(self) -> float:
        self.site.clear()
        began = time.perf_counter()
        self._replay()
        return time.perf_counter() - began

    def _replay(self) -> None:
        replay(self.question.job(), self.output, self.site.scratch, spark=self.site.spark)


@dataclass(frozen=True)
class Tune(Replay):
    """``tailrace tune`` over ``lists``, the job's own setting among them; judged with a replay under that one."""

    lists: Mapping[str, str] = field(kw_only=True)

    def answer(self) -> Answer:
        answer = super().answer()
        own = next(one.decisions for one in self._tuned().settings if one.setting.is_own)
        found = Counter(dict(own.counts_by_reason))
        assert answer.exceptions is not None, "settings are compared over the whole log"
        assert found == Counter(reason for reasons in answer.exceptions.elements() for reason in reasons), found
        return answer

    def seconds(self) -> float:
        began = time.perf_counter()
        self._tuned()
        return time.perf_counter() - began

    def _tuned(self) -> Tuning:
        return tune(self.question.job(), self.output, self.site.scratch, self.lists, spark=self.site.spark)


@dataclass(frozen=True)
class Live(Contender):
    """``tailrace stream --until-caught-up`` from the beginning of the log."""

    def answer(self) -> Answer:
        self.seconds()
        return Answer(self.site.written(f"stream_windows/{self.question.job().name}", self.question))

    def seconds(self) -> float:
        self.site.clear()
        began = time.perf_counter()
        stream(self.question.job(), self.site.scratch, spark=self.site.spark)
        return time.perf_counter() - began


@dataclass(frozen=True)
class OneMachine(Contender):
    """The exact job in an engine without Spark; its result ends as an Arrow table in the engine's process."""

    engine: Engine = field(kw_only=True)

    def answer(self) -> Answer:
        return Answer(self.engine.answer(self.site.log.files(), self.question))

    def seconds(self) -> float:
        return self.engine.seconds(self.site.log.files(), self.question)

    @property
    def uses_spark(self) -> bool:
        return False

    def processes(self) -> ProcessMeter:
        return ProcessMeter([self.engine.pid])


def plain(site: Site, question: Question) -> Frames:
    """Windows by event time at face value."""
    return Frames(on_spark.plain(site.arrivals(), question))


def textbook(site: Site, question: Question) -> Frames:
    """The exact job through Spark's Window."""
    return Frames(on_spark.textbook(site.arrivals(), question))


@dataclass(frozen=True)
class _Replayed:
    """What ``replay`` hands to the engine: all of it is part of the time, the plan too."""

    job: Job
    arrivals: dict[str, DataFrame]
    references: dict[str, DataFrame]
    strategy: WatermarkStrategy
    slices: engine.LogSlices | None


def _replayed(site: Site, question: Question, strategy: WatermarkStrategy | None = None) -> _Replayed:
    job, lakehouse = question.job(), site.log.lakehouse
    plan = make_plan(job, EVERYTHING, lakehouse)
    chosen = strategy or plan.strategy
    slices = log_slices(site.spark, plan, lakehouse) if chosen.verdicts == "file_order" else None
    arrivals, references = (read(site.spark, job, plan, lakehouse) for read in (read_arrivals, read_references))
    return _Replayed(job, arrivals, references, chosen, slices)


def tailrace(site: Site, question: Question, strategy: WatermarkStrategy | None = None) -> Frames:
    """Tailrace's windows alone, by the strategy that the plan chooses unless another is given."""
    run = _replayed(site, question, strategy)
    return Frames(engine.windows_alone(run.job, run.arrivals, strategy=run.strategy, slices=run.slices))


def tailrace_with_exceptions(site: Site, question: Question, strategy: WatermarkStrategy | None = None) -> Frames:
    """Tailrace's windows, and its verdicts as ``keep_verdicts: exceptions`` keeps them."""
    run = _replayed(site, question, strategy)
    result = engine.run(run.job, run.arrivals, strategy=run.strategy, slices=run.slices)
    return Frames(result.windows, result.verdicts.filter(IS_EXCEPTION_SQL), shared=result.shared)


def script(site: Site, question: Question) -> Frames:
    """All outputs of the question's script; the first one has its windows."""
    run = _replayed(site, question)
    result = engine.run_steps(run.job, run.arrivals, run.references, strategy=run.strategy, slices=run.slices)
    windows, *others = result.outputs.values()
    return Frames(windows, others=tuple(others), shared=result.shared_steps)


def within(windows: pa.Table, output: OutputRange) -> pa.Table:
    """The rows of an output range, which is half-open on ``window_end``."""
    ends = windows["window_end"]
    kept = pc.is_valid(ends)
    if output.from_us is not None:
        kept = pc.and_(kept, pc.greater_equal(ends, _scalar(output.from_us)))
    if output.to_us is not None:
        kept = pc.and_(kept, pc.less(ends, _scalar(output.to_us)))
    return windows.filter(kept)


def _scalar(instant_us: int) -> pa.Scalar:
    return pa.scalar(to_datetime(instant_us), pa.timestamp("us", "UTC"))
