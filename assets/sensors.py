"""Two sensors a job: days that something made stale are replayed again, and ranges that a failed run lost are replayed.

Both decide from the run ledger, the logs' commits and Dagster's own runs, and start no Spark. They read the job file
at each tick, because runs do: what is loaded here may be older.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import dagster as dg

from assets.days_job import range_tags
from assets.history import LOOK_BACK, attempts, deeds
from assets.keys import ATTEMPT_TAG, LOST_TAG, READ_TAG, WHY_TAG, days_name, replay_name
from assets.replay_job import replay_config
from pipelines.core.errors import TailraceError
from pipelines.core.model import Job, OutputRange
from pipelines.job.load import load_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import abandon_dead, runs_of
from pipelines.plan.definition import instant_or_none
from pipelines.quality.freshness import StaleDay, stale_days, summary, versions_now
from pipelines.quality.losses import Loss, losses
from pipelines.replay.builder import LogReads

MAX_ATTEMPTS = 2
"""How often a lost range is replayed for the same cause within a week, before a person is needed."""
_EVERY_SECONDS = 60

Evaluation = dg.SensorResult | dg.SkipReason


def current_job(path: Path, job_name: str) -> Job | dg.SkipReason:
    """The job as its file says now, or why there is none."""
    try:
        job = load_job(path)
    except TailraceError as error:
        return dg.SkipReason(f"the job file is not valid: {error}")
    if job.name != job_name:
        return dg.SkipReason(f"{path.name} describes the job {job.name} now, no longer {job_name}: reload")
    return job


def stale_sensor(
    job_name: str, path: Path, lakehouse: Lakehouse, partitions: dg.PartitionsDefinition[str], *, started: bool
) -> dg.SensorDefinition:
    """``<job>_stale_days``: asks for another replay of exactly the days whose results are stale."""

    @dg.sensor(
        name=f"{job_name}_stale_days",
        job_name=days_name(job_name),
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if started else dg.DefaultSensorStatus.STOPPED,
        description=(
            "Replays the days again that late arrivals, a corrected batch or a changed job file made stale, and only"
            " those. Days never replayed are left alone. The cursor holds the last decision: days, and why."
        ),
    )
    def stale() -> Evaluation:
        job = current_job(path, job_name)
        if isinstance(job, dg.SkipReason):
            return job
        try:
            found = stale_days(lakehouse, job)
            versions = versions_now(lakehouse, job)
        except TailraceError as error:
            return dg.SkipReason(f"the lakehouse cannot be read: {error}")
        known = set(partitions.get_partition_keys())
        days = [day for day in found if day.day.isoformat() in known]
        decision = {"job_fingerprint": job.fingerprint, "versions": versions, "stale": summary(days)}
        cursor = json.dumps(decision, ensure_ascii=False)
        if not days:
            return dg.SensorResult(skip_reason=dg.SkipReason("no replayed day is stale"), cursor=cursor)
        requests = [_replay_again(job, versions, stretch) for stretch in _stretches(days)]
        return dg.SensorResult(run_requests=requests, cursor=cursor)

    return stale


def lost_sensor(job_name: str, path: Path, lakehouse: Lakehouse, *, started: bool) -> dg.SensorDefinition:
    """``<job>_lost_ranges``: replays what a failed or killed run left undone."""

    @dg.sensor(
        name=f"{job_name}_lost_ranges",
        job_name=replay_name(job_name),
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if started else dg.DefaultSensorStatus.STOPPED,
        description=(
            "Replays the output range of a run that failed or was killed, from the start that its read range gives,"
            f" and says why: at most {MAX_ATTEMPTS} times for a range and a cause within {LOOK_BACK.days} days. What a"
            " person stopped is left alone."
        ),
    )
    def lost(context: dg.SensorEvaluationContext) -> Evaluation:
        job = current_job(path, job_name)
        if isinstance(job, dg.SkipReason):
            return job
        try:
            abandon_dead(lakehouse, job.name)
            ledger = runs_of(lakehouse, job.name)
        except TailraceError as error:
            return dg.SkipReason(f"the lakehouse cannot be read: {error}")
        found = losses(deeds(context.instance, job.name, ledger))
        if not found:
            return dg.SkipReason("no range is lost")
        requests, given_up = [], []
        for loss in found:
            tried = attempts(context.instance, _name(loss))
            if tried >= MAX_ATTEMPTS:
                given_up.append(f"{_told(loss.output)} was replayed {tried} times and lost again: {loss.deed.error}")
                continue
            try:
                requests.append(_recover(job, lakehouse, loss, tried + 1))
            except TailraceError as error:
                given_up.append(f"{_told(loss.output)} cannot be planned again: {error}")
        for sentence in given_up:
            context.log.warning(sentence)
        if not requests:
            return dg.SkipReason("; ".join(given_up))
        return dg.SensorResult(run_requests=requests)

    return lost


def _stretches(days: Sequence[StaleDay]) -> Iterator[list[StaleDay]]:
    """Days in a row become one run."""
    stretch = list(days[:1])
    for before, day in pairwise(days):
        if day.day - before.day != timedelta(days=1):
            yield stretch
            stretch = []
        stretch.append(day)
    yield stretch


def _replay_again(job: Job, versions: dict[str, int], days: Sequence[StaleDay]) -> dg.RunRequest:
    first, last = days[0].day.isoformat(), days[-1].day.isoformat()
    # the same days are asked for again only when something else made them stale, or they were replayed meanwhile
    state = [first, last, job.fingerprint, sorted(versions.items()), sorted({run for day in days for run in day.runs})]
    key = hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16]
    why = "; ".join(dict.fromkeys(why for day in days for why in day.why))
    return dg.RunRequest(
        run_key=f"{job.name}:stale:{first}:{last}:{key}",
        tags={**range_tags(first, last), WHY_TAG: f"stale: {why}"},
    )


def _recover(job: Job, lakehouse: Lakehouse, loss: Loss, attempt: int) -> dg.RunRequest:
    read = LogReads(job, lakehouse).of(loss.output).range
    begin = instant_or_none(read.from_us) or "the beginning"
    reason = (
        f"run {loss.deed.run} lost {_told(loss.output)} ({loss.deed.end}: {loss.deed.error});"
        f" attempt {attempt}, reading from {begin}"
    )
    return dg.RunRequest(
        run_key=f"{job.name}:lost:{loss.deed.run}:{_told(loss.output)}",
        run_config=replay_config(job.name, loss.output, reason),
        tags={
            WHY_TAG: reason,
            LOST_TAG: _name(loss),
            ATTEMPT_TAG: str(attempt),
            READ_TAG: f"[{begin}, {instant_or_none(read.to_us) or 'the end'}]",
        },
    )


def _name(loss: Loss) -> str:
    """What attempts are counted by: the range, and how it was lost."""
    return f"{_told(loss.output)} {loss.deed.end}"


def _told(output: OutputRange) -> str:
    begin = instant_or_none(output.from_us) or "the beginning"
    return f"[{begin}, {instant_or_none(output.to_us) or 'the end'})"
