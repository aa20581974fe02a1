"""What Dagster knows of a job's runs, as deeds beside those of the run ledger.

The ledger knows every replay, also those of the command line, but not a run that died before it wrote its row, nor on
another machine whether a process lives, nor that a person stopped it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from assets.keys import LOST_TAG, days_name, is_output_key, replay_name
from assets.ranges import days_of_tags
from assets.replay_job import replayed_by
from pipelines.core.model import OutputRange
from pipelines.core.time import MINUTE, from_datetime
from pipelines.lakehouse.runs import ABANDONED, RUNNING
from pipelines.quality.losses import Deed, End, deeds_of

LOOK_BACK = timedelta(days=7)
"""Older failures are history: nobody replays them unasked."""
_UNDER_WAY = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
_ENDED_BADLY = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
_WILL_RETRY_TAG, _RETRY_TAG, _REASON_TAG = "dagster/will_retry", "dagster/auto_retry_run_id", "dagster/failure_reason"
_RETRY_WITHIN_US = 15 * MINUTE
"""Dagster retries within a minute or so; where its daemon is down nobody waits for it for ever."""
_FOREVER_US = 1 << 62


def deeds(instance: dg.DagsterInstance, job_name: str, ledger: Sequence[Mapping[str, Any]]) -> list[Deed]:
    """Everything that was done to the job's output within :data:`LOOK_BACK`, by ledger and by Dagster.

    ``ledger`` are the job's rows, with the dead of this machine marked already.
    """
    since = datetime.now(UTC) - LOOK_BACK
    rows = [row for row in ledger if row["started_at"] >= since]
    found = []
    for record in _records(instance, since):
        output = _output(record.dagster_run, job_name)
        if output is not None and (deed := _deed(record, output, rows)) is not None:
            found.append(deed)
            if deed.end in ("killed", "failed"):
                rows = [_not_running(row) if _is_row_of(row, record, output) else row for row in rows]
    return found + deeds_of(rows)


def attempts(instance: dg.DagsterInstance, lost: str) -> int:
    """How many recoveries of this loss were started within :data:`LOOK_BACK`."""
    filters = dg.RunsFilter(tags={LOST_TAG: lost}, created_after=datetime.now(UTC) - LOOK_BACK)
    return len(instance.get_run_records(filters))


def _records(instance: dg.DagsterInstance, since: datetime) -> list[dg.RunRecord]:
    filters = dg.RunsFilter(statuses=[*_UNDER_WAY, *_ENDED_BADLY], created_after=since)
    return list(instance.get_run_records(filters))


def _output(run: dg.DagsterRun, job_name: str) -> OutputRange | None:
    """The output range of a run that replays the job; None for any other run."""
    if run.job_name == replay_name(job_name):
        return replayed_by(job_name, run.run_config)
    selected = run.asset_selection
    replayed = any(is_output_key(job_name, key) for key in selected or ())
    if run.job_name == days_name(job_name) or replayed:
        return days_of_tags(run.tags)
    return None


def _deed(record: dg.RunRecord, output: OutputRange, rows: Sequence[Mapping[str, Any]]) -> Deed | None:
    """None where the ledger knows better."""
    run = record.dagster_run
    began_us, ended_us = _times(record)
    waits = (
        run.tags.get(_WILL_RETRY_TAG) == "true"
        and _RETRY_TAG not in run.tags
        and from_datetime(datetime.now(UTC)) - ended_us < _RETRY_WITHIN_US
    )
    end: End
    if run.status in _UNDER_WAY or waits:
        if any(row["status"] == ABANDONED and _is_row_of(row, record, output) for row in rows) and not waits:
            # Dagster has not seen yet that its process is gone
            return None
        # whatever the ledger says of this range, someone is at it
        at_us, end = _FOREVER_US, "done"
    elif run.status == dg.DagsterRunStatus.CANCELED:
        at_us, end = ended_us, "left_alone"
    else:
        # at its begin: what the run did write counts as later than its failure
        at_us, end = began_us, "failed" if run.tags.get(_REASON_TAG) == "STEP_FAILURE" else "killed"
    what = (run.tags.get(_REASON_TAG) or "no reason known").lower().replace("_", " ")
    return Deed(run.run_id, output, at_us, end, f"Dagster run {run.run_id} failed: {what}")


def _is_row_of(row: Mapping[str, Any], record: dg.RunRecord, output: OutputRange) -> bool:
    """Whether a run of the ledger is what this Dagster run did: the same range, in its time."""
    ends = [None if row[name] is None else from_datetime(row[name]) for name in ("output_from", "output_to")]
    began_us, ended_us = _times(record)
    return OutputRange(*ends) == output and began_us <= from_datetime(row["started_at"]) <= ended_us


def _not_running(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row that still says running where Dagster saw the process end: that of another machine."""
    if row["status"] != RUNNING:
        return row
    return {**row, "status": ABANDONED, "error": "its process is gone, as Dagster saw"}


def _times(record: dg.RunRecord) -> tuple[int, int]:
    """When the run began and ended, in microseconds; one that goes on ends in no time."""
    began_us = from_datetime(record.create_timestamp.astimezone(UTC))
    return began_us, _FOREVER_US if record.end_time is None else round(record.end_time * 1_000_000)
