"""Run one case on an engine and bring the results into the one form that is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import TailraceError
from pipelines.core.model import Arrival, Fate, Input, Job, OutputRange, WindowRow
from pipelines.core.steps import SYSTEM_TIMESTAMP
from pipelines.core.time import to_datetime
from pipelines.job.expressions import instant_sql
from pipelines.plan.bounded_reads import bounded_reads
from pipelines.plan.initial_state import InitialStates
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy
from pipelines.reference import engine
from pipelines.reference.steps import Relation
from pipelines.transcripts.history import ListedHistory
from pipelines.transcripts.judge import Outcome, Row, judge, output_columns
from pipelines.transcripts.read import Case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.batch.engine import LogSlices
    from pipelines.core.expressions import Evaluate

ENGINES = ("reference", "spark", "stream")
"""One event at a time, the batch program, the live run."""

_TINY_PROGRAMS = {
    # a case has a handful of rows: tasks, files and replanning would cost more than the work
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


_LOG_COLUMNS = (
    ("arrival_time", "timestamp"),
    ("input_partition", "int"),
    ("sequence", "bigint"),
    ("kind", "string"),
    ("punctuation_time", "timestamp"),
    ("cause", "string"),
    ("batch_id", "string"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one case and engine: passed when there are no ``differences``."""

    case: Case
    engine: str
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Did the engine give exactly what the case expects?"""
        return not self.differences


def run_case(case: Case, engine: str, *, session: SparkSession | None = None, debug: bool = False) -> Verdict:
    """Run and judge ``case`` on ``engine``; a crash of the engine is a difference that names the exception.

    ``session`` left out: the process's Spark session, started only if the engine needs it. Under ``debug`` a crash
    passes through with its stack trace.
    """
    try:
        if case.refused is not None:
            outcome = Outcome(error=case.refused)
        elif engine == "reference":
            outcome = run_reference(case)
        elif engine == "stream":
            from pipelines.transcripts.stream import run_stream

            (outcome,) = run_stream([case], session)
        else:
            outcome = run_spark(case, session)
    except Exception as error:
        if debug:
            raise
        first_line = (str(error).strip().splitlines() or [""])[0]
        return Verdict(case, engine, (f"the engine crashed: {type(error).__name__}: {first_line}",))
    return Verdict(case, engine, tuple(judge(case, outcome)))


# -- reference -------------------------------------------------------------------------------------------------------


def run_reference(case: Case) -> Outcome:
    """What the reference engine gives for ``case``; it reads the whole log and cuts its results to the range."""
    from pipelines.batch.spark.expressions import SparkExpressions

    assert case.job is not None
    steps = case.job.steps
    evaluate: Evaluate = SparkExpressions()
    by_ansi: Evaluate = SparkExpressions(ansi=steps is not None and steps.ansi)
    try:
        outcome = engine.run(
            case.job,
            case.arrivals,
            case.output,
            evaluate=evaluate,
            instant_sql=instant_sql,
            references=case.references,
            evaluate_steps=by_ansi,
        )
    except TailraceError as error:
        return Outcome(error=error)
    return reference_outcome(case.job, outcome)


def reference_outcome(job: Job, outcome: engine.Outcome) -> Outcome:
    """What the reference engine gave, in the one form for all engines."""
    return Outcome(
        tuple(map(_fate, outcome.fates)),
        tuple(map(_window, outcome.windows)),
        {name: _output_rows(output_columns(job, name), rows) for name, rows in outcome.outputs.items()},
    )


def _fate(fate: Fate) -> Row:
    return {
        "input": fate.input,
        "partition": fate.input_partition,
        "sequence": fate.sequence,
        "arrival_time": fate.arrival_time_us,
        "event_time": fate.event_time_us,
        "verdict": fate.verdict,
        "reasons": list(fate.reasons),
        "system_timestamp": fate.system_timestamp_us,
        "lifetime_end": fate.lifetime_end_us,
        "watermark": fate.watermark_us,
        "missed_windows": list(fate.missed_windows_us),
    }


def _window(row: WindowRow) -> Row:
    return {
        "window_start": row.window_start_us,
        "window_end": row.window_end_us,
        "window_id": row.window_id,
        **row.values,
    }


def _output_rows(columns: Sequence[str], relation: Relation) -> tuple[Row, ...]:
    rows = ({SYSTEM_TIMESTAMP: row.at_us, **row.origin, **row.values} for row in relation.rows)
    return tuple({column: row[column] for column in columns} for row in rows)


# -- spark -----------------------------------------------------------------------------------------------------------


def run_spark(case: Case, session: SparkSession | None = None) -> Outcome:
    """What the batch engine gives for ``case`` from no more than the arrivals inside the plan's read range."""
    assert case.job is not None
    spark = session or _session()
    reads = bounded_reads(case.job, case.output, ListedHistory(case.job, case.arrivals))
    frames = {
        part.name: arrival_frame(
            spark, part, [one for one in case.arrivals if one.arrival_time_us in reads.of(part.name)]
        )
        for part in case.job.inputs
    }
    references = reference_frames(spark, case.job, case.references)
    try:
        return run_batch(case.job, frames, case.output, reads.initial_states, references=references)
    except TailraceError as error:
        return Outcome(error=error)


