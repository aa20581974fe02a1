"""``<job>_days``: everything that a job's days consist of, for one day or a range of them."""

from typing import TYPE_CHECKING

import dagster as dg

from assets.keys import JOB_TAG, days_name, stream_output_keys
from assets.ranges import RANGE_END_TAG, RANGE_START_TAG
from pipelines.core.model import Job

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition


def days_job(job: Job) -> "UnresolvedAssetJobDefinition":
    """The job ``<job>_days``, which schedules and sensors start: the job's assets with their checks."""
    group = dg.AssetSelection.groups(job.name)
    return dg.define_asset_job(
        days_name(job.name),
        selection=group - dg.AssetSelection.assets(*stream_output_keys(job)),
        description=f"Looks at the arrivals of the chosen days, replays {job.name} over them, and checks both.",
        tags={JOB_TAG: job.name},
        executor_def=dg.in_process_executor,
    )


def range_tags(first: str, last: str) -> dict[str, str]:
    """Run tags that make one run of the partitions ``first`` to ``last``, both included."""
    return {RANGE_START_TAG: first, RANGE_END_TAG: last}
