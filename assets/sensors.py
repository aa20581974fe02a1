"""Two sensors a job: one replays stale days again, one replays the ranges that failed or killed runs left.

Both decide from the run ledger, the commits of the logs and Dagster's own runs, without Spark. They read the job file
at each tick, as runs do: the definitions that are loaded may be older.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg

from assets.days_job import range_tags
from assets.history import LOOK_BACK, attempts, outcomes
from assets.keys import ATTEMPT_TAG, LOST_TAG, READ_TAG, WHY_TAG, days_name, replay_name
from assets.replay_job import replay_config
from pipelines.core.errors import TailraceError
from pipelines.core.intervals import format_ends, format_range
from pipelines.core.model import Job
from pipelines.job.load import load_job
from pipelines.lakehouse.layout import tables_read
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import abandon_dead, runs_of
from pipelines.lakehouse.watch import watch_of
from pipelines.quality.freshness import StaleDay, stale_days, summary, versions_now
from pipelines.quality.lost_ranges import LostRange, lost_ranges
from pipelines.replay.builder import LogReads

MAX_ATTEMPTS = 2
"""How often a lost range is replayed for the same cause within a week, before a person is needed."""
_EVERY_SECONDS = 60

Evaluation = dg.SensorResult | dg.SkipReason


def current_job(path: Path, job_name: str) -> Job | dg.SkipReason:
    """The job that its file describes now, or why there is none."""
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
    # the job and its tables when no day was stale
    fresh: object = None

    @dg.sensor(
        name=f"{job_name}_stale_days",
        job_name=days_name(job_name),
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if started else dg.DefaultSensorStatus.STOPPED,
        description=(
            "Replays the days again that late arrivals, a corrected batch or a changed job file made stale, and only"
            " those, never days that were not replayed. The cursor contains the last decision: the days, and why."
        ),
    )
    def stale() -> Evaluation:
        nonlocal fresh
        job = current_job(path, job_name)
        if isinstance(job, dg.SkipReason):
            return job
        try:
            state = job, watch_of(lakehouse).state(job_name, tables_read(job))
            if state == fresh:
                return dg.SkipReason("no replayed day is stale: nothing has changed")
            found = stale_days(lakehouse, job)
            versions = versions_now(lakehouse, job)
        except TailraceError as error:
            return dg.SkipReason(f"the lakehouse cannot be read: {error}")
        known = set(partitions.get_partition_keys())
        days = [day for day in found if day.day.isoformat() in known]
        decision = {"job_fingerprint": job.fingerprint, "versions": versions, "stale": summary(days)}
        cursor = json.dumps(decision, ensure_ascii=False)
        fresh = None if found else state
        if not days:
            return dg.SensorResult(skip_reason=dg.SkipReason("no replayed day is stale"), cursor=cursor)
        requests = [_replay_again(job, versions, consecutive) for consecutive in _consecutive(days)]
        return dg.SensorResult(run_requests=requests, cursor=cursor)

    return stale


def lost_sensor(job_name: str, path: Path, lakehouse: Lakehouse, *, started: bool) -> dg.SensorDefinition:
    """``<job>_lost_ranges``: replays the ranges that failed or killed runs left."""
    # the job's part of the run ledger, and what its rows are when nothing has changed
    read: object = None
    ledger: list[dict[str, Any]] = []

    @dg.sensor(
        name=f"{job_name}_lost_ranges",
        job_name=replay_name(job_name),
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if started else dg.DefaultSensorStatus.STOPPED,
        description=(
            "Replays the output range of a run that failed or was killed, and records why: at most"
            f" {MAX_ATTEMPTS} times for a range and a cause within {LOOK_BACK.days} days. A run that a person"
            " cancelled is not replayed."
        ),
    )
    def lost(context: dg.SensorEvaluationContext) -> Evaluation:
        nonlocal read, ledger
        job = current_job(path, job_name)
        if isinstance(job, dg.SkipReason):
            return job
        try:
            state = watch_of(lakehouse).state(job_name, ())
            if state != read:
                ledger, read = runs_of(lakehouse, job_name), state
            if abandon_dead(lakehouse, job, ledger):
                ledger, read = runs_of(lakehouse, job_name), None
        except TailraceError as error:
            return dg.SkipReason(f"the lakehouse cannot be read: {error}")
        found = lost_ranges(outcomes(context.instance, job.name, ledger))
        if not found:
            return dg.SkipReason("no range is lost")
        requests, given_up = [], []
        for one in found:
            name, tried = format_range(one.output), attempts(context.instance, _counted_by(one))
            if tried >= MAX_ATTEMPTS:
                given_up.append(f"{name} was replayed {tried} times and lost again: {one.run.error}")
                continue
            try:
                requests.append(_recover(job, lakehouse, one, tried + 1))
            except TailraceError as error:
                given_up.append(f"{name} cannot be planned again: {error}")
        for sentence in given_up:
            context.log.warning(sentence)
        if not requests:
            return dg.SkipReason("; ".join(given_up))
        return dg.SensorResult(run_requests=requests)

    return lost


def _consecutive(days: Sequence[StaleDay]) -> Iterator[list[StaleDay]]:
    """The days in groups without a gap, each of which becomes one run."""
    group = list(days[:1])
    for before, day in pairwise(days):
        if day.day - before.day != timedelta(days=1):
            yield group
            group = []
        group.append(day)
    yield group


def _replay_again(job: Job, versions: dict[str, int], days: Sequence[StaleDay]) -> dg.RunRequest:
    first, last = days[0].day.isoformat(), days[-1].day.isoformat()
    # the same days get another run only if something else made them stale or they were replayed meanwhile
    state = [first, last, job.fingerprint, sorted(versions.items()), sorted({run for day in days for run in day.runs})]
    key = hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16]
    why = "; ".join(dict.fromkeys(why for day in days for why in day.why))
    return dg.RunRequest(
        run_key=f"{job.name}:stale:{first}:{last}:{key}",
        tags={**range_tags(first, last), WHY_TAG: f"stale: {why}"},
    )


def _recover(job: Job, lakehouse: Lakehouse, lost: LostRange, attempt: int) -> dg.RunRequest:
    read, name = LogReads(job, lakehouse).of(lost.output).range, format_range(lost.output)
    ends = format_ends(read.from_us, read.to_us)
    reason = f"run {lost.run.run_id} lost {name} ({lost.run.end}: {lost.run.error}); attempt {attempt}, reads [{ends}]"
    return dg.RunRequest(
        run_key=f"{job.name}:lost:{lost.run.run_id}:{name}",
        run_config=replay_config(job.name, lost.output, reason),
        tags={
            WHY_TAG: reason,
            LOST_TAG: _counted_by(lost),
            ATTEMPT_TAG: str(attempt),
            READ_TAG: f"[{ends}]",
        },
    )


def _counted_by(lost: LostRange) -> str:
    """Attempts are counted by the range and by how it was lost."""
    return f"{format_range(lost.output)} {lost.run.end}"
