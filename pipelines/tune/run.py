"""The figures of every setting, from one scan of the arrivals: plan, read once, decide, compare with the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch import engine
from pipelines.batch.spark.failures import named_failures
from pipelines.core.model import EVERYTHING, REASONS, Job, OutputRange
from pipelines.lakehouse.layout import OutputTable, output_tables, row_keys
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.bounded_reads import BoundedReads
from pipelines.plan.definition import Plan, ReadTable
from pipelines.plan.initial_state import InitialStates
from pipelines.plan.read_range import ReadRange
from pipelines.replay.builder import LogReads, make_plan, read_table
from pipelines.replay.collect import output_frames, persisted
from pipelines.replay.read import read_arrivals, read_references, within_range
from pipelines.tune.differences import SETTING, Differences, Shape, differences, together
from pipelines.tune.result import Decisions, Figures, Tuning, with_frontier
from pipelines.tune.settings import Setting, settings_of
from pipelines.tune.truth import truth_of, truth_states, without_punctuations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]
_WHOLE = BoundedReads(ReadRange(None, None, "the whole log"), None)
_ADDITIVE = frozenset({"count", "sum"})


def tune(
    job: Job,
    output: OutputRange,
    lakehouse: str | Path | Lakehouse,
    lists: Mapping[str, str],
    *,
    spark: SparkSession | None = None,
    progress: Progress = lambda _: None,
    expect: Callable[[int], None] = lambda _: None,
) -> Tuning:
    """The figures of ``job`` over ``output`` under each setting of ``lists`` (see
    :func:`~pipelines.tune.settings.settings_of`): those of a replay of the range under that setting. Nothing is
    written. Raises :class:`UsageError` as that function and a plan do.
    """
    settings = settings_of(job, lists)
    expect(len(settings) + 2)
    place, truth = Lakehouse.at(lakehouse), truth_of(job)
    progress("planning")
    plan = make_plan(job, output, place)
    as_of = plan.versions_by_name
    reads = [LogReads(one.job, place, as_of=as_of).of(output) for one in settings]
    # only of stream_analytics does the formula of the truth not look at punctuations
    bounded = job.profile == "stream_analytics"
    of_truth = LogReads(truth, place, as_of=as_of).of(output) if bounded else _WHOLE
    plan = replace(plan, reads=_read_once(job, place, plan, [*reads, of_truth]))

    from pipelines.runtime.session import session

    running = spark or session()
    arrivals = read_arrivals(running, job, plan, place)
    references = read_references(running, job, plan, place)
    with persisted(list(arrivals.values())), named_failures():
        scan = Scan(arrivals, references, output)
        figures = measured(settings, truth, reads, of_truth, scan, progress)
    return Tuning(job, output, with_frontier(figures))


class Scan:
    """What was read once: of each input the arrivals that any setting needs, and the references."""

    def __init__(
        self, arrivals: Mapping[str, DataFrame], references: Mapping[str, DataFrame], output: OutputRange = EVERYTHING
    ) -> None:
        self._arrivals = arrivals
        self._references = references
        self.output = output

    def of(self, reads: BoundedReads) -> dict[str, DataFrame]:
        """The arrivals of one setting's read range."""
        return {name: within_range(frame, reads.of(name)) for name, frame in self._arrivals.items()}

    def run(
        self, job: Job, arrivals: Mapping[str, DataFrame], states: InitialStates | None
    ) -> engine.Result | engine.StepsResult:
        """What a replay computes of them."""
        if job.steps is None:
            return engine.run(job, arrivals, self.output, states)
        return engine.run_steps(job, arrivals, self._references, self.output, states)


