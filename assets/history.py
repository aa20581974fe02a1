"""The outcomes of a job's runs, by Dagster's run records and by the run ledger.

The ledger has every replay, also those of the command line. It does not have a run that died before it wrote its row,
and does not know whether a process on another machine is alive or whether a person cancelled it. Dagster does.
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
from pipelines.lakehouse.owned_ranges import output_of
from pipelines.lakehouse.runs import ABANDONED, RUNNING
from pipelines.quality.lost_ranges import End, RunOutcome, outcomes_of

LOOK_BACK = timedelta(days=7)
"""Older failures are not replayed automatically."""
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
"""Dagster retries within a minute or so; a retry that takes longer is not waited for."""
_FOREVER_US = 1 << 62


def outcomes(instance: dg.DagsterInstance, job_name: str, ledger: Sequence[Mapping[str, Any]]) -> list[RunOutcome]:
    """The outcomes of all runs over the job's output within :data:`LOOK_BACK`, by the ledger and by Dagster.

    ``ledger`` are the job's rows, in which runs of this machine whose process is gone are marked as abandoned.
    """
    since = datetime.now(UTC) - LOOK_BACK
    rows = [row for row in ledger if row["started_at"] >= since]
    found = []
    for record in _records(instance, since):
        output = _output(record.dagster_run, job_name)
        if output is not None and (outcome := _outcome(record, output, rows)) is not None:
            found.append(outcome)
            if outcome.end in ("killed", "failed"):
                rows = [_not_running(row) if _is_row_of(row, record, output) else row for row in rows]
    return found + outcomes_of(rows)


def attempts(instance: dg.DagsterInstance, lost: str) -> int:
    """How many recoveries of this lost range were started within :data:`LOOK_BACK`."""
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


def _outcome(record: dg.RunRecord, output: OutputRange, rows: Sequence[Mapping[str, Any]]) -> RunOutcome | None:
    """The outcome by Dagster's record; None if the ledger's is newer."""
    run = record.dagster_run
    started_us, ended_us = _times(record)
    waits = (
        run.tags.get(_WILL_RETRY_TAG) == "true"
        and _RETRY_TAG not in run.tags
        and from_datetime(datetime.now(UTC)) - ended_us < _RETRY_WITHIN_US
    )
    end: End
    if run.status in _UNDER_WAY or waits:
        if any(row["status"] == ABANDONED and _is_row_of(row, record, output) for row in rows) and not waits:
            # Dagster has not noticed yet that the process is gone
            return None
        # the run is active, so it is the last one over its range whatever the ledger contains
        at_us, end = _FOREVER_US, "done"
    elif run.status == dg.DagsterRunStatus.CANCELED:
        at_us, end = ended_us, "cancelled"
    else:
        # at its start, so that a replay that the run finished is newer than its failure
        at_us, end = started_us, "failed" if run.tags.get(_REASON_TAG) == "STEP_FAILURE" else "killed"
    reason = (run.tags.get(_REASON_TAG) or "no reason known").lower().replace("_", " ")
    return RunOutcome(run.run_id, output, at_us, end, f"Dagster run {run.run_id} failed: {reason}")


def _is_row_of(row: Mapping[str, Any], record: dg.RunRecord, output: OutputRange) -> bool:
    """Whether this Dagster run wrote the ledger's row: the same range, started while the run was active."""
    started_us, ended_us = _times(record)
    return output_of(row) == output and started_us <= from_datetime(row["started_at"]) <= ended_us


def _not_running(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, abandoned if it is still running: the process was on another machine, and Dagster saw it end."""
    if row["status"] != RUNNING:
        return row
    return {**row, "status": ABANDONED, "error": "its process is gone, by Dagster's record"}


def _times(record: dg.RunRecord) -> tuple[int, int]:
    """When the run started and ended, in microseconds; the end of an active run is far in the future."""
    started_us = from_datetime(record.create_timestamp.astimezone(UTC))
    return started_us, _FOREVER_US if record.end_time is None else round(record.end_time * 1_000_000)
