"""One schedule a job: each day the newest settled day is replayed, unless that was done."""

import hashlib
import json
from pathlib import Path

import dagster as dg

from assets.keys import WHY_TAG, days_name
from assets.sensors import current_job
from pipelines.core.errors import TailraceError
from pipelines.core.model import Job
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.freshness import is_replayed, newest_settled_day, stale_days, versions_now

CRON = "30 1 * * *"
"""01:30 UTC: the day is over, and so is the late tolerance of most jobs."""
WAITING_CRON = "*/15 * * * *"
"""Of a job whose arrivals come from a source: the day is replayed once ingest has settled it, whenever that is."""


def daily_schedule(
    job_name: str,
    path: Path,
    lakehouse: Lakehouse,
    partitions: dg.PartitionsDefinition[str],
    *,
    waits: bool,
    started: bool,
) -> dg.ScheduleDefinition:
    """``<job>_daily``: replays the newest settled day, or skips with the reason. ``waits``: for a source."""

    @dg.schedule(
        name=f"{job_name}_daily",
        job_name=days_name(job_name),
        cron_schedule=WAITING_CRON if waits else CRON,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING if started else dg.DefaultScheduleStatus.STOPPED,
        description=(
            "Replays the newest settled day: the last one whose late tolerance every living input partition has passed."
            " Skips when there is none, and when it was replayed from the same arrivals with the same job file."
        ),
    )
    def daily() -> dg.RunRequest | dg.SkipReason:
        job = current_job(path, job_name)
        if isinstance(job, dg.SkipReason):
            return job
        try:
            return _decide(job, lakehouse, partitions)
        except TailraceError as error:
            return dg.SkipReason(str(error))

    return daily


def _decide(job: Job, lakehouse: Lakehouse, partitions: dg.PartitionsDefinition[str]) -> dg.RunRequest | dg.SkipReason:
    settled = newest_settled_day(lakehouse, job)
    if settled.day is None:
        return dg.SkipReason(settled.why)
    day = settled.day.isoformat()
    if not partitions.has_partition_key(day):
        return dg.SkipReason(
            f"{day} is settled, but no partition yet: it is not over by this machine's clock, or the definitions were"
            " loaded before the logs had it: reload them"
        )
    stale = {found.day: found for found in stale_days(lakehouse, job)}
    if is_replayed(lakehouse, job, settled.day) and settled.day not in stale:
        return dg.SkipReason(
            f"{day}, the newest settled day, is replayed already, from these arrivals and this job file"
        )
    why = "; ".join(stale[settled.day].why) if settled.day in stale else settled.why
    runs = stale[settled.day].runs if settled.day in stale else ()
    state = [job.fingerprint, sorted(versions_now(lakehouse, job).items()), sorted(runs)]
    return dg.RunRequest(
        run_key=f"{job.name}:daily:{day}:{hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16]}",
        partition_key=day,
        tags={WHY_TAG: f"the newest settled day: {why}"},
    )