def measured(
    settings: Sequence[Setting],
    truth: Job,
    reads: Sequence[BoundedReads],
    of_truth: BoundedReads,
    scan: Scan,
    progress: Progress = lambda _: None,
) -> list[Figures]:
    """The figures of each setting; ``reads``: what a replay under it reads, ``of_truth``: what the truth is made of."""
    progress("the complete truth")
    result = scan.run(truth, without_punctuations(scan.of(of_truth)), truth_states(truth))
    figures = []
    with ExitStack() as kept:
        kept.enter_context(persisted(_shared(result)))
        true_rows = output_frames(truth, result)
        kept.enter_context(persisted(list(true_rows.values())))
        for number, (setting, read) in enumerate(zip(settings, reads, strict=True), 1):
            progress(f"setting {number} of {len(settings)}")
            found = scan.run(setting.job, scan.of(read), read.initial_states)
            with persisted(_shared(found)):
                figures.append(
                    Figures(setting, _decisions(found.verdicts), _differences(setting.job, found, true_rows))
                )
    return figures


def _shared(result: engine.Result | engine.StepsResult) -> tuple[DataFrame, ...]:
    return () if isinstance(result, engine.Result) else result.shared_steps


def _decisions(verdicts: DataFrame) -> Decisions:
    moved_us = F.unix_micros("system_timestamp") - F.unix_micros("event_time")
    moved = F.when(F.col("verdict") == "adjusted", moved_us)
    groups = verdicts.groupBy("verdict", "reasons").agg(
        F.count(F.lit(1)).alias("events"),
        F.sum(moved.cast("decimal(20,0)")).alias("moved_sum"),
        F.max(moved).alias("moved_max"),
    )
    return decisions_of(
        (row["verdict"], row["reasons"], row["events"], int(row["moved_sum"] or 0), row["moved_max"] or 0)
        for row in groups.collect()
    )


def decisions_of(groups: Iterable[tuple[str, Sequence[str], int, int, int]]) -> Decisions:
    """From groups of events: verdict, reasons, how many, the sum and the greatest of how far they were moved."""
    verdicts, reasons = Counter[str](), Counter[str]()
    total_us = greatest_us = 0
    for verdict, why, events, moved_us, moved_max_us in groups:
        verdicts[verdict] += events
        reasons.update(dict.fromkeys(why, events))
        total_us, greatest_us = total_us + moved_us, max(greatest_us, moved_max_us)
    by_reason = {name: reasons[name] for name in REASONS if reasons[name]}
    return Decisions({name: verdicts[name] for name in sorted(verdicts)}, by_reason, total_us, greatest_us)


def _differences(
    job: Job, result: engine.Result | engine.StepsResult, true_rows: Mapping[str, DataFrame]
) -> Differences:
    mine, parts = output_frames(job, result), []
    for one in output_tables(job):
        rows, truth = (frame.withColumn(SETTING, F.lit(0)) for frame in (mine[one.table], true_rows[one.table]))
        found = differences(rows, truth, shape_of(job, one, mine[one.table].columns))
        parts.append((one.output, found.get(0, Differences())))
    return together(parts)


def shape_of(job: Job, one: OutputTable, columns: Sequence[str]) -> Shape:
    """How the rows of an output are compared."""
    keys = row_keys(job, one)
    values = tuple(name for name in columns if keys is None or name not in keys)
    if job.steps is not None:
        return Shape(keys, values)
    summed = (each.name for each in job.window_query.aggregates if each.function in _ADDITIVE)
    return Shape(keys, values, frozenset(summed))


def _read_once(job: Job, place: Lakehouse, plan: Plan, reads: Sequence[BoundedReads]) -> tuple[ReadTable, ...]:
    """What one scan reads of each log: the earliest and the latest that any setting needs."""
    tables = LogReads(job, place, as_of=plan.versions_by_name).tables
    return tuple(
        read_table(tables[part.name], part, _cover([one.of(part.name) for one in reads])) for part in job.inputs
    )


def _cover(reads: Sequence[ReadRange]) -> ReadRange:
    begins = [one.from_us for one in reads]
    ends = [one.to_us for one in reads]
    from_us = None if None in begins else min(us for us in begins if us is not None)
    to_us = None if None in ends else max(us for us in ends if us is not None)
    return ReadRange(from_us, to_us, "what any of the settings reads")
