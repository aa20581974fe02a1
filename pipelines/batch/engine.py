"""The batch engine: a job and its arrival logs to verdicts and window results, as lazy DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch import ordering_atlas, ordering_stream_analytics, ordering_stream_insight
from pipelines.batch.aggregates import aggregate
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
)
from pipelines.batch.decided import Decided
from pipelines.batch.normalise import normalise
from pipelines.core.carry import Carries
from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Job, OutputRange, output_name

_DECIDE: dict[str, Callable[..., Decided]] = {
    "stream_analytics": ordering_stream_analytics.decide,
    "atlas": ordering_atlas.decide,
    "stream_insight": ordering_stream_insight.decide,
}
"""What each profile decides over normalised DataFrames by input name, and over what was carried in."""


@dataclass(frozen=True)
class Result:
    """What a run gives, lazily: nothing is computed before the caller writes or collects.

    ``verdicts``: the columns of table ``verdicts/<job>`` without ``arrival_date``, one row for every event whose
    arrival time lies in the output range, the ones that simply counted included.
    ``windows``: ``window_start``, ``window_end``, ``window_id``, group keys by output name, aggregates; every window
    whose end lies in the output range. ``dead_letters``: None where the product has none.
    """

    verdicts: DataFrame
    windows: DataFrame
    dead_letters: DataFrame | None


def run(
    job: Job, arrivals: Mapping[str, DataFrame], output: OutputRange = EVERYTHING, carry: Carries | None = None
) -> Result:
    """Verdicts and windows of ``job`` over ``arrivals``, one DataFrame of table ``arrivals/<input>`` per input.

    Half-open ``output`` acts on ``window_end`` and on the arrival time of verdicts and dead letters; the caller sees
    to it that ``arrivals``, together with ``carry`` if there is one, hold what makes that range exact. Raises
    :class:`UsageError` if an input is missing.
    """
    decided = decide(job, _normalised(job, arrivals), carry)
    members = decided.members.filter(_within(WINDOW_END_US, output))
    return Result(
        verdicts=_verdict_table(decided.verdicts.filter(_within(ARRIVAL_US, output))),
        windows=_window_table(aggregate(members, job.query), job),
        dead_letters=None if decided.dead_letters is None else _dead_letter_table(decided.dead_letters, output),
    )


def decide(job: Job, inputs: Mapping[str, DataFrame], carry: Carries | None = None) -> Decided:
    """What the job's profile decides over normalised inputs, and over what was carried into them."""
    profile = _DECIDE[job.profile]
    return profile(job, inputs) if carry is None else profile(job, inputs, carry=carry)


def _normalised(job: Job, arrivals: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    for source in job.inputs:
        if source.name not in arrivals:
            raise UsageError(f"job '{job.name}' reads input '{source.name}', of which no arrivals were given")
    return {source.name: normalise(arrivals[source.name], source, rank) for rank, source in enumerate(job.inputs)}


def _within(column: str, output: OutputRange) -> Column:
    inside = F.lit(True)
    if output.from_us is not None:
        inside = inside & (F.col(column) >= output.from_us)
    if output.to_us is not None:
        inside = inside & (F.col(column) < output.to_us)
    return inside


def _verdict_table(verdicts: DataFrame) -> DataFrame:
    return verdicts.select(
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
    names = [output_name(column) for column in job.query.group_by]
    names += [aggregate.name for aggregate in job.query.aggregates]
    return windows.select(
        F.timestamp_micros(WINDOW_START_US).alias("window_start"),
        F.timestamp_micros(WINDOW_END_US).alias("window_end"),
        F.col(WINDOW_ID).alias("window_id"),
        *names,
    )


def _dead_letter_table(dead_letters: DataFrame, output: OutputRange) -> DataFrame:
    return dead_letters.filter(_within(ARRIVAL_US, output)).drop(ARRIVAL_US)