def run_batch(
    job: Job,
    arrivals: Mapping[str, DataFrame],
    output: OutputRange,
    initial_states: InitialStates | None = None,
    strategy: WatermarkStrategy = SORT,
    slices: LogSlices | None = None,
    references: Mapping[str, DataFrame] | None = None,
) -> Outcome:
    """What the batch engine gives for ``arrivals``, collected; errors pass through."""
    from pipelines.batch import engine
    from pipelines.batch.spark.failures import named_failures
    from pipelines.batch.spark.local_rows import local_rows

    if job.steps is not None:
        found = engine.run_steps(job, arrivals, references or {}, output, initial_states, strategy, slices)
        with named_failures():
            outputs = {name: tuple(local_rows(frame)) for name, frame in found.outputs.items()}
        return Outcome(tuple(map(_spark_fate, local_rows(found.verdicts))), outputs=outputs)
    result = engine.run(job, arrivals, output, initial_states, strategy, slices=slices)
    verdicts = [_spark_fate(row) for row in local_rows(result.verdicts)]
    windows = [{key: row[key] for key in row if key != "output_date"} for row in local_rows(result.windows)]
    return Outcome(tuple(verdicts), tuple(windows))


def _session() -> SparkSession:
    from pipelines.runtime.session import session

    return session("tailrace-verify", short=True)


@contextmanager
def tiny_programs(spark: SparkSession) -> Iterator[None]:
    """Session settings for programs of a few rows, taken back afterwards."""
    before = {key: spark.conf.get(key, None) for key in _TINY_PROGRAMS}
    for key, value in _TINY_PROGRAMS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _spark_fate(row: Mapping[str, Any]) -> Row:
    renamed = {("partition" if key == "input_partition" else key): value for key, value in row.items()}
    renamed["reasons"] = list(renamed["reasons"] or [])
    renamed["missed_windows"] = list(renamed["missed_windows"] or [])
    return renamed


def arrival_frames(spark: SparkSession, job: Job, arrivals: Sequence[Arrival]) -> dict[str, DataFrame]:
    """Each input's arrivals as a DataFrame with the columns of table ``arrivals/<input>``."""
    return {part.name: arrival_frame(spark, part, arrivals) for part in job.inputs}


def arrival_frame(spark: SparkSession, part: Input, arrivals: Sequence[Arrival]) -> DataFrame:
    """The arrivals of one input; ``arrival_date`` is the UTC date of ``arrival_time``."""
    from pipelines.batch.spark.local_rows import local_frame

    columns = [*_LOG_COLUMNS, *((column.name, column.type) for column in part.columns), ("arrival_date", "date")]
    rows = [
        (
            row.arrival_time_us,
            row.input_partition,
            row.sequence,
            "event" if row.punctuation_us is None else "punctuation",
            row.punctuation_us,
            row.cause,
            "transcript",
            *(row.payload.get(column.name) for column in part.columns),
            to_datetime(row.arrival_time_us).date(),
        )
        for row in arrivals
        if row.input == (part.same_log_as or part.name)
    ]
    return local_frame(spark, columns, rows)


def reference_frames(
    spark: SparkSession, job: Job, references: Mapping[str, Sequence[Mapping[str, object]]]
) -> dict[str, DataFrame]:
    """The rows of each reference as a DataFrame: its columns, ``effective_from``, and ``position`` in its file."""
    from pipelines.batch.spark.local_rows import local_frame

    frames = {}
    for one in job.references:
        columns = [(column.name, column.type) for column in one.columns]
        rows = [
            (*row.values(), None if one.effective is None else row[one.effective], position)
            for position, row in enumerate(references[one.name])
        ]
        frames[one.name] = local_frame(spark, [*columns, ("effective_from", "timestamp"), ("position", "bigint")], rows)
    return frames
