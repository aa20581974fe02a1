"""Settings one after another over the persisted arrivals: for every query, window and profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch import engine
from pipelines.batch.stream_analytics.several_policies import SETTING
from pipelines.core.model import EVERYTHING, Job, OutputRange, Query
from pipelines.lakehouse.layout import OutputTable, output_tables, row_keys
from pipelines.plan.bounded_reads import BoundedReads
from pipelines.plan.initial_state import InitialStates
from pipelines.replay.collect import output_frames, persisted
from pipelines.replay.read import within_range
from pipelines.tune.differences import Differences, Shape, differences, together
from pipelines.tune.result import Decisions, Figures, decisions_of
from pipelines.tune.settings import Setting
from pipelines.tune.truth import truth_of, truth_states, without_punctuations

_ADDITIVE = frozenset({"count", "sum"})


class Scan:
    """What was read once: of each input the arrivals that any setting needs, and the references."""

    def __init__(
        self, arrivals: Mapping[str, DataFrame], references: Mapping[str, DataFrame], output: OutputRange = EVERYTHING
    ) -> None:
        self.arrivals = arrivals
        self._references = references
        self.output = output

    def of(self, reads: BoundedReads) -> dict[str, DataFrame]:
        """The arrivals of one setting's read range."""
        return {name: within_range(frame, reads.of(name)) for name, frame in self.arrivals.items()}

    def run(
        self, job: Job, arrivals: Mapping[str, DataFrame], states: InitialStates | None
    ) -> engine.Result | engine.StepsResult:
        """What a replay computes of them."""
        if job.steps is None:
            return engine.run(job, arrivals, self.output, states)
        return engine.run_steps(job, arrivals, self._references, self.output, states)


def one_by_one(
    settings: Sequence[Setting],
    reads: Sequence[BoundedReads],
    of_truth: BoundedReads,
    scan: Scan,
    progress: Callable[[str], None],
) -> list[Figures]:
    """The figures of each setting; ``reads``: what a replay under it reads, ``of_truth``: what the truth is made of."""
    truth = truth_of(settings[0].job)
    figures = []
    with ExitStack() as kept:
        kept.enter_context(persisted(list(scan.arrivals.values())))
        progress("the complete truth")
        result = scan.run(truth, without_punctuations(scan.of(of_truth)), truth_states(truth))
        kept.enter_context(persisted(_shared(result)))
        true_rows = output_frames(truth, result)
        kept.enter_context(persisted(list(true_rows.values())))
        for number, (setting, read) in enumerate(zip(settings, reads, strict=True), 1):
            progress(f"setting {number} of {len(settings)}")
            found = scan.run(setting.job, scan.of(read), read.initial_states)
            with persisted(_shared(found)):
                different = _differences(setting.job, found, true_rows)
                figures.append(Figures(setting, _decisions(found.verdicts), different))
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
        ((row["verdict"], row["reasons"]), row["events"], int(row["moved_sum"] or 0), row["moved_max"] or 0)
        for row in groups.collect()
    )


def _differences(
    job: Job, result: engine.Result | engine.StepsResult, true_rows: Mapping[str, DataFrame]
) -> Differences:
    mine, parts = output_frames(job, result), []
    for one in output_tables(job):
        truth = true_rows[one.table].withColumn(SETTING, F.lit(0))
        rows = mine[one.table].withColumn(SETTING, F.lit(1)).unionByName(truth)
        (found,) = differences(rows, 1, _shape(job, one, mine[one.table].columns))
        parts.append((one.output, found))
    return together(parts)


def _shape(job: Job, one: OutputTable, columns: Sequence[str]) -> Shape:
    """How the rows of an output are compared."""
    keys = row_keys(job, one)
    values = tuple(name for name in columns if keys is None or name not in keys)
    if job.steps is not None:
        return Shape(keys, values)
    return Shape(keys, values, additive(job.window_query))


def additive(query: Query) -> frozenset[str]:
    """The aggregates that are zero of no events."""
    return frozenset(each.name for each in query.aggregates if each.function in _ADDITIVE)
