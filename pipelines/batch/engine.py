"""The batch engine: a job and its arrival logs to verdicts and window results, as lazy DataFrames.

Ordering decides first, windows see system timestamps only (G1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.aggregates import aggregate
from pipelines.batch.atlas import ordering as atlas
from pipelines.batch.columns import (
    ARRIVAL_US,
    EVENT_US,
    INPUT,
    LIFETIME_END_US,
    MISSED_US,
    PARTITION,
    REASONS,
    SEQUENCE,
    SYSTEM_US,
    VERDICT,
    WATERMARK_US,
    WINDOW_END_US,
    WINDOW_ID,
    WINDOW_START_US,
    within,
)
from pipelines.batch.decisions import Decided
from pipelines.batch.logs import Log, LogSlice
from pipelines.batch.steps.outputs import counted, evaluate
from pipelines.batch.stream_analytics import ordering as stream_analytics
from pipelines.batch.stream_insight import ordering as stream_insight
from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Job, OutputRange, output_name
from pipelines.plan.initial_state import InitialStates
from pipelines.plan.watermark_strategy import SORT, WatermarkStrategy

LogSlices = Mapping[str, Callable[[], Sequence[LogSlice]]]
"""By input, where it is known: its arrivals once more, in the order in which files hold them; asked for if needed."""


@dataclass(frozen=True)
class Result:
    """What a run gives, lazily: the caller writes or collects.

    ``verdicts``: the columns of table ``verdicts/<job>`` without ``arrival_date``, one row for every event whose
    arrival time lies in the output range, the ones that simply counted included; but of inputs in ``events``, which
    says how many events there are, some of the latter may be missing.
    ``windows``: ``window_start``, ``window_end``, ``window_id``, group keys by output name, aggregates; every window
    whose end lies in the output range. ``dead_letters``: None where the product has none. ``shared``: what several of
    these are made of and is costly to make: who wants more than one of them persists it meanwhile.
    """

    verdicts: DataFrame
    windows: DataFrame
    dead_letters: DataFrame | None
    events: Mapping[str, int]
    shared: tuple[DataFrame, ...]


@dataclass(frozen=True)
class StepsResult:
    """What a run of steps gives, lazily; what has the same name as in :class:`Result` is the same.

    ``outputs``: of each output every row whose system timestamp lies in the output range, as system_timestamp;
    window_start, window_end and window_id where rows stem from windows; then the output's columns.
    ``shared_steps``: what several outputs are made of: who wants more than one of them persists it, too.
    """

    verdicts: DataFrame
    outputs: Mapping[str, DataFrame]
    dead_letters: DataFrame | None
    events: Mapping[str, int]
    shared: tuple[DataFrame, ...]
    shared_steps: tuple[DataFrame, ...]


def run(
    job: Job,
    arrivals: Mapping[str, DataFrame],
    output: OutputRange = EVERYTHING,
    initial_states: InitialStates | None = None,
    strategy: WatermarkStrategy = SORT,
    slices: LogSlices | None = None,
) -> Result:
    """Verdicts and windows of ``job`` over ``arrivals``, one DataFrame of table ``arrivals/<input>`` per input.

    Half-open ``output`` acts on ``window_end`` and on the arrival time of verdicts and dead letters. The caller
    ensures that ``arrivals``, with ``initial_states`` if there are any, hold what makes that range exact. ``strategy``
    is how watermarks are found; any but ``sort`` passes over the logs once before this returns. Where a log does not
    suit it, another one takes its place. ``file_order`` needs ``slices``; a query fails with ``NOT_IN_ORDER`` of
    :mod:`~pipelines.batch.stream_analytics.watermarks.file_order` if they are not in order. Raises :class:`UsageError`
    if an input is missing.
    """
    decided = _decide(job, arrivals, output, initial_states, strategy, slices)
    assert decided.members is not None, "a query of one step has windows"
    return Result(
        verdicts=_verdict_table(decided.verdicts, output),
        windows=_windows(job, decided.members, output),
        dead_letters=_dead_letter_table(decided.dead_letters, output),
        events=decided.events,
        shared=decided.shared,
    )


def run_steps(
    job: Job,
    arrivals: Mapping[str, DataFrame],
    references: Mapping[str, DataFrame],
    output: OutputRange = EVERYTHING,
    initial_states: InitialStates | None = None,
    strategy: WatermarkStrategy = SORT,
    slices: LogSlices | None = None,
    wanted: Collection[str] | None = None,
) -> StepsResult:
    """Verdicts and the ``wanted`` outputs (None: all) of a job of steps, as :func:`run` gives verdicts and windows.

    Half-open ``output`` acts on the system timestamp of outputs' rows. ``references``: see
    :func:`pipelines.batch.steps.outputs.evaluate`.
    """
    decided = _decide(job, arrivals, output, initial_states, strategy, slices)
    rules = decided.rules
    assert rules is not None, "profiles decide about the windows of steps"
    counting = decided.counting.items()
    inputs = {name: counted(frame, job.input(name), SYSTEM_US, rules.columns) for name, frame in counting}
    found = evaluate(job, inputs, references, wanted, output, rules)
    return StepsResult(
        verdicts=_verdict_table(decided.verdicts, output),
        outputs=found.outputs,
        dead_letters=_dead_letter_table(decided.dead_letters, output),
        events=decided.events,
        shared=decided.shared,
        shared_steps=found.shared,
    )


def windows_alone(
    job: Job,
    arrivals: Mapping[str, DataFrame],
    output: OutputRange = EVERYTHING,
    initial_states: InitialStates | None = None,
    strategy: WatermarkStrategy = SORT,
    slices: LogSlices | None = None,
) -> DataFrame:
    """The windows that :func:`run` gives; nothing is computed for verdicts."""
    if job.profile != "stream_analytics":
        return run(job, arrivals, output, initial_states, strategy).windows
    logs = _logs(job, arrivals, slices or {})
    return _windows(job, stream_analytics.members(job, logs, initial_states or {}, strategy), output)


def _decide(
    job: Job,
    arrivals: Mapping[str, DataFrame],
    output: OutputRange,
    initial_states: InitialStates | None,
    strategy: WatermarkStrategy,
    slices: LogSlices | None,
) -> Decided:
    logs = _logs(job, arrivals, slices or {})
    match job.profile:
        case "stream_analytics":
            return stream_analytics.decide(job, logs, output, initial_states or {}, strategy)
        case "atlas":
            return atlas.decide(job, _rows(logs), initial_states)
        case "stream_insight":
            return stream_insight.decide(job, _rows(logs), initial_states)


def _logs(job: Job, arrivals: Mapping[str, DataFrame], slices: LogSlices) -> dict[str, Log]:
    for source in job.inputs:
        if source.name not in arrivals:
            raise UsageError(f"job '{job.name}' reads input '{source.name}', of which no arrivals were given")
    return {one.name: Log(arrivals[one.name], one, rank, slices.get(one.name)) for rank, one in enumerate(job.inputs)}


def _rows(logs: Mapping[str, Log]) -> dict[str, DataFrame]:
    return {name: log.rows() for name, log in logs.items()}


def _windows(job: Job, members: DataFrame, output: OutputRange) -> DataFrame:
    return _window_table(aggregate(members.filter(within(WINDOW_END_US, output)), job.window_query), job)


def _verdict_table(verdicts: DataFrame, output: OutputRange) -> DataFrame:
    return verdicts.filter(within(ARRIVAL_US, output)).select(
        F.col(INPUT).alias("input"),
        F.col(PARTITION).alias("input_partition"),
        F.col(SEQUENCE).alias("sequence"),
        F.timestamp_micros(ARRIVAL_US).alias("arrival_time"),
        F.timestamp_micros(EVENT_US).alias("event_time"),
        F.col(VERDICT).alias("verdict"),
        F.col(REASONS).alias("reasons"),
        F.timestamp_micros(SYSTEM_US).alias("system_timestamp"),
        F.timestamp_micros(LIFETIME_END_US).alias("lifetime_end"),
        F.timestamp_micros(WATERMARK_US).alias("watermark"),
        F.transform(MISSED_US, F.timestamp_micros).alias("missed_windows"),
    )


def _window_table(windows: DataFrame, job: Job) -> DataFrame:
    names = [output_name(column) for column in job.window_query.group_by]
    names += [aggregate.name for aggregate in job.window_query.aggregates]
    return windows.select(
        F.timestamp_micros(WINDOW_START_US).alias("window_start"),
        F.timestamp_micros(WINDOW_END_US).alias("window_end"),
        F.col(WINDOW_ID).alias("window_id"),
        *names,
    )


def _dead_letter_table(dead_letters: DataFrame | None, output: OutputRange) -> DataFrame | None:
    return None if dead_letters is None else dead_letters.filter(within(ARRIVAL_US, output)).drop(ARRIVAL_US)
