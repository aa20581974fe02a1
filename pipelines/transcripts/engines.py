"""Run one case on an engine and convert the results to the one form that is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import TailraceError
from pipelines.core.model import Arrival, Input, Job, OutputRange
from pipelines.core.steps import SYSTEM_TIMESTAMP
from pipelines.core.time import to_datetime
from pipelines.core.verdicts import VERDICT_FIELDS
from pipelines.job.expressions import instant_sql
from pipelines.plan.initial_state import InitialStates
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy
from pipelines.reference import engine
from pipelines.reference.steps import Relation
from pipelines.transcripts.judge import Outcome, Row, judge, output_columns, planned_reads
from pipelines.transcripts.read import VERDICT_KEYS, Case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.batch.engine import LogSlices
    from pipelines.core.expressions import Evaluate

TINY_PROGRAMS = {
    # a case has a few rows: tasks, files, adaptive planning and compiled programs would cost more than the work
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
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

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        differences = list(self.differences)
        return {"name": self.case.name, "engine": self.engine, "passed": self.passed, "differences": differences}


def run_case(case: Case, engine: str, *, session: SparkSession | None = None, debug: bool = False) -> Verdict:
    """Run and judge ``case`` on the engine ``reference``, ``spark`` or ``stream``.

    A crash of the engine is a difference that names the exception; with ``debug`` it is raised with its stack trace.
    ``session`` left out: the process's Spark session, started only if the engine needs it.
    """
    try:
        if case.refused is not None:
            outcome = Outcome(error=case.refused)
        elif engine == "reference":
            outcome = run_reference(case)
        elif engine == "stream":
            from pipelines.transcripts.stream_engine import run_stream

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
    """The results of the reference engine for ``case``; it reads the whole log and cuts its results to the range."""
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
    """The reference engine's outcome in the one form for all engines."""
    outputs = {name: _output_rows(output_columns(job, name), rows) for name, rows in outcome.outputs.items()}
    return Outcome.of(outcome.decisions, outcome.windows, outputs)


def _output_rows(columns: Sequence[str], relation: Relation) -> tuple[Row, ...]:
    rows = ({SYSTEM_TIMESTAMP: row.at_us, **row.origin, **row.values} for row in relation.rows)
    return tuple({column: row[column] for column in columns} for row in rows)


# -- spark -----------------------------------------------------------------------------------------------------------


def run_spark(case: Case, session: SparkSession | None = None) -> Outcome:
    """The results of the batch engine for ``case`` from the arrivals inside the plan's read range alone."""
    assert case.job is not None
    spark = session or _session()
    reads = planned_reads(case)
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
    """The results of the batch engine for ``arrivals``, collected in one Spark job; errors are raised."""
    from pipelines.batch import engine
    from pipelines.batch.spark.failures import named_failures
    from pipelines.batch.spark.local_rows import local_rows_of_each

    if job.steps is not None:
        found = engine.run_steps(job, arrivals, references or {}, output, initial_states, strategy, slices)
        with named_failures():
            verdicts, *outputs = local_rows_of_each(found.verdicts, *found.outputs.values())
        return Outcome(
            tuple(map(verdict_row, verdicts)), outputs=dict(zip(found.outputs, map(tuple, outputs), strict=True))
        )
    result = engine.run(job, arrivals, output, initial_states, strategy, slices=slices)
    verdicts, windows = local_rows_of_each(result.verdicts, result.windows.drop("output_date"))
    return Outcome(tuple(map(verdict_row, verdicts)), tuple(windows))


def _session() -> SparkSession:
    from pipelines.runtime.session import session

    return session("tailrace-verify", short=True)


@contextmanager
def tiny_programs(spark: SparkSession) -> Iterator[None]:
    """Session settings for programs of a few rows, restored afterwards."""
    with settings(spark, TINY_PROGRAMS):
        yield


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str | None]) -> Iterator[None]:
    """Session settings, None for the default of Spark, restored afterwards."""
    before = {key: spark.conf.get(key, None) for key in values}
    _set(spark, values)
    try:
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, values: Mapping[str, str | None]) -> None:
    for key, value in values.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def verdict_row(row: Mapping[str, Any]) -> Row:
    """A row of the batch engine's verdicts with the keys of a transcript's."""
    values = {key: row[name] for key, (name, _) in zip(VERDICT_KEYS, VERDICT_FIELDS, strict=True)}
    return values | {name: values[name] or [] for name in ("reasons", "missed_windows")}


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
        if row.input == part.log
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
